package gateway

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// serve runs one connection from dial to close, and reports whether the server welcomed it.
func (r *Reader) serve(addr string) (welcomed bool, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, cmp.Or(r.DialTime, 10*time.Second))
	nc, err := r.Dial(ctx, addr)
	if err != nil {
		cancel()
		return false, fmt.Errorf("gateway: %w", err)
	}
	defer nc.Close()
	c := &readConn{nc: nc}
	c.wake.L = &r.mu
	r.mu.Lock()
	opening := r.opening().append(nil)
	r.mu.Unlock()
	answer, err := shake(ctx, nc, opening)
	cancel()
	var w readWelcome
	if err == nil {
		w, err = parseReadWelcome(answer)
	}
	if err != nil {
		return false, err
	}
	r.adopt(c, w)
	var writer sync.WaitGroup
	writer.Go(func() { r.write(c) })
	every := cmp.Or(r.Heartbeat, min(20*time.Second, max(w.idle/3, time.Second)))
	r.mu.Lock()
	c.beat = time.AfterFunc(every, func() { r.heartbeat(c, every) })
	r.mu.Unlock()
	err = r.read(c, 2*every+stallTime(r.StallTime))
	r.mu.Lock()
	c.ended, r.conn = true, nil
	c.beat.Stop()
	c.wake.Signal()
	r.mu.Unlock()
	nc.Close()
	writer.Wait()
	return true, err
}

// adopt makes c the current connection.
func (r *Reader) adopt(c *readConn, w readWelcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened || w.number != r.given.Number { // the first connection, or an operator has moved the reader
		r.given, r.acked = Position{Log: w.log, Number: w.number}, Position{}
	}
	r.welcome, r.opened, r.conn, r.yields = w, true, c, false
	if r.err != nil {
		c.ended = true
	} else if r.acked.Number > 0 {
		r.say(c)
	}
	r.changed.Broadcast()
}

// heartbeat keeps the connection from being idle.
func (r *Reader) heartbeat(c *readConn, every time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.ended {
		c.queue(wire.Packet{Command: wire.Conn, ID: helloID})
		c.beat.Reset(every)
	}
}

// write is the writer goroutine. When the reader ends, it sends what is queued and closes the connection.
func (r *Reader) write(c *readConn) {
	var out []byte
	for ended := false; !ended; {
		r.mu.Lock()
		for len(c.out) == 0 && !c.ended {
			c.wake.Wait()
		}
		out, c.out, ended = c.out, out[:0], c.ended
		r.mu.Unlock()
		c.nc.SetWriteDeadline(time.Now().Add(stallTime(r.StallTime)))
		if _, err := c.nc.Write(out); err != nil {
			ended = true
		}
	}
	c.nc.SetReadDeadline(time.Now().Add(closeTime)) // what the server answers, until it closes
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// closeTime is how long a connection may take to close.
const closeTime = 2 * time.Second

// read receives batches until the connection ends.
func (r *Reader) read(c *readConn, patience time.Duration) error {
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
		p, err := wire.Standard.Parse(payload)
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

// receive queues a batch for the program.
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

// parse reads the content of a Deliver.
func (b *Batch) parse(in []byte) bool {
	switch {
	case len(in) == gapSize && in[0] == deliverGap:
		b.Gap = &Gap{Reason: Reason(in[1]), From: binary.BigEndian.Uint64(in[2:]), To: binary.BigEndian.Uint64(in[10:])}
		return true
	case len(in) < deliverHead || in[0] != deliverRecords:
		return false
	}
	b.Position.Sum = binary.BigEndian.Uint32(in[1:])
	client := ""
	for in = in[deliverHead:]; len(in) > 0; {
		if len(in) < recordHead || uint64(len(in)-recordHead) < uint64(binary.BigEndian.Uint32(in[8:])) {
			return false
		}
		end := recordHead + int(binary.BigEndian.Uint32(in[8:]))
		m := Message{Number: binary.BigEndian.Uint64(in), Record: journal.Record{Client: client}}
		if !m.Parse(in[recordHead:end:end]) {
			return false
		}
		if client = m.Client; b.Messages == nil { // as if all were as long as the first
			b.Messages = make([]Message, 0, min(len(in)/end+1, len(in)/recordHead))
		}
		b.Messages = append(b.Messages, m)
		in = in[end:]
	}
	return true
}
