package traffic

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hone-go/hone/tool/load/offer"
)

// Data is a file of values. Each session has one row of it.
type Data struct {
	Name string
	// File is CSV, whose first line names the columns; or, if its name ends in .jsonl, .ndjson or
	// .json, JSON lines: an object per line, with the same keys in all of them.
	File  string
	Order string // InOrder, Random or Once. Zero: InOrder
	// Open opens File. Nil: from this machine's disk.
	Open func(file string) (io.ReadCloser, error) `json:"-"`
}

// Which row a session has.
const (
	InOrder = "in-order" // session n of a flow has row n; after the last row comes the first
	Random  = "random"   // any row, independently of other sessions
	Once    = "once"     // session n has row n, and the load ends when the rows are used up
)

// table is the data in memory: all values in one buffer, and where each ends. 10⁶ rows of three
// columns of 10 bytes need 42 MB.
type table struct {
	name    string
	order   string
	key     uint64
	columns []string
	longest []int // length of the longest value of each column
	rows    int
	bytes   []byte
	ends    []uint32
}

const (
	mostFile = 1 << 30
	mostRows = 1 << 24
)

// value returns the value at a row and a column.
func (t *table) value(row, column int) []byte {
	at, from := row*len(t.columns)+column, uint32(0)
	if at > 0 {
		from = t.ends[at-1]
	}
	return t.bytes[from:t.ends[at]]
}

// row returns the session's row.
func (s *Session) row(t *table) int {
	n := s.number
	if t.order == Random {
		n = offer.Scramble(s.seed()^t.key, n)
	}
	return int(n % uint64(t.rows))
}

// readTable reads a file.
func readTable(d Data) (*table, error) {
	d.Order = cmp.Or(d.Order, InOrder)
	t := &table{name: d.Name, order: d.Order, key: keyOf("data", d.Name)}
	if err := checkName("data", d.Name); err != nil || d.Name == "" || strings.Contains(d.Name, ".") {
		return nil, fmt.Errorf("data cannot have the name %q; use letters, digits, - and _", d.Name)
	}
	if !slices.Contains([]string{InOrder, Random, Once}, d.Order) {
		return nil, fmt.Errorf("order: unknown order %q; use %s, %s or %s", d.Order, InOrder, Random, Once)
	}
	if d.File == "" {
		return nil, errors.New("it has no file; name one, as in file = \"users.csv\"")
	}
	open := d.Open
	if open == nil {
		open = func(name string) (io.ReadCloser, error) { return os.Open(name) }
	}
	file, err := open(d.File)
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w; name a file; relative names are looked up in the scenario's folder", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w; name a file of CSV or JSON lines", err)
	}
	if len(text) > mostFile {
		return nil, fmt.Errorf("%s has more than 1 GiB; split it", d.File)
	}
	read := t.readCSV
	if slices.Contains([]string{".jsonl", ".ndjson", ".json"}, filepath.Ext(d.File)) {
		read = t.readLines
	}
	t.bytes = make([]byte, 0, len(text))
	if err := read(text); err != nil {
		return nil, fmt.Errorf("%s: %w", d.File, err)
	}
	if t.rows == 0 {
		return nil, fmt.Errorf("%s has no rows; write one a line", d.File)
	}
	t.bytes, t.ends = bytes.Clone(t.bytes), slices.Clip(t.ends)
	return t, nil
}

// begin sets the columns.
func (t *table) begin(columns []string) error {
	for i, c := range columns {
		if c == "" || slices.Contains(columns[:i], c) {
			return fmt.Errorf("its columns are %q; name each once in the first line", columns)
		}
	}
	t.columns, t.longest = slices.Clone(columns), make([]int, len(columns))
	return nil
}

// add appends a value.
func (t *table) add(value []byte) {
	column := len(t.ends) % len(t.columns)
	t.longest[column] = max(t.longest[column], len(value))
	t.bytes = append(t.bytes, value...)
	t.ends = append(t.ends, uint32(min(uint64(len(t.bytes)), math.MaxUint32)))
}

func (t *table) added() error {
	if t.rows++; t.rows > mostRows {
		return fmt.Errorf("it has more than %d rows; split it", mostRows)
	}
	return nil
}

func (t *table) readCSV(text []byte) error {
	lines := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	lines.ReuseRecord = true
	columns, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty; name the columns in its first line")
	}
	if err == nil {
		err = t.begin(columns)
	}
	for err == nil {
		var row []string
		if row, err = lines.Read(); err != nil {
			break
		}
		for _, value := range row {
			t.add([]byte(value))
		}
		err = t.added()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if wrong := new(csv.ParseError); errors.As(err, &wrong) {
		return fmt.Errorf("line %d: %w; write as many values as the first line has columns, with quotes around those with commas", wrong.Line, wrong.Err)
	}
	return err
}

// readLines reads JSON lines. The first line's keys are the columns.
func (t *table) readLines(text []byte) error {
	number := 0
	var values [][]byte
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if t.columns == nil {
			var columns []string
			if eachField(line, func(key, _ gjson.Result) { columns = append(columns, key.Str) }) != nil {
				return fmt.Errorf("line %d is no JSON object; write one a line, as in {\"name\": \"ada\"}", number)
			}
			if err := t.begin(columns); err != nil {
				return err
			}
			values = make([][]byte, len(columns))
		}
		clear(values)
		if eachField(line, func(key, value gjson.Result) {
			if i := slices.Index(t.columns, key.Str); i >= 0 {
				values[i] = appendText([]byte{}, value) // an empty string is a value, too
			}
		}) != nil {
			return fmt.Errorf("line %d is no JSON object; write one a line, as in {\"name\": \"ada\"}", number)
		}
		for i, value := range values {
			if value == nil {
				return fmt.Errorf("line %d has no %q, which the first line has; write the same keys in all lines", number, t.columns[i])
			}
			t.add(value)
		}
		if err := t.added(); err != nil {
			return err
		}
	}
	return nil
}
