package record

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"
)

// Baseline is a run under a name, for others to be compared with.
type Baseline struct {
	Name string    `json:"name"`
	ID   string    `json:"id"`
	At   time.Time `json:"at"` // when it was set
}

// SetBaseline makes the run that ref means the baseline of that name, in place of
// any other.
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

// RemoveBaseline forgets the name; the run stays.
func (s *Store) RemoveBaseline(ctx context.Context, name string) error {
	return s.change(ctx, func(t *transaction) error {
		var seq int64
		err := t.row(&seq, "DELETE FROM baseline WHERE name = ? RETURNING run", name)
		return found(err, "baseline:"+name)
	})
}

// Baselines returns all of them, by name.
func (s *Store) Baselines(ctx context.Context) ([]Baseline, error) {
	var all []Baseline
	err := s.look(ctx, func(t *transaction) (err error) {
		all, err = t.baselines()
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (t *transaction) baselines() ([]Baseline, error) {
	all := []Baseline{}
	err := t.rows(func(rows *sql.Rows) error {
		var b Baseline
		var at string
		if err := rows.Scan(&b.Name, &b.ID, &at); err != nil {
			return err
		}
		var err error
		b.At, err = parseTime(at)
		all = append(all, b)
		return err
	}, "SELECT baseline.name, run.id, baseline.at FROM baseline JOIN run ON run.seq = baseline.run ORDER BY baseline.name")
	return all, err
}

// Noise is by how much runs of the same thing were seen to differ.
type Noise struct {
	Fingerprint string    `json:"fingerprint"` // Environment's
	Scenario    string    `json:"scenario"`    // its hash
	Metric      string    `json:"metric"`
	Unit        string    `json:"unit"`
	Paired      bool      `json:"paired"` // the runs were taken in turn: they differ by less
	Floor       float64   `json:"floor"`  // relative: 0.02 is 2 %
	Runs        int       `json:"runs"`   // that it was made of
	At          time.Time `json:"at"`
}

// SetNoise keeps what was seen, in place of anything older of the same figure.
func (s *Store) SetNoise(ctx context.Context, n Noise) error {
	if !(n.Floor >= 0) || math.IsInf(n.Floor, 1) {
		return fmt.Errorf("record: a noise of %v is none; give a part of 1, as in 0.02", n.Floor)
	}
	at, err := cleanTime(n.At)
	if err != nil {
		return s.explain(ctx, err)
	}
	return s.change(ctx, func(t *transaction) error {
		return t.exec(`INSERT INTO noise (fingerprint, scenario, metric, unit, paired, floor, runs, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET floor = excluded.floor, runs = excluded.runs, at = excluded.at WHERE excluded.at >= at`,
			cleanText(n.Fingerprint), cleanText(n.Scenario), cleanText(n.Metric), cleanText(n.Unit), n.Paired, cleanValue(n.Floor), n.Runs, at.Format(timeText))
	})
}

// Noise returns the newest of each figure, of runs in turn and of others, by its
// name. Whether it is too old to
// count is for the caller to say.
func (s *Store) Noise(ctx context.Context, fingerprint, scenarioHash string) ([]Noise, error) {
	all := []Noise{}
	err := s.look(ctx, func(t *transaction) error {
		return t.rows(func(rows *sql.Rows) error {
			n := Noise{Fingerprint: fingerprint, Scenario: scenarioHash}
			var at string
			if err := rows.Scan(&n.Metric, &n.Unit, &n.Paired, &n.Floor, &n.Runs, &at); err != nil {
				return err
			}
			var err error
			n.At, err = parseTime(at)
			all = append(all, n)
			return err
		}, "SELECT metric, unit, paired, floor, runs, at FROM noise WHERE fingerprint = ? AND scenario = ? ORDER BY metric, unit, paired", fingerprint, scenarioHash)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
