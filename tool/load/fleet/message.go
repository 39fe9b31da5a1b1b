package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// message is what the coordinator and an agent exchange. Exactly one field is set.
type message struct {
	Hello    *hello         `json:",omitempty"` // the agent's first
	Job      *job           `json:",omitempty"`
	Ready    bool           `json:",omitempty"` // all connections are open
	Ping     int64          `json:",omitempty"` // a number, from 1 up
	Pong     *pong          `json:",omitempty"`
	Start    int64          `json:",omitempty"` // when, in nanoseconds of the agent's clock
	Interval *load.Measured `json:",omitempty"`
	Done     *done          `json:",omitempty"` // the agent's last
	Stop     bool           `json:",omitempty"` // end the run, and report the counts
}

// hello introduces an agent.
type hello struct {
	Name, Machine, Version string
}

// job is the work of an agent.
type job struct {
	Index, Of int
	Plan      []byte
}

// pong answers a ping.
type pong struct {
	Number int64
	Clock  int64         // the agent's, in nanoseconds
	Seen   load.Progress // without its distributions
}

// done is the outcome of an agent's run.
type done struct {
	Measured *load.Measured `json:",omitempty"` // nil: nothing was measured
	Failure  *load.Error    `json:",omitempty"`
	Leaves   bool           `json:",omitempty"` // the agent itself was interrupted
}

// link is letters whose send never blocks.
type link struct {
	letters *letters
	out     chan []byte
	over    context.Context // its cause is why it has ended
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
}

// newLink starts a link. It calls take for each message, one after the other, and ended after the
// last.
func newLink(by *letters, take func(message), ended func(error)) *link {
	l := &link{letters: by, out: make(chan []byte, mostQueued)}
	l.over, l.cancel = context.WithCancelCause(context.Background())
	l.running.Go(l.write)
	l.running.Go(func() {
		l.end(l.read(take))
		ended(context.Cause(l.over))
	})
	return l
}

func (l *link) write() {
	for {
		select {
		case text := <-l.out:
			if text == nil { // sent by finish
				l.end(errClosed)
				return
			}
			if err := l.letters.Send(text); err != nil {
				l.end(err)
				return
			}
		case <-l.over.Done():
			return
		}
	}
}

func (l *link) read(take func(message)) error {
	for {
		text, err := l.letters.Receive()
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("sends an invalid message: %w", err)
		}
		take(m)
	}
}

// send queues a message and never blocks: if the other end does not read, the link ends.
func (l *link) send(m message) {
	text, err := json.Marshal(m)
	switch {
	case err != nil:
		l.end(err)
		return
	case len(text) > mostMessage:
		l.end(errTooLong)
		return
	}
	select {
	case l.out <- text:
	case <-l.over.Done():
	default:
		l.end(errFull)
	}
}

// end ends the link; the first reason counts.
func (l *link) end(why error) {
	l.cancel(why)
	l.letters.Close()
}

// finish ends the link once everything is sent, or soon.
func (l *link) finish() {
	select {
	case l.out <- nil:
		select {
		case <-l.over.Done():
		case <-time.After(lastWords):
		}
	default:
	}
	l.close()
}

// lastWords is how long sending the queue may take at the end.
const lastWords = 300 * time.Millisecond

// close ends the link and waits for its goroutines.
func (l *link) close() {
	l.end(errClosed)
	l.running.Wait()
}
