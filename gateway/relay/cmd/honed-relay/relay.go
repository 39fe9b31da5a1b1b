package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/internal/faultlog"
)

// relay takes messages from a reader to a sink, a batch at a time. A message is acknowledged to the gateway
// when the sink or the dead-letter log has it.
type relay struct {
	reader     *gateway.Reader
	sink       sink
	parts      parts
	dead       *deadLog
	messages   int // of a batch
	bytes      int // of a batch
	passOn     bool
	acceptGaps bool
	longest    time.Duration // between two attempts
	logger     *slog.Logger
	faults     faultlog.Log
	counts     counts

	mu   sync.Mutex
	stop context.CancelFunc // makes the loop look at the dead-letter log; nil: it will
}

// counts are the relay's counters.
type counts struct {
	records, bytes, batches, retries, dead, gaps atomic.Uint64

	oldest  atomic.Int64 // log time of the oldest message in hand, in milliseconds; 0: none
	success atomic.Int64 // Unix milliseconds at which a batch was last finished
	trying  atomic.Int64 // Unix milliseconds since which the sink has failed; 0: it works
}

// run relays until ctx ends, when it returns nil, or something fails that trying again does not cure.
func (r *relay) run(ctx context.Context) error {
	defer r.faults.Close()
	defer r.sink.close()
	err := r.relay(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return explain(err)
}

func (r *relay) relay(ctx context.Context) error {
	own, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.reader.Own = own
	defer r.reader.Close()
	start, err := r.reader.Open(ctx)
	if err != nil {
		return err
	}
	r.logger.Info("relaying", "reader", r.reader.Name, "behind", start, "own", own != nil)
	for {
		waiting, stop := r.listen(ctx) // before it looks: what is decided from now on ends the wait
		if err := r.release(ctx); err != nil {
			stop()
			return err
		}
		b, gap, err := r.gather(ctx, waiting, stop)
		if err == nil && b != nil {
			err = r.forward(ctx, b)
		}
		if err == nil && gap != nil {
			err = r.pass(ctx, gap)
		}
		if err != nil {
			return err
		}
	}
}

func explain(err error) error {
	switch {
	case errors.Is(err, gateway.ErrRegressed):
		return fmt.Errorf("%w: the gateway's log does not contain what this relay has relayed last, because one of the two was restored "+
			"from a backup or replaced. Compare them, then start once with --anew", err)
	case errors.Is(err, gateway.ErrMoved):
		return fmt.Errorf("%w: another program reads under this name. Give each relay a name of its own with --from", err)
	}
	return err
}

// open opens the sink, and tries again while it cannot be reached.
func (r *relay) open(ctx context.Context) (own *gateway.Position, err error) {
	err = r.attempt(ctx, func() error {
		return r.parts.within(ctx, func(ctx context.Context) error {
			own, err = r.sink.open(ctx)
			return err
		})
	})
	return own, err
}

// gather waits for messages, takes what there is up to a batch, and returns it, or a gap that follows it.
// Both are nil if there may be something to do in the dead-letter log. stop ends waiting.
func (r *relay) gather(ctx, waiting context.Context, stop context.CancelFunc) (b *batch, gap *gateway.Batch, err error) {
	defer stop()
	size := 0
	for b == nil || len(b.messages) < r.messages && size < r.bytes {
		next, err := r.reader.Next(waiting)
		switch {
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			return b, nil, nil // there is no more, or wake was called
		case err != nil:
			return nil, nil, err
		case next.Gap != nil:
			return b, &next, nil
		}
		if b == nil {
			b = &batch{passOn: r.passOn}
			stop() // from now on Next returns only what has arrived
		}
		b.position = next.Position
		for _, m := range next.Messages {
			b.messages = append(b.messages, message{Message: m, log: next.Position.Log})
			size += len(m.Data)
		}
	}
	return b, nil, nil
}

// listen returns a context that wake ends.
func (r *relay) listen(ctx context.Context) (context.Context, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, stop := context.WithCancel(ctx)
	r.stop = stop
	return waiting, stop
}

// wake makes the relay look at the dead-letter log.
func (r *relay) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
	}
}

// forward finishes a batch that has come from the gateway.
func (r *relay) forward(ctx context.Context, b *batch) error {
	rest := b.messages[:0]
	for _, m := range b.messages {
		known, waits := r.dead.admit(&m, r.passOn)
		if known {
			continue
		}
		if waits {
			m.state = waiting
		}
		rest = append(rest, m)
	}
	if b.messages = rest; len(rest) > 0 {
		r.counts.oldest.Store(rest[0].Time)
	}
	if err := r.deliver(ctx, b); err != nil {
		return err
	}
	r.counts.oldest.Store(0)
	return r.acknowledge(ctx, b.position)
}

// acknowledge tells the gateway that everything up to a position is finished.
func (r *relay) acknowledge(ctx context.Context, p gateway.Position) error {
	if err := r.reader.Ack(p); err != nil {
		return err
	}
	return r.dead.trim(ctx)
}

// release delivers the letters that an operator wants retried, and those that no longer wait.
func (r *relay) release(ctx context.Context) error {
	for {
		due := r.dead.due(r.messages, r.passOn)
		letters, err := load(ctx, r.dead.log, due)
		if err == nil && len(letters) < len(due) { // damaged since the start, or dropped meanwhile
			err = r.dead.read(ctx)
		}
		if err != nil || len(due) == 0 {
			return err
		}
		if len(letters) == 0 {
			continue
		}
		b := &batch{redelivers: true, passOn: r.passOn, messages: letters}
		if err := r.deliver(ctx, b); err != nil {
			return err
		}
	}
}

// deliver hands a batch to the sink until each message is in the sink or in the dead-letter log.
func (r *relay) deliver(ctx context.Context, b *batch) error {
	err := r.attempt(ctx, func() error {
		err := r.parts.write(ctx, r.sink, b)
		if err == nil && !b.redelivers { // before the position says that these are finished
			err = r.keep(ctx, b)
		}
		if err == nil {
			err = r.parts.within(ctx, func(ctx context.Context) error { return r.sink.commit(ctx, b) })
		}
		if err != nil {
			r.sink.close()
		}
		if err == nil && b.redelivers {
			err = r.keep(ctx, b)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range b.messages {
		if m := &b.messages[i]; m.state == done {
			r.counts.records.Add(1)
			r.counts.bytes.Add(uint64(len(m.Data)))
		}
	}
	r.counts.batches.Add(1)
	r.counts.success.Store(time.Now().UnixMilli())
	return nil
}

// keep stores what the sink did not take.
func (r *relay) keep(ctx context.Context, b *batch) error {
	added, err := r.dead.keep(ctx, b)
	if err != nil {
		return finalError{err}
	}
	r.counts.dead.Add(uint64(added))
	for i := range b.messages {
		if m := &b.messages[i]; m.state == refused {
			r.faults.Write(r.logger, slog.LevelWarn, "refused", func() (string, []any) {
				return "the destination refused a message", []any{"number", number.Format(m.Number), "client", m.Client, "why", m.reason}
			})
		}
	}
	return nil
}

// attempt calls try until it succeeds, fails for good, or ctx ends.
func (r *relay) attempt(ctx context.Context, try func() error) error {
	const shortest = 100 * time.Millisecond
	defer r.counts.trying.Store(0)
	for pause := shortest; ; pause = min(2*pause, r.longest) {
		err := try()
		switch {
		case err == nil || errors.As(err, new(finalError)):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		r.counts.retries.Add(1)
		r.counts.trying.CompareAndSwap(0, time.Now().UnixMilli())
		wait := pause/2 + rand.N(pause/2) // so that many relays do not come back at once
		if later, is := errors.AsType[laterError](err); is {
			wait = max(wait, later.after)
		}
		r.faults.Write(r.logger, slog.LevelWarn, "failed", func() (string, []any) {
			return "the destination failed; trying again", []any{"in", wait.Round(time.Millisecond), "err", err}
		})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// pass goes past messages that the gateway no longer has, if that is allowed.
func (r *relay) pass(ctx context.Context, gap *gateway.Batch) error {
	if !r.acceptGaps {
		return fmt.Errorf("%v, and the destination does not have them. Bring them in from a backup if there is one, "+
			"then start once with --accept-gaps to go on behind them", gap.Gap)
	}
	r.counts.gaps.Add(1)
	r.logger.Error("going past a gap", "gap", gap.Gap, "from", gap.Gap.From, "to", gap.Gap.To)
	return r.forward(ctx, &batch{position: gap.Position})
}
