package gateway

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkRead measures what readers cost a server in a process of its own: its CPU time for each record of 128
// bytes, and records/s. behind: a reader reads b.N records that are in the log, without writers. live: 4 clients
// with 256 in flight store b.N records while so many readers read along; compare the CPU and the rate with those of none.
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
	for _, readers := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("live-%d", readers), func(b *testing.B) {
			p := startProcess(b, "segments")
			fill4(b, p, 1000)
			before := p.cpu(b)
			b.ResetTimer()
			var reading sync.WaitGroup
			for i := range readers {
				reading.Go(func() { readAll(b, p, fmt.Sprint("r", i), b.N+1000) })
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
			if err := c.Close(ctx); err != nil {
				b.Error(err)
			}
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
