package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Get returns the run that ref refers to, with its blobs, and verifies its content. See
// the package documentation for the forms of ref.
func (s *Store) Get(ctx context.Context, ref string) (*Run, error) {
	var r *Run
	err := s.look(ctx, func(t *transaction) error {
		seq, err := t.find(ref)
		if err == nil {
			r, err = t.get(seq)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.verified(r)
}

// verified checks a run's content against its ID.
func (s *Store) verified(r *Run) (*Run, error) {
	if again, err := seal(r); err != nil || again.ID != r.ID {
		return nil, fmt.Errorf("%w: run %s in %s; another program has changed the file", ErrDamaged, r.ID, s.path)
	}
	return r, nil
}

// find returns the row of the run that ref refers to.
func (t *transaction) find(ref string) (seq int64, err error) {
	if back, ok := fromLatest(ref); ok {
		err = t.row(&seq, "SELECT seq FROM run WHERE made <> ? ORDER BY at DESC, seq DESC LIMIT 1 OFFSET ?", Repeat, back)
		return seq, found(err, ref)
	}
	if name, ok := strings.CutPrefix(ref, "baseline:"); ok {
		err = t.row(&seq, "SELECT run FROM baseline WHERE name = ?", name)
		return seq, found(err, ref)
	}
	err = t.row(&seq, "SELECT seq FROM run WHERE id = ?", strings.ToLower(ref))
	if !errors.Is(err, sql.ErrNoRows) {
		return seq, err
	}
	return t.findNamed(ref)
}

// fromLatest parses latest and latest~N.
func fromLatest(ref string) (back int, ok bool) {
	number, ok := strings.CutPrefix(ref, "latest")
	if !ok || number == "" {
		return 0, ok
	}
	number, ok = strings.CutPrefix(number, "~")
	back, err := strconv.Atoi(number)
	return back, ok && err == nil && back >= 0
}

// findNamed looks for a run with this name, of this git revision (whose runs are called "main 2b1d8c6ad7"),
// or with an ID of this prefix.
func (t *transaction) findNamed(ref string) (seq int64, err error) {
	named, err := t.texts("SELECT id FROM run WHERE name <> '' AND (name = ?1 OR substr(name, 1, length(name) - 10) = ?1 || ' ') ORDER BY name = ?1 DESC, at DESC, seq DESC LIMIT 1", ref)
	if err != nil {
		return 0, err
	}
	ids := named
	if prefix := strings.ToLower(ref); len(ref) >= refDigits && isHex(prefix) {
		begin, err := t.texts("SELECT id FROM run WHERE id >= ? AND id < ? ORDER BY id LIMIT 8", prefix, prefix+"g")
		if err != nil {
			return 0, err
		}
		for _, id := range begin {
			if len(named) == 0 || id != named[0] {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 1 {
		return 0, fmt.Errorf("%w: %q is %s; give more digits of one of them", ErrAmbiguous, ref, strings.Join(ids, " or "))
	}
	if len(ids) == 0 {
		return 0, found(sql.ErrNoRows, ref)
	}
	return seq, t.row(&seq, "SELECT seq FROM run WHERE id = ?", ids[0])
}

func isHex(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

func found(err error, ref string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: %q; hone run list shows the stored runs", ErrNotFound, ref)
	}
	return err
}

// get reads a run.
func (t *transaction) get(seq int64) (*Run, error) {
	r := &Run{}
	err := t.tx.QueryRowContext(t.ctx, "SELECT id, name, made, at, scenario, scenario_text, strict, soft, paired_with FROM run WHERE seq = ?", seq).
		Scan(&r.ID, &r.Name, &r.Made, timeColumn{&r.At}, &r.Scenario.Name, &r.Scenario.Text, jsonColumn{&r.Environment.Strict}, jsonColumn{&r.Environment.Soft}, &r.PairedWith)
	if err == nil {
		r.Samples, err = t.samples(seq)
	}
	for _, read := range []func(int64, []Sample) error{t.metrics, t.series, t.histograms, t.artefacts} {
		if err == nil {
			err = read(seq, r.Samples)
		}
	}
	return r, err
}

func (t *transaction) samples(seq int64) ([]Sample, error) {
	all := []Sample{}
	err := t.rows(func(rows *sql.Rows) error {
		s := Sample{Metrics: []Metric{}, Histograms: []Histogram{}, Series: []Series{}, Artefacts: []Artefact{}}
		err := rows.Scan(&s.Pair, &s.Order, timeColumn{&s.At}, &s.Valid, jsonColumn{&s.Reasons})
		all = append(all, s)
		return err
	}, "SELECT pair, position, at, valid, reasons FROM sample WHERE run = ? ORDER BY number", seq)
	return all, err
}

// each calls scan for the rows of a table of parts; the function that it returns adds a
// part to its sample.
func (t *transaction) each(samples []Sample, scan func(rows *sql.Rows, sample *int) (put func(*Sample), err error), query string, seq int64) error {
	return t.rows(func(rows *sql.Rows) error {
		sample := 0
		put, err := scan(rows, &sample)
		if err != nil {
			return err
		}
		if sample < 0 || sample >= len(samples) {
			return fmt.Errorf("%w: figures without a sample; another program has changed the file", ErrDamaged)
		}
		put(&samples[sample])
		return nil
	}, query, seq)
}

func (t *transaction) metrics(seq int64, samples []Sample) error {
	return t.each(samples, func(rows *sql.Rows, sample *int) (func(*Sample), error) {
		var m Metric
		var value sql.NullFloat64
		err := rows.Scan(sample, &m.Name, &m.Unit, &m.Better, &value)
		if m.Value = value.Float64; !value.Valid {
			m.Value = math.NaN()
		}
		return func(s *Sample) { s.Metrics = append(s.Metrics, m) }, err
	}, "SELECT sample, name, unit, better, value FROM metric WHERE run = ? ORDER BY sample, number", seq)
}

func (t *transaction) series(seq int64, samples []Sample) error {
	return t.each(samples, func(rows *sql.Rows, sample *int) (func(*Sample), error) {
		var e Series
		var read []nullable
		err := rows.Scan(sample, &e.Name, &e.Unit, (*int64)(&e.Start), (*int64)(&e.Step), jsonColumn{&read})
		e.Values = values(read)
		return func(s *Sample) { s.Series = append(s.Series, e) }, err
	}, "SELECT sample, name, unit, start, step, figures FROM series WHERE run = ? ORDER BY sample, number", seq)
}

func (t *transaction) histograms(seq int64, samples []Sample) error {
	return t.each(samples, func(rows *sql.Rows, sample *int) (func(*Sample), error) {
		var h Histogram
		err := rows.Scan(sample, &h.Name, (*int64)(&h.Start), (*int64)(&h.End), &h.Data)
		h.Data = notNil(h.Data)
		return func(s *Sample) { s.Histograms = append(s.Histograms, h) }, err
	}, "SELECT sample, name, start, stop, data FROM histogram JOIN blob ON blob.id = blob WHERE run = ? ORDER BY sample, number", seq)
}

func (t *transaction) artefacts(seq int64, samples []Sample) error {
	return t.each(samples, func(rows *sql.Rows, sample *int) (func(*Sample), error) {
		var a Artefact
		err := rows.Scan(sample, &a.Kind, &a.Name, &a.Data)
		a.Data = notNil(a.Data)
		return func(s *Sample) { s.Artefacts = append(s.Artefacts, a) }, err
	}, "SELECT sample, kind, name, data FROM artefact JOIN blob ON blob.id = blob WHERE run = ? ORDER BY sample, number", seq)
}
