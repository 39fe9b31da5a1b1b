package record

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // schema.sql
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID is in the header of every store: "hone".
const applicationID = 0x686f6e65

const (
	idDigits  = 12
	refDigits = 4       // of an ID, at least
	mostBlobs = 1 << 29 // bytes, of one run: SQLite allows up to a billion per blob
	timeText  = "2006-01-02T15:04:05.000000000Z"
)

// version is that of the schema; the header of a store has it.
const version = 1

//go:embed schema.sql
var schema string

// Store stores runs in one file. It is safe for concurrent use by goroutines and by
// programs; one writes at a time. Cancelling stops an operation, but not the wait for
// another program, of at most five seconds.
type Store struct {
	db   *sql.DB
	path string
}

// opening is how to open a store.
type opening struct {
	path     string
	patience time.Duration // wait for other writers
	pragmas  []string      // additional ones
}

func openingOf(path string) opening {
	return opening{path: path, patience: 5 * time.Second}
}

// Open opens the store at path for reading and writing. It creates the file and its
// folder if needed. It refuses a store of another version, and leaves it as it is.
func Open(ctx context.Context, path string) (*Store, error) {
	return openingOf(path).open(ctx)
}

func (o opening) open(ctx context.Context) (*Store, error) {
	s := &Store{path: o.path}
	if err := os.MkdirAll(filepath.Dir(o.path), 0o755); err != nil {
		return nil, fmt.Errorf("record: %w; give a writable folder", err)
	}
	if _, err := os.Stat(o.path); err == nil && !o.mayWrite() { // SQLite would open it read-only
		return nil, fmt.Errorf("%w: %s; make the file and its folder writable", ErrReadOnly, o.path)
	}
	err := o.glance(ctx)
	if err == nil {
		err = o.connect(ctx, s, "mode=rwc")
	}
	if err == nil {
		err = o.create(ctx, s)
	}
	if err != nil {
		return nil, s.giveUp(ctx, err)
	}
	return s, nil
}

// OpenRead opens the store at path for reading. It creates and changes nothing, and works
// without write permission. If there is no store, the error is fs.ErrNotExist.
func OpenRead(ctx context.Context, path string) (*Store, error) {
	return openingOf(path).openRead(ctx)
}

func (o opening) openRead(ctx context.Context) (*Store, error) {
	s := &Store{path: o.path}
	if _, err := os.Stat(o.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("record: no run was stored yet: %w; store one first", err)
		}
		return nil, fmt.Errorf("record: %w", err)
	}
	err := o.glance(ctx)
	if err == nil {
		err = o.connect(ctx, s, o.readMode())
	}
	if err == nil {
		err = o.current(ctx, s)
	}
	if err != nil {
		return nil, s.giveUp(ctx, err)
	}
	return s, nil
}

// readMode returns how to read without leaving files behind. Even a reader of a
// write-ahead log needs a shared memory file; with write permission it is created and
// removed again. Without it, an existing one is used; and if there is no log, none is
// needed, because nobody writes.
func (o opening) readMode() string {
	if o.mayWrite() {
		return "mode=rw&_query_only=1"
	}
	if log, err := os.Stat(o.path + "-wal"); err == nil && log.Size() > 0 {
		return "mode=ro&readonly_shm=1"
	}
	return "mode=ro&immutable=1"
}

// mayWrite checks the file, and its log.
func (o opening) mayWrite() bool {
	return mayWrite(o.path) && mayWrite(filepath.Dir(o.path))
}

// connect opens the one connection, and checks that it leads to a database.
func (o opening) connect(ctx context.Context, s *Store, mode string) error {
	full, err := filepath.Abs(o.path)
	if err != nil {
		return err
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(full)}
	if address.Path[0] != '/' { // a Windows drive
		address.Path = "/" + address.Path
	}
	settings := url.Values{
		"_busy_timeout": {strconv.FormatInt(o.patience.Milliseconds(), 10)},
		"_foreign_keys": {"1"},
		"_synchronous":  {"FULL"},
		"_txlock":       {"immediate"},
		"_error_rc":     {"1"},
		"_dqs":          {"0"},
		"_pragma":       o.pragmas,
	}
	connector, err := sqlite.NewConnector(address.String() + "?" + mode + "&" + settings.Encode())
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(connector)
	s.db.SetMaxOpenConns(1)
	return s.db.PingContext(ctx)
}

func (s *Store) giveUp(ctx context.Context, err error) error {
	if s.db != nil {
		_ = s.db.Close() // err is more informative
	}
	return s.explain(ctx, err)
}

// Close closes the store.
func (s *Store) Close() error {
	return s.explain(context.Background(), s.db.Close())
}

// contents is what a file's header says.
type contents struct {
	application, version, tables int
}

// glance judges a file without its log. When SQLite closes a database it writes the log of a killed
// program into it, and a file that is refused must stay as it is. What cannot be read now, because
// there is no file or another program writes to it, is judged later, with the log.
func (o opening) glance(ctx context.Context) error {
	s := &Store{path: o.path}
	err := o.connect(ctx, s, "mode=ro&immutable=1")
	if err == nil {
		_, err = o.contents(ctx, s)
	}
	if s.db != nil {
		_ = s.db.Close() // nothing was written
	}
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrVersion) {
		return err
	}
	return nil
}

// contents reads a file's header, and judges it.
func (o opening) contents(ctx context.Context, s *Store) (c contents, err error) {
	if err = s.look(ctx, func(t *transaction) (err error) {
		c, err = readContents(t)
		return err
	}); err == nil {
		err = o.judge(c)
	}
	return c, err
}

func readContents(t *transaction) (c contents, err error) {
	err = t.row(&c.version, "PRAGMA user_version")
	if err == nil {
		err = t.row(&c.application, "PRAGMA application_id")
	}
	if err == nil {
		err = t.row(&c.tables, "SELECT count(*) FROM sqlite_schema")
	}
	return c, err
}

// judge returns what is wrong with a file.
func (o opening) judge(c contents) error {
	switch {
	case c == contents{}: // empty
		return nil
	case c.application != applicationID:
		return fmt.Errorf("%w: %s; it belongs to another program: give another file", ErrForeign, o.path)
	case c.version != version:
		return fmt.Errorf("%w: %s has version %d, and this hone reads version %d; use the hone that wrote it, or give another file", ErrVersion, o.path, c.version, version)
	}
	return nil
}

// current returns an error unless the file is a store.
func (o opening) current(ctx context.Context, s *Store) error {
	c, err := o.contents(ctx, s)
	if err == nil && c == (contents{}) {
		return fmt.Errorf("%w: %s; it is empty: give another file, or store a run in it", ErrForeign, o.path)
	}
	return err
}

// create makes a store of an empty file, completely or not at all.
func (o opening) create(ctx context.Context, s *Store) error {
	c, err := o.contents(ctx, s)
	if err != nil || c != (contents{}) {
		return err
	}
	if err := o.begin(ctx, s); err != nil {
		return err
	}
	return s.change(ctx, func(t *transaction) error {
		c, err := readContents(t)
		if err != nil || c != (contents{}) {
			return cmp.Or(err, o.judge(c)) // another program has written to it
		}
		return t.exec(fmt.Sprintf("%s\nPRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, version))
	})
}

// begin prepares an empty file, so that freed space returns to the disk and readers never
// wait. SQLite itself does not wait for others that do the same.
func (o opening) begin(ctx context.Context, s *Store) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(o.patience); ; {
		_, err := s.db.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
		var coded *sqlite.Error
		if !errors.As(err, &coded) || coded.Code()&0xff != sqlite3.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transaction sees one state of the store, and changes it completely or not at all.
type transaction struct {
	ctx      context.Context
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
}

// change runs do as the only writer.
func (s *Store) change(ctx context.Context, do func(*transaction) error) error {
	return s.explain(ctx, s.transact(ctx, &sql.TxOptions{}, do))
}

// look runs do on a consistent snapshot.
func (s *Store) look(ctx context.Context, do func(*transaction) error) error {
	return s.explain(ctx, s.transact(ctx, &sql.TxOptions{ReadOnly: true}, do))
}

func (s *Store) transact(ctx context.Context, options *sql.TxOptions, do func(*transaction) error) error {
	tx, err := s.db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after Commit
	if err := do(&transaction{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}}); err != nil {
		return err
	}
	return tx.Commit()
}

func (t *transaction) exec(query string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, query, args...)
	return err
}

// insert is exec with a prepared statement.
func (t *transaction) insert(query string, args ...any) error {
	stmt := t.prepared[query]
	if stmt == nil {
		var err error
		if stmt, err = t.tx.PrepareContext(t.ctx, query); err != nil {
			return err
		}
		t.prepared[query] = stmt
	}
	_, err := stmt.ExecContext(t.ctx, args...)
	return err
}

// timeColumn reads a time.
type timeColumn struct{ into *time.Time }

// Scan parses the text of a column.
func (c timeColumn) Scan(text any) error {
	at, err := time.Parse(timeText, fmt.Sprintf("%s", text))
	*c.into = at.UTC()
	return err
}

// jsonColumn reads a value from JSON.
type jsonColumn struct{ into any }

// Scan decodes the text of a column.
func (c jsonColumn) Scan(text any) error { return json.Unmarshal(fmt.Appendf(nil, "%s", text), c.into) }

// row scans the first column of the first row; no row is sql.ErrNoRows.
func (t *transaction) row(into any, query string, args ...any) error {
	return t.tx.QueryRowContext(t.ctx, query, args...).Scan(into)
}

// rows calls scan for each row.
func (t *transaction) rows(scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := t.tx.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// texts returns the first column of every row.
func (t *transaction) texts(query string, args ...any) (all []string, err error) {
	err = t.rows(func(r *sql.Rows) error {
		var text string
		err := r.Scan(&text)
		all = append(all, text)
		return err
	}, query, args...)
	return all, err
}
