package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/wire"
)

// BenchmarkRead measures what readers cost a server in a process of its own: its CPU time for each record of 128
// bytes, and records/s. behind: a reader reads b.N records that are in the log, without writers. catching-up: and
// half as many more that 4 clients store at 250,000 a second meanwhile; behind-s is how long it took after those. live: 4 clients
// with 256 in flight store b.N records while so many readers read along; compare the CPU and the rate with those of none.
// They only count what comes, since they take the processors of the server; parsing are Readers instead.
func BenchmarkRead(b *testing.B) {
	b.Run("behind", func(b *testing.B) {
		p := startProcess(b, "segments")
		fill4(b, p, b.N)
		before := p.cpu(b)
		b.ResetTimer()
		readAll(b, p, "copy", b.N)
		b.StopTimer()
		b.ReportMetric(float64(p.cpu(b)-before)/float64(b.N), "cpu-ns/record")
	})
	b.Run("catching-up", func(b *testing.B) {
		p := startProcess(b, "segments")
		fill4(b, p, b.N)
		b.ResetTimer()
		var writing, reading sync.WaitGroup
		const perSecond = 250_000
		for i := range 4 {
			c := &Client{Addrs: []string{p.addr}, ID: fmt.Sprint("late-", i)}
			writing.Go(func() { feed(b, c, b.N/8, perSecond/4, &times{}) })
		}
		reading.Go(func() { drain(b, p, "copy", b.N+b.N/8*4) })
		writing.Wait()
		written := time.Now()
		reading.Wait()
		b.ReportMetric(time.Since(written).Seconds(), "behind-s")
	})
	for _, live := range []struct {
		name    string
		readers int
		read    func(b *testing.B, p *process, name string, n int)
	}{{"live-0", 0, nil}, {"live-1", 1, drain}, {"live-4", 4, drain}, {"parsing-1", 1, readAll}, {"parsing-4", 4, readAll}} {
		b.Run(live.name, func(b *testing.B) {
			p := startProcess(b, "segments")
			fill4(b, p, 1000)
			before := p.cpu(b)
			b.ResetTimer()
			var reading sync.WaitGroup
			for i := range live.readers {
				reading.Go(func() { live.read(b, p, fmt.Sprint("r", i), b.N+1000) })
			}
			fill4(b, p, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
			reading.Wait()
			b.StopTimer()
			b.ReportMetric(float64(p.cpu(b)-before)/float64(b.N), "cpu-ns/record")
		})
	}
}

// fill4 stores n records of 128 bytes from 4 clients.
func fill4(b *testing.B, p *process, n int) {
	data := bytes.Repeat([]byte("x"), 128)
	var feeding sync.WaitGroup
	for i := range 4 {
		feeding.Go(func() {
			c := &Client{Addrs: []string{p.addr}, ID: fmt.Sprint("c", i), Window: 256}
			for range (n + 3 - i) / 4 {
				if _, err := c.SubmitAsync(context.Background(), data, nil); err != nil {
					b.Error(err)
					return
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			reports(b, c.Close(ctx))
		})
	}
	feeding.Wait()
}

// readAll reads n records.
func readAll(b *testing.B, p *process, name string, n int) {
	r := &Reader{Addrs: []string{p.addr}, Name: name, Start: FromFirst}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for n > 0 {
		batch, err := r.Next(ctx)
		if err != nil {
			b.Error(err)
			return
		}
		n -= len(batch.Messages)
		r.Ack(batch.Position)
	}
}

// drain reads n records without a look at what they are.
func drain(b *testing.B, p *process, name string, n int) {
	nc, err := net.Dial("tcp", p.addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Minute))
	nc.Write(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 1, Content: (&opening{start: FromFirst, name: name, shares: 1}).append(nil)}))
	in, room, w, taken := bufio.NewReaderSize(nc, 16<<10), make([]byte, maxReadWindow), readWelcome{}, uint64(0)
	for said := uint64(0); n > 0; {
		head, err := in.Peek(wire.HeaderSize)
		if err != nil {
			b.Error(err)
			return
		}
		frame := room[:binary.BigEndian.Uint32(head)]
		if _, err := io.ReadFull(in, frame); err != nil {
			b.Error(err)
			return
		}
		d, err := wire.Parse(frame[wire.HeaderSize:])
		if err != nil || d.Result != wire.OK {
			b.Errorf("%+v, %v", d, err)
			return
		}
		if d.Command == wire.ConnAck {
			w, _ = parseReadWelcome(d.Content)
		}
		if d.Command != wire.Deliver {
			continue
		}
		for rest := d.Content[delivery.Head:]; len(rest) > 0; n-- {
			rest = rest[delivery.RecordHead+int(binary.BigEndian.Uint32(rest[8:])):]
		}
		if taken += uint64(len(d.Content)); taken-said >= defaultReadWindow/4 || n <= 0 {
			said = taken
			nc.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: d.ID, Content: acknowledgement{w.generation, d.ID, taken}.append(nil)}))
		}
	}
}
