package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// Reader reads the log of a gateway, live, from a position that the gateway keeps. When the connection
// is lost it reconnects and goes on behind what was acknowledged: each record comes at least once, and
// the records of each client in order. Fill the fields, call Next and Ack, and do not change the fields
// afterwards. The zero value of every field except Addrs and Name is a working default. Call Close at
// the end.
//
//	r := &gateway.Reader{Addrs: []string{"127.0.0.1:7100"}, Name: "billing", Start: gateway.FromFirst}
//	for {
//		batch, err := r.Next(ctx)
//		if err != nil {
//			return err
//		}
//		for _, m := range batch.Messages {
//			fmt.Printf("%s %d %s\n", m.Client, m.Seq, m.Data)
//		}
//		r.Ack(batch.Position)
//	}
//
// Next and Ack may be called by different goroutines, each by one at a time.
type Reader struct {
	// Addrs and Dial are as in Client.
	Addrs []string
	Dial  func(ctx context.Context, addr string) (net.Conn, error)
	// Name is the reader's name, as a client's. Its position is stored under it. A second connection
	// with this name and share ends the first with ErrMoved. Required.
	Name string
	// Token authenticates the reader at servers that require tokens.
	Token string
	// Start is where a reader begins of which nothing is stored yet. FromTime and FromNumber need At or
	// Number. Zero: such a reader is refused with ErrNoReader.
	Start  Start
	At     time.Time
	Number uint64
	// Anew makes the first connection begin at Start, whatever is stored.
	Anew bool
	// Own is the position that the program has stored itself, in one transaction with what it did with
	// the records. It overrides what the gateway has stored. Nil: there is none.
	Own *Position
	// Passing readers store nothing at the gateway and do not make it keep records. They need a
	// Start or Own.
	Passing bool
	// Eager gives a passing reader a batch without messages when it has everything that the log has.
	Eager bool
	// Client and Prefix select the records of one client, or of those whose names begin so. Zero: all.
	Client, Prefix string
	// Topic selects the records whose topic begins so. Zero: all, and those without a topic.
	Topic string
	// Share is which share of the clients to read, from 0 on, and Shares how many there are, the
	// same number for all readers of a name. Zero: 1 share, everything.
	Share, Shares int
	// Window is how many bytes may be on the way to the program, from 128 KiB to 2 MiB. Zero: 1 MiB. Negative: a panic.
	Window int
	// DialTime, StallTime, Heartbeat and Logger are as in Client.
	DialTime, StallTime, Heartbeat time.Duration
	Logger                         *slog.Logger

	yieldTime time.Duration // 0: the constant

	dialer // its mu guards the rest

	batches []Batch  // received
	given   Position // behind the batches that the program has got
	yields  bool     // to another connection
	welcome readWelcome
	opened  bool
	acked   Position // what the program acknowledged last

	// Of the connection:
	taken uint64 // bytes that the program has taken
	told  uint64 // what the server knows of that
	due   bool   // to tell the server what is done
}

// Message is a record with its number.
type Message struct {
	// Number is unique in the log and rises from record to record, with gaps. Its upper 48 bits are the
	// position of the record's envelope, its lower 16 the record's index in that.
	Number uint64
	journal.Record
}

// Batch is what Next returns: messages, or how far the reader is without any, or a gap.
type Batch struct {
	Messages []Message // in the order of the log; of several envelopes
	Position Position  // behind the messages, for Ack
	Gap      *Gap      // records that this reader does not get, instead of messages; nil: none

	size int // of the content of the Deliver
}

func (r *Reader) start() {
	r.once.Do(func() {
		r.addrs, r.dial, r.logger = r.Addrs, r.Dial, r.Logger
		r.dialTime, r.stallTime, r.heartbeat = r.DialTime, r.StallTime, r.Heartbeat
		r.prepare("Reader", "Name", r.Name, r.Window)
		go r.run(r.serve, r.judge, r.end)
	})
}

// Open waits for the first connection and returns the position behind which the reader begins.
func (r *Reader) Open(ctx context.Context) (Position, error) {
	r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.wait(ctx, func() bool { return r.opened })
	return r.given, err
}

// Next waits for the next batch. Its messages are the caller's to keep. After an error other than
// ctx's the reader has ended, for example with
//
//   - ErrMoved: another connection reads under this name;
//   - ErrRegressed: the log lacks what this reader has read, or is another one. A new Reader with Anew or
//     another Own can go on there;
//   - ErrNoReader, ErrShares, ErrUnauthorised.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.wait(ctx, func() bool { return len(r.batches) > 0 }); err != nil {
		return Batch{}, err
	}
	b := r.batches[0]
	r.batches[0] = Batch{}
	r.batches = r.batches[1:]
	r.given = b.Position
	if r.taken += uint64(b.size); r.conn != nil && r.taken-r.told >= uint64(r.welcome.window)/4 {
		r.say()
	}
	return b, nil
}

// Ack acknowledges every record up to a position: the gateway stores that within a second, and does not
// send them again. It does not wait. Positions that do not come from Next are an error.
func (r *Reader) Ack(p Position) error {
	r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case p.Number > r.given.Number || r.opened && p.Log != r.given.Log:
		return fmt.Errorf("%w: %v", ErrAhead, p)
	case p.Number <= r.acked.Number:
		return nil
	}
	r.acked = p
	if conn := r.conn; conn != nil && !r.due {
		r.due = true
		time.AfterFunc(sayTime, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.due && r.conn == conn && !conn.ended {
				r.say()
			}
		})
	}
	return nil
}

// say tells the server what the program has taken and done; mu is held. It replaces what the writer still has
// of that.
func (r *Reader) say() {
	a := acknowledgement{generation: r.welcome.generation, number: r.acked.Number, taken: r.taken}
	frame := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: a.number, Content: a.append(nil)})
	r.told, r.due = r.taken, false
	c := r.conn
	if c.said > 0 && c.said == len(c.out) {
		c.out = c.out[:len(c.out)-len(frame)]
	}
	c.queue(frame)
	c.said = len(c.out)
}

// sayTime is how long an acknowledgement waits for others. The server stores them twice a second.
const sayTime = 20 * time.Millisecond

// Close tells the server what was acknowledged and ends the reader.
func (r *Reader) Close() error {
	r.start()
	r.end(ErrClosed)
	<-r.done
	return nil
}

// end makes all further calls fail with why; the first error is kept.
func (r *Reader) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.err = why
	r.batches = nil
	if c := r.conn; c != nil {
		if r.due {
			r.say()
		}
		c.ended = true
		c.wake.Signal()
	}
	r.changed.Broadcast()
	r.cancel()
}

// judge says why a connection was the last one, or how long the next one has to wait.
func (r *Reader) judge(_ bool, err error) (wait time.Duration, final error) {
	moved := errors.Is(err, ErrMoved) // by another program, or by a connection that is gone
	switch {
	case moved && !r.yields:
		r.yields = true
		return cmp.Or(r.yieldTime, yieldTime), nil
	case moved || isFinal(err):
		return 0, err
	}
	return 0, nil
}

// yieldTime is how long a reader waits that another connection has taken over from. If that is gone then, it
// was an old one whose open came late.
const yieldTime = 3 * time.Second

// opening returns the open for the next connection; mu is held.
func (r *Reader) opening() *opening {
	r.batches = nil // they come again, behind what the program has got
	o := &opening{
		start: r.Start, anew: r.Anew && !r.opened, passing: r.Passing, eager: r.Eager, yields: r.yields, share: uint16(r.Share), shares: uint16(max(r.Shares, 1)),
		window: uint32(min(r.Window, maxReadWindow)), name: r.Name, token: r.Token, client: r.Client, prefix: r.Prefix, topic: r.Topic, instance: r.instance,
	}
	switch {
	case r.Start == FromTime:
		o.at = uint64(r.At.UnixMilli())
	case r.Start == FromNumber:
		o.at = r.Number
	}
	switch {
	case r.Own != nil && !r.opened:
		o.own = r.Own
	case r.opened && r.Passing:
		o.own = new(r.given)
	case r.opened && r.Own != nil:
		if o.own, o.resume = r.Own, new(r.given); r.acked.Number > 0 {
			o.own = new(r.acked)
		}
	case r.opened: // one that was removed meanwhile does not come back
		o.start, o.resume = Stored, new(r.given)
	}
	return o
}
