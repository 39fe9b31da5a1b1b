package record

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Summary is a run without its measurements.
type Summary struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Made         string    `json:"made"`
	At           time.Time `json:"at"`
	Scenario     string    `json:"scenario"`
	ScenarioHash string    `json:"scenario_hash"`
	Target       string    `json:"target"` // what was measured, as the scenario's text says; empty: it does not
	Fingerprint  string    `json:"fingerprint"`
	PairedWith   string    `json:"paired_with,omitempty"`
	Samples      int       `json:"samples"`
	Valid        int       `json:"valid_samples"`
	Baselines    []string  `json:"baselines"` // names under which it is a baseline
}

// Filter selects runs. Zero: all.
type Filter struct {
	Scenario string // the name or the hash
	Name     string
	Limit    int // maximum number; 0: all
}

// List returns the runs that pass the filter, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Summary, error) {
	all := []Summary{}
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	err := s.look(ctx, func(t *transaction) error {
		baselines, err := t.baselines()
		if err != nil {
			return err
		}
		return t.rows(func(rows *sql.Rows) error {
			m := Summary{Baselines: []string{}}
			var text string
			err := rows.Scan(&m.ID, &m.Name, &m.Made, timeColumn{&m.At}, &m.Scenario, &m.ScenarioHash, &text, &m.Fingerprint, &m.PairedWith, &m.Samples, &m.Valid)
			for _, b := range baselines {
				if b.ID == m.ID {
					m.Baselines = append(m.Baselines, b.Name)
				}
			}
			m.Target = targetOf(text)
			all = append(all, m)
			return err
		}, `SELECT id, name, made, at, scenario, scenario_hash, scenario_text, fingerprint, paired_with,
				(SELECT count(*) FROM sample WHERE run = seq), (SELECT count(*) FROM sample WHERE run = seq AND valid)
			FROM run WHERE (?1 = '' OR scenario = ?1 OR scenario_hash = ?1) AND (?2 = '' OR name = ?2)
			ORDER BY at DESC, seq DESC LIMIT ?3`, f.Scenario, f.Name, limit)
	})
	return all, err
}

// targetOf returns the target of a load, or the package of Go benchmarks.
func targetOf(text string) string {
	for line := range strings.Lines(text) {
		for _, key := range []string{"target=", "go-test=", "pkg: "} {
			if value, found := strings.CutPrefix(line, key); found {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}
