package conns_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/conns"
)

// integers makes a pool of connections that cost nothing.
func integers(b *testing.B, most int) *conns.Pool[*int] {
	p := conns.New(conns.Config[*int]{
		Dial:       func(context.Context) (*int, error) { return new(int), nil },
		Max:        most,
		MaxWaiters: 1 << 20,
	})
	b.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := p.Warm(context.Background(), most); err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkGetRelease(b *testing.B) {
	p := integers(b, 8)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Get(ctx)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

func BenchmarkDo(b *testing.B) {
	p := integers(b, 8)
	ctx := context.Background()
	use := func(context.Context, *int) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Do(ctx, use); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContended has 64 goroutines that compute on 8 connections.
func BenchmarkContended(b *testing.B) {
	p := integers(b, 8)
	b.ReportAllocs()
	crowd(b, 64, func() {
		l, err := p.Get(context.Background())
		if err != nil {
			b.Error(err)
			return
		}
		*l.Conn()++
		l.Release()
	})
}

// BenchmarkBurst has 256 goroutines at once on 64 connections, then a pause.
func BenchmarkBurst(b *testing.B) {
	p := integers(b, 64)
	b.ReportAllocs()
	for b.Loop() {
		var all sync.WaitGroup
		for range 256 {
			all.Go(func() {
				l, err := p.Get(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				l.Release()
			})
		}
		all.Wait()
	}
}

// BenchmarkCancelStorm has 64 goroutines whose contexts mostly end before one of two
// connections is free.
func BenchmarkCancelStorm(b *testing.B) {
	p := integers(b, 2)
	b.ReportAllocs()
	crowd(b, 64, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Microsecond)
		defer cancel()
		if l, err := p.Get(ctx); err == nil {
			l.Release()
		}
	})
}

// crowd runs f b.N times, spread over n goroutines.
func crowd(b *testing.B, n int, f func()) {
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range n {
		all.Go(func() {
			for range (b.N + i) / n {
				f()
			}
		})
	}
	all.Wait()
}
