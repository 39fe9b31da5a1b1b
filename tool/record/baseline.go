package record

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Baseline is a named run with which others are compared.
type Baseline struct {
	Name string    `json:"name"`
	ID   string    `json:"id"`
	At   time.Time `json:"at"` // when the baseline was set
}

// SetBaseline makes the run that ref refers to the baseline of that name, replacing any
// other.
func (s *Store) SetBaseline(ctx context.Context, name, ref string) error {
	if name == "" {
		return fmt.Errorf("record: a baseline needs a name, as in main or v1.2")
	}
	return s.change(ctx, func(t *transaction) error {
		seq, err := t.find(ref)
		if err != nil {
			return err
		}
		return t.exec("INSERT OR REPLACE INTO baseline (name, run, at) VALUES (?, ?, ?)", cleanText(name), seq, time.Now().UTC().Format(timeText))
	})
}

// RemoveBaseline removes the name; the run stays.
func (s *Store) RemoveBaseline(ctx context.Context, name string) error {
	return s.change(ctx, func(t *transaction) error {
		var seq int64
		err := t.row(&seq, "DELETE FROM baseline WHERE name = ? RETURNING run", name)
		return found(err, "baseline:"+name)
	})
}

// Baselines returns all baselines, sorted by name.
func (s *Store) Baselines(ctx context.Context) (all []Baseline, err error) {
	err = s.look(ctx, func(t *transaction) (err error) {
		all, err = t.baselines()
		return err
	})
	return all, err
}

func (t *transaction) baselines() ([]Baseline, error) {
	all := []Baseline{}
	err := t.rows(func(rows *sql.Rows) error {
		var b Baseline
		err := rows.Scan(&b.Name, &b.ID, timeColumn{&b.At})
		all = append(all, b)
		return err
	}, "SELECT baseline.name, run.id, baseline.at FROM baseline JOIN run ON run.seq = baseline.run ORDER BY baseline.name")
	return all, err
}
