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
	var source Reader
	seal := func(context.Context) error { return nil } // a folder is locked
	if from != "" {
		options := o
		options.Stream, options.ReadOnly = from, true
		old, err := OpenCluster(ctx, servers, options)
		if err != nil {
			return 0, 0, err
		}
		source, seal = old, old.seal
	} else {
		from = "the folder " + dir
		unlock, err := lockAll(dir)
		defer unlock()
		if err != nil {
			return 0, 0, err
		}
		if source, err = OpenReader(ctx, dir, o.Logger); err != nil {
			return 0, 0, err
		}
	}
	defer source.Close()
	if first, next, err = source.Bounds(); err != nil {
		return 0, 0, err
	}
	o.Create, o.first, o.from = true, first, from
	target, err := OpenCluster(ctx, servers, o)
	if err != nil {
		return 0, 0, err
	}
	defer target.Close()
	next, err = target.copy(ctx, source, seal, next, progress)
	return first, next, about("migrate "+from+" to the stream "+o.Stream, err)
}

// copy copies until source has nothing more, and returns the next position. After seal, nobody appends to source.
func (l *Cluster) copy(ctx context.Context, source Reader, seal func(context.Context) error, next uint64,
	progress func(what string, done, all uint64),
) (uint64, error) {
	first, copied, err := l.Bounds()
	if err == nil && copied > first {
		err = compare(ctx, source, verifyReader{l}, copied-1, copied, progress) // it goes on behind the same envelope
	}
	for err == nil {
		err = copyRange(ctx, source, copied, next, func(pos uint64, envelope []byte) error {
			attempt, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			at, err := l.Append(attempt, envelope)
			if err == nil && at != pos {
				err = fmt.Errorf("position %d was stored as %d; delete the new stream and begin again", pos, at)
			}
			if err == nil {
				progress("copied", pos+1-copied, next-copied)
			}
			return err
		}, func(d *Damage) error { return d })
		if err == nil {
			err = seal(ctx)
		}
		if err != nil {
			break
		}
		copied = next
		if _, next, err = source.Bounds(); err != nil || next > copied {
			continue
		}
		if err = compare(ctx, source, verifyReader{l}, first, next, progress); err == nil {
			return next, l.finish(ctx)
		}
	}
	return 0, err
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
