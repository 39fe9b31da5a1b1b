package main

import (
	"context"
	"errors"
	"hash/crc32"
	"math"
	"sync"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// sink is a destination. One goroutine uses it, but for write, which several may call at once if it has lanes. After an error
// other than a refusal it is closed, and opens again by itself.
type sink interface {
	// open connects. A sink that stores the relay's position together with the messages returns it;
	// nil means that it has none, and at first says whether it will.
	open(ctx context.Context) (own *gateway.Position, err error)
	// write hands the messages at some indexes to the destination, all of them or none, and marks those as done that need
	// no commit.
	write(ctx context.Context, b *batch, at []int) error
	// commit makes durable what write has written, with the batch's position if the sink stores that, and marks the rest as
	// done. After an error write is called again: only then does the sink know what it has.
	commit(ctx context.Context, b *batch) error
	close()
}

// parts is how a sink takes a batch: in lanes side by side, each client's messages in one of them, and in one write at most so
// many messages and bytes, or one message.
type parts struct {
	lanes, messages, bytes int
	time                   time.Duration // of one call
}

// whole takes a batch as a whole.
func whole(time time.Duration) parts { return parts{1, math.MaxInt, math.MaxInt, time} }

// within calls the sink.
func (p *parts) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.time)
	defer cancel()
	return call(ctx)
}

// write hands the pending messages to a sink.
func (p *parts) write(ctx context.Context, to sink, b *batch) error {
	lanes, errs := make([][]int, p.lanes), make([]error, p.lanes)
	for _, i := range b.pending() {
		lane := int(crc32.ChecksumIEEE([]byte(b.messages[i].Client)) % uint32(p.lanes))
		lanes[lane] = append(lanes[lane], i)
	}
	var writing sync.WaitGroup
	for n, lane := range lanes {
		writing.Go(func() {
			errs[n] = b.chunks(lane, p.messages, p.bytes, func(at []int) error {
				return b.split(at, func(at []int) error {
					return p.within(ctx, func(ctx context.Context) error { return to.write(ctx, b, at) })
				})
			})
		})
	}
	writing.Wait()
	return errors.Join(errs...)
}

// finalError is an error that trying again does not cure. It ends the relay.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// refusal is an error of a destination that refuses these messages and works otherwise.
type refusal struct{ reason string }

func (e refusal) Error() string { return e.reason }

// laterError is an error of a destination that has said when to try again.
type laterError struct {
	error
	after time.Duration
}

func (e laterError) Unwrap() error { return e.error }

// state is what became of a message. The dead-letter log has the values.
type state uint8

const (
	pending state = iota
	done          // the destination has it
	refused       // the destination does not take it
	waiting       // not tried: an earlier message of the client was refused
	retried       // of a letter: an operator wants it delivered again
	dropped       // of a letter: an operator has given it up
)

func (s state) String() string {
	return [...]string{"pending", "done", "refused", "waiting", "retried", "dropped"}[s]
}

// message is a message on its way.
type message struct {
	gateway.Message
	log    [16]byte // in which Number counts
	state  state
	reason string // why it was refused
}

// batch is a number of messages that go to the destination together.
type batch struct {
	messages   []message
	position   gateway.Position // behind them
	redelivers bool             // these come from the dead-letter log: position has no meaning
	passOn     bool             // a refused message does not hold up later ones of its client

	mu sync.Mutex // guards the states while a sink writes with several goroutines
}

func (b *batch) pending() (at []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.messages {
		if b.messages[i].state == pending {
			at = append(at, i)
		}
	}
	return at
}

func (b *batch) done(at ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range at {
		b.messages[i].state = done
	}
}

// refuse marks a message that the destination refuses; the client's later ones wait.
func (b *batch) refuse(at int, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &b.messages[at]
	m.state, m.reason = refused, reason
	for i := at + 1; i < len(b.messages) && !b.passOn; i++ {
		if later := &b.messages[i]; later.state == pending && later.Client == m.Client {
			later.state = waiting
		}
	}
}

// split calls try with all messages at the given indexes, and if the destination refuses them, with the first
// half and then with the rest, until it is known which ones it refuses. try does not mark them.
func (b *batch) split(at []int, try func([]int) error) error {
	var still []int
	for _, i := range at {
		if b.messages[i].state == pending { // the states of these belong to this goroutine
			still = append(still, i)
		}
	}
	if len(still) == 0 {
		return nil
	}
	err := try(still)
	no, is := errors.AsType[refusal](err)
	switch {
	case !is:
		return err
	case len(still) == 1:
		b.refuse(still[0], no.reason)
		return nil
	}
	half := len(still) / 2
	if err := b.split(still[:half], try); err != nil {
		return err
	}
	return b.split(still[half:], try)
}

// chunks calls each with consecutive parts of at, of at most messages and bytes, or of one message.
func (b *batch) chunks(at []int, messages, bytes int, each func([]int) error) error {
	for len(at) > 0 {
		n, size := 0, 0
		for ; n < len(at) && n < messages; n++ {
			m := &b.messages[at[n]]
			if size += len(m.Data) + attributeBytes(m.Attributes); n > 0 && size > bytes {
				break
			}
		}
		if err := each(at[:n]); err != nil {
			return err
		}
		at = at[n:]
	}
	return nil
}

func attributeBytes(all []journal.Attribute) (n int) {
	for _, a := range all {
		n += len(a.Value)
	}
	return n
}
