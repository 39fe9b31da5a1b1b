package traffic

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load/offer"
)

// Template is text with values in it. The zero Template is empty.
type Template struct {
	parts []part
	most  int
}

// part is literal text, or a value.
type part struct {
	literal []byte
	kind    kind
	from    int    // the table, or the index of the taken value
	column  int    // of the table
	low     uint64 // of a random number
	span    uint64
	key     uint64
	name    string
	escape  escape
}

type kind uint8

const (
	literal kind = iota
	ofTable
	taken
	number
	random
)

// escape is how a value is escaped.
type escape uint8

const (
	plain    escape = iota // nothing
	inPath                 // percent-encoded, except letters, digits, - . _ and ~
	inURI                  // percent-encoded where a URI does not allow the byte
	inHeader               // kept on one line: control characters become blanks
	inJSON                 // as between the quotes of a JSON string
	inBase64
)

// Most returns the longest length of the expanded template.
func (t *Template) Most() int { return t.most }

// least returns the shortest length.
func (t *Template) least() (n int) {
	for _, p := range t.parts {
		switch n += len(p.literal); p.kind {
		case number:
			n++
		case random:
			n += len(strconv.FormatUint(p.low, 10))
		}
	}
	return n
}

// Literal returns the template's text if it contains no values.
func (t *Template) Literal() (text []byte, ok bool) {
	switch {
	case len(t.parts) == 0:
		return nil, true
	case len(t.parts) == 1 && t.parts[0].kind == literal:
		return t.parts[0].literal, true
	}
	return nil, false
}

// Literal returns a template without values.
func Literal(text string) Template {
	if text == "" {
		return Template{}
	}
	return Template{[]part{{literal: []byte(text)}}, len(text)}
}

// Join concatenates templates.
func Join(templates ...Template) (t Template) {
	for _, each := range templates {
		t.most += each.most
		for _, p := range each.parts {
			if last := len(t.parts) - 1; last >= 0 && p.kind == literal && t.parts[last].kind == literal {
				t.parts[last].literal = append(bytes.Clone(t.parts[last].literal), p.literal...)
				continue
			}
			t.parts = append(t.parts, p)
		}
	}
	return t
}

// IsEmpty reports whether the template is empty.
func (t *Template) IsEmpty() bool { return len(t.parts) == 0 }

// Append appends the template expanded with the session's values. It does not allocate if dst has
// room.
func (t *Template) Append(dst []byte, s *Session) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		switch p.kind {
		case literal:
			dst = append(dst, p.literal...)
		case ofTable:
			table := s.script.tables[p.from]
			dst = p.escape.append(dst, table.value(s.row(table), p.column))
		case taken:
			if s.preview {
				dst = append(append(append(dst, '<'), p.name...), '>')
				continue
			}
			dst = p.escape.append(dst, s.values[p.from])
		case number:
			dst = strconv.AppendUint(dst, s.number, 10)
		case random:
			dst = strconv.AppendUint(dst, p.low+offer.Scramble(s.seed()^p.key, s.number)%p.span, 10)
		}
	}
	return dst
}

// append appends a value.
func (e escape) append(dst, value []byte) []byte {
	const digits = "0123456789ABCDEF"
	if e == plain {
		return append(dst, value...)
	}
	if e == inBase64 {
		return base64.StdEncoding.AppendEncode(dst, value)
	}
	for _, b := range value {
		switch {
		case e == inPath && !isUnreserved(b), e == inURI && (b <= ' ' || b >= 0x7f):
			dst = append(dst, '%', digits[b>>4], digits[b&15])
		case e == inHeader && (b < ' ' && b != '\t' || b == 0x7f):
			dst = append(dst, ' ')
		case e == inJSON && (b < ' ' || b == '"' || b == '\\'):
			dst = append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

func isUnreserved(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '.' || b == '_' || b == '~'
}

// growth returns by which factor escaping can lengthen a value.
func (e escape) growth() int {
	switch e {
	case inPath, inURI:
		return len("%00")
	case inJSON:
		return len(`\u0000`)
	case inBase64:
		return 2
	}
	return 1
}

// compiler compiles a step.
type compiler struct {
	script  *Script
	flow    *flow
	request *Request
	randoms int
}

// template parses the text of a key.
func (c *compiler) template(key, text string, usual escape) (t Template, err error) {
	rest := text
	for rest != "" {
		before, behind, found := strings.Cut(rest, "{{")
		if before != "" {
			t.parts = append(t.parts, part{literal: []byte(before)})
			t.most += len(before)
		}
		if !found {
			break
		}
		inner, after, closed := strings.Cut(behind, "}}")
		if !closed {
			return t, fmt.Errorf("%s: {{ is not closed; write a value as in {{users.name}}", key)
		}
		p, most, err := c.value(inner, usual)
		if err != nil {
			return t, fmt.Errorf("%s: {{%s}}: %w", key, inner, err)
		}
		t.parts = append(t.parts, p)
		t.most += most
		rest = after
	}
	return t, nil
}

// value parses the text between the braces.
func (c *compiler) value(text string, usual escape) (p part, most int, err error) {
	name, filter, filtered := strings.Cut(text, "|")
	name = strings.TrimSpace(name)
	p = part{name: name, escape: usual}
	if filtered {
		if p.escape, err = filterOf(strings.TrimSpace(filter), usual); err != nil {
			return p, 0, err
		}
	}
	const digits = 20 // of the largest uint64
	if name == "n" {
		p.kind = number
		return p, digits, nil
	}
	if bounds, ok := strings.CutPrefix(name, "random:"); ok {
		p.kind = random
		c.randoms++
		p.key = keyOf("random", c.flow.name, c.request.Name, strconv.Itoa(c.randoms))
		p.low, p.span, err = parseBounds(bounds)
		return p, digits, err
	}
	if table, column, ok := strings.Cut(name, "."); ok {
		return c.column(p, table, column)
	}
	if p.from = slices.Index(c.flow.taken, name); p.from < 0 {
		if c.script.table(name) >= 0 {
			return p, 0, fmt.Errorf("data have no value of their own; name a column, as in {{%s.%s}}", name, c.script.tables[c.script.table(name)].columns[0])
		}
		return p, 0, fmt.Errorf("no earlier step of the flow takes %s; %s", name, known("it takes", c.flow.taken, "take it, as in take.token = \"json token\", or name data, as in {{users.name}}"))
	}
	p.kind = taken
	return p, mostValue * p.escape.growth(), nil
}

// column returns the part for a column of a table.
func (c *compiler) column(p part, table, column string) (part, int, error) {
	if p.from = c.script.table(table); p.from < 0 {
		var names []string
		for _, t := range c.script.tables {
			names = append(names, t.name)
		}
		return p, 0, fmt.Errorf("there are no data %s; %s", table, known("there are", names, "name a file, as in [data."+table+"] file = \""+table+".csv\""))
	}
	t := c.script.tables[p.from]
	if p.column = slices.Index(t.columns, column); p.column < 0 {
		return p, 0, fmt.Errorf("there is no column %s in the data %s; use one of %s", column, table, strings.Join(t.columns, ", "))
	}
	p.kind = ofTable
	if !slices.Contains(c.flow.tables, p.from) {
		c.flow.tables = append(c.flow.tables, p.from)
	}
	return p, t.longest[p.column] * p.escape.growth(), nil
}

func known(what string, names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return what + " " + strings.Join(names, ", ")
}

func filterOf(name string, usual escape) (escape, error) {
	e, ok := map[string]escape{"json": inJSON, "url": inPath, "base64": inBase64, "raw": plain}[name]
	if !ok {
		return 0, fmt.Errorf("unknown form %q; use raw, json, url or base64", name)
	}
	switch {
	case e == plain && usual == inPath:
		e = inURI
	case e == plain:
		e = usual // headers and lines stay on one line
	}
	return e, nil
}

var errBounds = errors.New("there are no such bounds; write a random number as in {{random:1..100}}, the smaller one first")

func parseBounds(text string) (low, span uint64, err error) {
	first, last, _ := strings.Cut(text, "..")
	low, err = strconv.ParseUint(strings.TrimSpace(first), 10, 63)
	high, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 63)
	if err != nil || err2 != nil || high < low {
		return 0, 1, errBounds
	}
	return low, high - low + 1, nil
}
