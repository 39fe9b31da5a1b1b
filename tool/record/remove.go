package record

import (
	"context"
	"database/sql"
)

// Remove removes the runs that the references refer to, all or none, and every blob that
// no other run uses. It refuses to remove a baseline: a *BaselineError. The partner of a
// removed run stays, and keeps its PairedWith. The file shrinks by freed bytes when the
// store is closed, at the latest.
func (s *Store) Remove(ctx context.Context, refs ...string) (freed int64, err error) {
	err = s.change(ctx, func(t *transaction) error {
		before, err := t.size()
		if err != nil {
			return err
		}
		var seqs []int64
		for _, ref := range refs {
			seq, err := t.find(ref)
			if err != nil {
				return err
			}
			seqs = append(seqs, seq)
		}
		for _, seq := range seqs { // look up all first: removing changes what latest means
			if err := t.remove(seq); err != nil {
				return err
			}
		}
		if err := t.exec("PRAGMA incremental_vacuum"); err != nil {
			return err
		}
		after, err := t.size()
		freed = before - after
		return err
	})
	return freed, err
}

func (t *transaction) remove(seq int64) error {
	names, err := t.texts("SELECT name FROM baseline WHERE run = ? ORDER BY name", seq)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		refused := &BaselineError{Names: names}
		if err := t.row(&refused.ID, "SELECT id FROM run WHERE seq = ?", seq); err != nil {
			return err
		}
		return refused
	}
	var blobs []int64
	if err := t.rows(func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		blobs = append(blobs, id)
		return err
	}, "SELECT blob FROM histogram WHERE run = ?1 UNION SELECT blob FROM artefact WHERE run = ?1", seq); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM run WHERE seq = ?", seq); err != nil {
		return err
	}
	for _, id := range blobs {
		if err := t.insert(`DELETE FROM blob WHERE id = ?1
			AND NOT EXISTS (SELECT 1 FROM histogram WHERE blob = ?1)
			AND NOT EXISTS (SELECT 1 FROM artefact WHERE blob = ?1)`, id); err != nil {
			return err
		}
	}
	return nil
}

// size returns the size of the file, in bytes.
func (t *transaction) size() (bytes int64, err error) {
	var pages, size int64
	if err = t.row(&pages, "PRAGMA page_count"); err == nil {
		err = t.row(&size, "PRAGMA page_size")
	}
	return pages * size, err
}
