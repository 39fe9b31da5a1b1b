package record

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Add stores a run, completely or not at all, and sets its ID. A run that is already
// stored stays as it is.
func (s *Store) Add(ctx context.Context, r *Run) error {
	c, err := seal(r)
	if err != nil {
		return s.explain(ctx, err)
	}
	if err := s.change(ctx, func(t *transaction) error { return t.add(c) }); err != nil {
		return err
	}
	r.ID = c.ID
	return nil
}

// Identify sets the ID that Add gives a run, or those that AddPair gives two runs.
func Identify(runs ...*Run) error {
	for _, r := range runs {
		c, err := seal(r)
		if err != nil {
			return err
		}
		r.ID = c.ID
	}
	if len(runs) == 2 {
		runs[0].PairedWith, runs[1].PairedWith = runs[1].ID, runs[0].ID
	}
	return nil
}

// AddPair stores both runs or neither, each with PairedWith set to the other. A run that
// is already stored gets its partner set, but never changed.
func (s *Store) AddPair(ctx context.Context, a, b *Run) error {
	first, err := seal(a)
	second, also := seal(b)
	if err = cmp.Or(err, also); err != nil {
		return s.explain(ctx, err)
	}
	if first.ID == second.ID {
		return fmt.Errorf("record: run %s cannot be paired with itself; pass two runs whose samples alternate, each with an Order", first.ID)
	}
	first.PairedWith, second.PairedWith = second.ID, first.ID
	if err = s.change(ctx, func(t *transaction) (err error) {
		for _, c := range []*sealed{first, second} {
			if err == nil {
				err = t.add(c)
			}
			if err == nil {
				err = t.join(c.ID, c.PairedWith)
			}
		}
		return err
	}); err != nil {
		return err
	}
	a.ID, a.PairedWith = first.ID, first.PairedWith
	b.ID, b.PairedWith = second.ID, second.PairedWith
	return nil
}

// join makes partner the partner of id, unless it has another one.
func (t *transaction) join(id, partner string) error {
	var has string
	if err := t.row(&has, "SELECT paired_with FROM run WHERE id = ?", id); err != nil || has == partner {
		return err
	}
	if has != "" {
		return fmt.Errorf("run %s was measured alternately with %s, not with %s", id, has, partner)
	}
	return t.exec("UPDATE run SET paired_with = ? WHERE id = ?", partner, id)
}

// add stores a run that is not stored yet.
func (t *transaction) add(c *sealed) error {
	var seq int64
	err := t.row(&seq, "SELECT seq FROM run WHERE id = ?", c.ID)
	if !errors.Is(err, sql.ErrNoRows) {
		return err // nil: already stored
	}
	blobs, err := t.addBlobs(c.blobs)
	if err != nil {
		return err
	}
	if err := t.row(&seq, `INSERT INTO run
		(id, name, made, at, scenario, scenario_hash, fingerprint, paired_with, scenario_text, strict, soft)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
		c.ID, c.Name, c.Made, c.At.Format(timeText), c.Scenario.Name, c.Scenario.Hash(), c.Environment.Fingerprint(),
		c.PairedWith, c.Scenario.Text, jsonText(c.Environment.Strict), jsonText(c.Environment.Soft)); err != nil {
		return err
	}
	for i := range c.Samples {
		if err := t.addSample(seq, i, &c.Samples[i], &c.doc.Samples[i], blobs); err != nil {
			return err
		}
	}
	return nil
}

// addBlobs stores new blobs, and returns the ids of all.
func (t *transaction) addBlobs(blobs map[string][]byte) (ids map[string]int64, err error) {
	ids = make(map[string]int64, len(blobs))
	for hash, data := range blobs {
		var id int64
		err := t.row(&id, "SELECT id FROM blob WHERE sha256 = ?", hash)
		if errors.Is(err, sql.ErrNoRows) {
			err = t.row(&id, "INSERT INTO blob (sha256, size, data) VALUES (?, ?, ?) RETURNING id", hash, len(data), data)
		}
		if err != nil {
			return nil, err
		}
		ids[hash] = id
	}
	return ids, nil
}

func (t *transaction) addSample(seq int64, i int, s *Sample, d *sampleDocument, blobs map[string]int64) error {
	if err := t.insert("INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?)",
		seq, i, s.Pair, s.Order, s.At.Format(timeText), s.Valid, jsonText(s.Reasons)); err != nil {
		return err
	}
	for j, m := range s.Metrics {
		value := sql.NullFloat64{Float64: m.Value, Valid: !math.IsNaN(m.Value)}
		if err := t.insert("INSERT INTO metric VALUES (?, ?, ?, ?, ?, ?, ?)", seq, i, j, m.Name, m.Unit, m.Better, value); err != nil {
			return err
		}
	}
	for j, e := range s.Series {
		if err := t.insert("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			seq, i, j, e.Name, e.Unit, int64(e.Start), int64(e.Step), jsonText(nullables(e.Values))); err != nil {
			return err
		}
	}
	for j, h := range d.Histograms {
		if err := t.insert("INSERT INTO histogram VALUES (?, ?, ?, ?, ?, ?, ?)",
			seq, i, j, h.Name, int64(h.Start), int64(h.End), blobs[h.SHA256]); err != nil {
			return err
		}
	}
	for j, a := range d.Artefacts {
		if err := t.insert("INSERT INTO artefact VALUES (?, ?, ?, ?, ?, ?)", seq, i, j, a.Kind, a.Name, blobs[a.SHA256]); err != nil {
			return err
		}
	}
	return nil
}

// jsonText encodes lists and maps of strings and figures, which cannot fail.
func jsonText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
