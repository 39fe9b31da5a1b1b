package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// serve runs one connection from dial to close, and reports whether the server welcomed it.
func (r *Reader) serve(addr string) (welcomed bool, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.dialTime)
	conn, answer, err := r.connect(ctx, addr, func() []byte {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.opening().append(nil)
	})
	cancel()
	if err != nil {
		return false, err
	}
	defer conn.nc.Close()
	w, err := parseReadWelcome(answer)
	if err != nil {
		return false, err
	}
	r.adopt(conn, w)
	return true, r.converse(conn, r.read)
}

func (r *Reader) adopt(conn *outlet, w readWelcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened || w.number != r.given.Number { // the first connection, or an operator has moved the reader
		r.given, r.acked = Position{Log: w.log, Number: w.number}, Position{}
	}
	r.welcome, r.opened, r.yields = w, true, false
	r.taken, r.told, r.due = 0, 0, false
	if r.attach(conn, w.idle); !conn.ended && r.acked.Number > 0 {
		r.say()
	}
}

// read receives batches until the connection ends.
func (r *Reader) read(c *outlet, patience time.Duration) error {
	in := bufio.NewReaderSize(c.nc, 16<<10) // most of a long frame is read without a copy
	var head [wire.HeaderSize]byte
	for {
		c.nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		size := int(binary.BigEndian.Uint32(head[:])) - wire.HeaderSize
		if size < 1 || size > maxDeliver {
			return fmt.Errorf("%w: a frame of %d bytes", ErrHandshake, size)
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(in, payload); err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		p, err := wire.Parse(payload)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrHandshake, err)
		case p.Command == wire.Deliver:
			if err = r.receive(p); err != nil {
				return err
			}
		case p.Result != wire.OK:
			return refused(p.Result, p.Content)
		}
	}
}

// maxDeliver is the largest frame from a server: a record of the longest frame that a server can be set to.
const maxDeliver = 32 << 20

func (r *Reader) receive(p wire.Packet) error {
	b := Batch{Position: Position{Log: r.welcome.log, Number: p.ID}, size: len(p.Content)}
	if !b.parse(p.Content) {
		return fmt.Errorf("%w: a delivery is malformed", ErrHandshake)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.batches = append(r.batches, b)
		r.changed.Broadcast()
	}
	return nil
}

func (b *Batch) parse(in []byte) bool {
	switch {
	case len(in) > 0 && in[0] == delivery.Gap:
		b.Position.Sum, b.Gap = nothingThere, new(Gap)
		return decode(in[1:], b.Gap.fields) == nil
	case len(in) < delivery.Head || in[0] != delivery.Records:
		return false
	}
	b.Position.Sum = binary.BigEndian.Uint32(in[1:])
	client := ""
	for in = in[delivery.Head:]; len(in) > 0; {
		if len(in) < delivery.RecordHead || uint64(len(in)-delivery.RecordHead) < uint64(binary.BigEndian.Uint32(in[8:])) {
			return false
		}
		end := delivery.RecordHead + int(binary.BigEndian.Uint32(in[8:]))
		m := Message{Number: binary.BigEndian.Uint64(in), Record: journal.Record{Client: client}}
		if !m.Parse(in[delivery.RecordHead:end:end]) {
			return false
		}
		if client = m.Client; b.Messages == nil { // as if all were as long as the first
			b.Messages = make([]Message, 0, min(len(in)/end+1, len(in)/delivery.RecordHead))
		}
		b.Messages = append(b.Messages, m)
		in = in[end:]
	}
	return true
}
