package journal

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Migrate copies a log, the stream from of the same cluster or else the one in the folder dir, to the
// stream o.Stream, which it creates, at the same positions. An interrupted one goes on where it was.
// It seals the old stream, so that nobody can append to it any more, copies the rest, and compares every
// envelope; no honed opens the new stream before. It calls progress periodically.
func (o ClusterOptions) Migrate(ctx context.Context, servers, from, dir string, progress func(what string, done, all uint64)) (first, next uint64, err error) {
	m := streamCopy{progress: progress}
	if from != "" {
		old := o
		old.Stream, old.ReadOnly = from, true
		if m.old, err = OpenCluster(ctx, servers, old); err != nil {
			return 0, 0, err
		}
		m.source = m.old
	} else {
		from = "the folder " + dir
		unlock, err := lockAll(dir)
		defer unlock()
		if err != nil {
			return 0, 0, err
		}
		if m.source, err = OpenReader(ctx, dir, o.Logger); err != nil {
			return 0, 0, err
		}
	}
	defer m.source.Close()
	if first, next, err = m.source.Bounds(); err != nil {
		return 0, 0, err
	}
	o.Create, o.first, o.from = true, first, from
	if m.target, err = OpenCluster(ctx, servers, o); err != nil {
		return 0, 0, err
	}
	defer m.target.Close()
	next, err = m.run(ctx, next)
	return first, next, about("migrate "+from+" to the stream "+o.Stream, err)
}

// streamCopy copies source to target.
type streamCopy struct {
	source   Reader
	old      *Cluster // source, if it is a stream
	target   *Cluster
	progress func(what string, done, all uint64)
}

// run copies until source has nothing more, and returns the next position.
func (m *streamCopy) run(ctx context.Context, next uint64) (uint64, error) {
	first, copied, err := m.target.Bounds()
	if err == nil && copied > first {
		err = m.compare(ctx, copied-1, copied) // it goes on behind the same envelope
	}
	for err == nil {
		if err = m.copy(ctx, copied, next); err != nil {
			break
		}
		if m.old != nil {
			if err = m.old.seal(ctx); err != nil {
				break
			}
		}
		copied = next
		if _, next, err = m.source.Bounds(); err != nil || next > copied {
			continue
		}
		if err = m.compare(ctx, first, next); err == nil {
			return next, m.target.finish(ctx)
		}
	}
	return 0, err
}

// copy appends the envelopes from position from up to, but not including, next. None may be lost.
func (m *streamCopy) copy(ctx context.Context, from, next uint64) error {
	return copyRange(ctx, m.source, from, next, pass(m.progress, "copied"), func(pos uint64, envelope []byte) error {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		at, err := m.target.Append(attempt, envelope)
		if err == nil && at != pos {
			err = fmt.Errorf("position %d was stored as %d; delete the new stream and begin again", pos, at)
		}
		return err
	}, func(d *Damage) error { return d })
}

func (m *streamCopy) compare(ctx context.Context, from, next uint64) error {
	return compare(ctx, m.source, verifyReader{m.target}, from, next, pass(m.progress, "compared"))
}

// seal has the stream refuse every further envelope, whoever sends it, for ever.
func (l *Cluster) seal(ctx context.Context) error {
	return l.update(ctx, func(c *jetstream.StreamConfig) { c.Sealed = true })
}

// finish lets others open the stream, which has all that was to be copied to it.
func (l *Cluster) finish(ctx context.Context) error {
	return l.update(ctx, func(c *jetstream.StreamConfig) { delete(c.Metadata, copiedFrom) })
}

func (l *Cluster) update(ctx context.Context, change func(*jetstream.StreamConfig)) error {
	info, err := l.awaitState(ctx)
	if err != nil {
		return err
	}
	c := info.Config
	if c.Sealed {
		return nil
	}
	change(&c)
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = l.stream.js.UpdateStream(attempt, c)
	return err
}
