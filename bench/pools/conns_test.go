package pools

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hone-go/hone/conns"
	"github.com/jackc/puddle/v2"
)

// A borrower takes a connection from a pool, uses it and gives it back.
type borrower func(ctx context.Context, use func()) error

// often borrows n times and does next to nothing.
func (borrow borrower) often(n int) error {
	ctx, use := context.Background(), func() {}
	for range n {
		if err := borrow(ctx, use); err != nil {
			return err
		}
	}
	return nil
}

// connectionPools makes each pool with so many connections, all of them open, and
// with its limits on idle time and lifetime set where it has them.
var connectionPools = []struct {
	name string
	make func(b *testing.B, most int) borrower
}{
	{"hone", honeConnections},
	{"puddle", puddleConnections},
	{"redigo", redigoConnections},
}

func honeConnections(b *testing.B, most int) borrower {
	ctx := context.Background()
	p := conns.New(conns.Config[*int]{
		Dial: func(context.Context) (*int, error) { return new(int), nil },
		Max:  most,
	})
	b.Cleanup(func() { p.Close(ctx) })
	if err := p.Warm(ctx, most); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, use func()) error {
		l, err := p.Get(ctx)
		if err != nil {
			return err
		}
		*l.Conn()++
		use()
		l.Release()
		return nil
	}
}

// puddleConnections has no limits on time: package pgxpool adds those.
func puddleConnections(b *testing.B, most int) borrower {
	ctx := context.Background()
	p, err := puddle.NewPool(&puddle.Config[*int]{
		Constructor: func(context.Context) (*int, error) { return new(int), nil },
		Destructor:  func(*int) {},
		MaxSize:     int32(most),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	for range most {
		if err := p.CreateResource(ctx); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, use func()) error {
		r, err := p.Acquire(ctx)
		if err != nil {
			return err
		}
		*r.Value()++
		use()
		r.Release()
		return nil
	}
}

func redigoConnections(b *testing.B, most int) borrower {
	ctx := context.Background()
	p := &redis.Pool{
		DialContext:     func(context.Context) (redis.Conn, error) { return &silentConn{}, nil },
		MaxIdle:         most,
		MaxActive:       most,
		Wait:            true,
		IdleTimeout:     90 * time.Second,
		MaxConnLifetime: 30 * time.Minute,
	}
	b.Cleanup(func() { p.Close() })
	var open []redis.Conn
	for range most {
		c, err := p.GetContext(ctx)
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		c.Close()
	}
	return func(ctx context.Context, use func()) error {
		c, err := p.GetContext(ctx)
		if err != nil {
			return err
		}
		use()
		return c.Close()
	}
}

// silentConn is a connection that does nothing.
type silentConn struct{}

func (*silentConn) Close() error                    { return nil }
func (*silentConn) Err() error                      { return nil }
func (*silentConn) Do(string, ...any) (any, error)  { return nil, nil }
func (*silentConn) Send(string, ...any) error       { return nil }
func (*silentConn) Flush() error                    { return nil }
func (*silentConn) Receive() (reply any, err error) { return nil, nil }

// BenchmarkConnections compares what a loan costs: by one goroutine alone; by 64
// on 8 connections; in bursts of 256 that begin together; and in a storm, where
// 512 want one of 8 connections for 100 µs each and wait no longer than 2 ms.
func BenchmarkConnections(b *testing.B) {
	scenarios := []struct {
		name string
		run  func(b *testing.B, borrow borrower)
	}{
		{"alone", func(b *testing.B, borrow borrower) {
			if err := borrow.often(b.N); err != nil {
				b.Fatal(err)
			}
		}},
		{"64on8", func(b *testing.B, borrow borrower) {
			crowd(64, func(i int) {
				if err := borrow.often((b.N + i) / 64); err != nil {
					b.Error(err)
				}
			})
		}},
		{"burst", func(b *testing.B, borrow borrower) {
			for range b.N {
				crowd(256, func(int) {
					if err := borrow.often(1); err != nil {
						b.Error(err)
					}
				})
			}
		}},
		{"storm", storm},
	}
	for _, sc := range scenarios {
		for _, pool := range connectionPools {
			b.Run(sc.name+"/"+pool.name, func(b *testing.B) {
				borrow := pool.make(b, 8)
				b.ReportAllocs()
				b.ResetTimer()
				sc.run(b, borrow)
			})
		}
	}
}

// crowd calls do on n goroutines and waits for them.
func crowd(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// storm reports how many of b.N calls were served; the pool must serve the next
// one after it.
func storm(b *testing.B, borrow borrower) {
	var served atomic.Int64
	crowd(512, func(i int) {
		for range (b.N + i) / 512 {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
			if borrow(ctx, busy) == nil {
				served.Add(1)
			}
			cancel()
		}
	})
	b.ReportMetric(float64(served.Load())/float64(b.N), "served/op")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range 8 {
		if err := borrow(ctx, func() {}); err != nil {
			b.Errorf("after the storm: %v", err)
		}
	}
}

// busy waits as one does for a server.
func busy() { <-time.After(100 * time.Microsecond) }

// TestMaxIdleCostsDials counts the dials of 2 000 workers that make 60 000
// requests of 1 to 9 ms each, with a dial of 1 ms, in fake time.
func TestMaxIdleCostsDials(t *testing.T) {
	const workers, rounds = 2000, 30
	count := func(pool func(dial func()) (do func(work func()) error, end func())) (dials int64) {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			do, end := pool(func() { n.Add(1); <-time.After(time.Millisecond) })
			var all sync.WaitGroup
			for i := range workers {
				all.Go(func() {
					for j := range rounds {
						<-time.After(time.Duration((i+j)%3) * time.Millisecond) // between requests
						err := do(func() { <-time.After(time.Duration(1+(i*7+j*13)%9) * time.Millisecond) })
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			end()
			dials = n.Load()
		})
		return dials
	}
	redigo := func(maxIdle int) func(func()) (func(func()) error, func()) {
		return func(dial func()) (func(func()) error, func()) {
			p := &redis.Pool{
				DialContext: func(context.Context) (redis.Conn, error) { dial(); return &silentConn{}, nil },
				MaxIdle:     maxIdle, MaxActive: workers, Wait: true,
			}
			return func(work func()) error {
				c, err := p.GetContext(context.Background())
				if err != nil {
					return err
				}
				work()
				return c.Close()
			}, func() { p.Close() }
		}
	}
	hone := func(dial func()) (func(func()) error, func()) {
		p := conns.New(conns.Config[int]{
			Dial: func(context.Context) (int, error) { dial(); return 0, nil },
			Max:  workers, MaxDials: workers,
		})
		return func(work func()) error {
			return p.Do(context.Background(), func(context.Context, int) error { work(); return nil })
		}, func() { p.Close(context.Background()) }
	}
	few, many, none := count(redigo(100)), count(redigo(workers)), count(hone)
	t.Logf("dials for %d requests: MaxIdle 100 %d, MaxIdle %d %d, hone %d", workers*rounds, few, workers, many, none)
	if none > workers || few < 2*none {
		t.Errorf("MaxIdle 100 costs %d dials, none costs %d", few, none)
	}
}
