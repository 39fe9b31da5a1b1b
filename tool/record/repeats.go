package record

import (
	"context"
	"database/sql"
)

// Repeat is Run.Made of both runs in which a program was measured against itself, to
// learn how much identical programs differ. Latest never means one of them.
const Repeat = "noise"

// mostRepeats bounds how many sessions are read: more add little.
const mostRepeats = 32

// Repeats returns the sessions in which a program was measured against itself with this
// scenario, newest first: A and B of each, whose samples alternated.
func (s *Store) Repeats(ctx context.Context, scenarioHash string) ([][2]*Run, error) {
	var all [][2]*Run
	err := s.look(ctx, func(t *transaction) error {
		var seqs [][2]int64
		if err := t.rows(func(rows *sql.Rows) error {
			var seq [2]int64
			err := rows.Scan(&seq[0], &seq[1])
			seqs = append(seqs, seq)
			return err
		}, `SELECT a.seq, b.seq FROM run a JOIN run b ON b.id = a.paired_with AND a.id = b.paired_with
			WHERE a.made = ? AND a.scenario_hash = ? AND a.seq < b.seq
			ORDER BY a.at DESC, a.seq DESC LIMIT ?`, Repeat, scenarioHash, mostRepeats); err != nil {
			return err
		}
		for _, seq := range seqs {
			var session [2]*Run
			for side := range session {
				r, err := t.get(seq[side])
				if err == nil {
					r, err = s.verified(r)
				}
				if err != nil {
					return err
				}
				session[side] = r
			}
			all = append(all, session)
		}
		return nil
	})
	return all, err
}
