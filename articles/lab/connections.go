package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// connectionStages returns the server that all clients of the lab call: it answers in
// capitals, on this system's default engine.
func connectionStages() map[string]func() (*stage, error) {
	return map[string]func() (*stage, error){"upper": ownServer(engine.Engine{}, upper)}
}

// callTime bounds a request, and a dial.
const callTime = 20 * time.Second

// courier sends requests of "test" and expects "TEST".
type courier struct {
	request func(ctx context.Context) error
	dials   func() int64
	close   func() error
}

// couriers returns the clients to compare.
func couriers(addr string, most, mostIdle int) map[string]func() *courier {
	return map[string]func() *courier{
		"article": func() *courier { return articleCourier(addr, most, mostIdle) },
		"roomy":   func() *courier { return articleCourier(addr, most, most) },
		"conns":   func() *courier { return ownCourier(addr, most) },
		"mux":     func() *courier { return muxCourier(addr) },
	}
}

func articleCourier(addr string, most, mostIdle int) *courier {
	p := &borrowed{most: most, mostIdle: mostIdle, idleTime: 20 * time.Second,
		dial: func() (net.Conn, error) { return net.DialTimeout("tcp", addr, callTime) }}
	return &courier{
		request: func(context.Context) error {
			conn, err := p.get()
			if err != nil {
				return err
			}
			err = ask(conn)
			p.put(conn, err != nil)
			return err
		},
		dials: func() int64 { return int64(p.dials) },
		close: func() error { p.close(); return nil },
	}
}

func ownCourier(addr string, most int) *courier {
	p := conns.New(conns.Config[net.Conn]{Max: most, MaxDials: most, DialTimeout: callTime, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	return &courier{
		request: func(ctx context.Context) error {
			return p.Do(ctx, func(_ context.Context, conn net.Conn) error { return ask(conn) })
		},
		dials: func() int64 { return p.Stats().Dials },
		close: func() error { return p.Close(context.Background()) },
	}
}

func muxCourier(addr string) *courier {
	m := &framed.Mux{Addr: addr, DialTime: callTime}
	return &courier{
		request: func(ctx context.Context) error {
			var room [8]byte
			answer, err := m.Call(ctx, room[:0], []byte("test"))
			if err == nil && string(answer) != "TEST" {
				err = fmt.Errorf("answered %q", answer)
			}
			return err
		},
		dials: func() int64 { return 1 },
		close: m.Close,
	}
}

// ask makes one request on a connection that only the caller uses.
func ask(conn net.Conn) error {
	var room [64]byte
	if _, err := conn.Write(wire.Standard.Append(room[:0], wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("test")})); err != nil {
		return err
	}
	want := wire.Standard.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 1, Content: []byte("TEST")})
	got := room[:len(want)]
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("answered %x", got)
	}
	return nil
}

// deliver has workers make n requests, handed out by one goroutine as in the article. It
// counts until the last answer; the article stops its clock when a worker takes the last
// request.
func deliver(ctx context.Context, c *courier, workers, n int) (rate float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan struct{})
	var all sync.WaitGroup
	var answered atomic.Int64
	began := time.Now()
	for range workers {
		all.Go(func() {
			for range work {
				if err := c.request(ctx); err != nil {
					cancel(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for range n {
		select {
		case work <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	all.Wait()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w (%d of %d requests were answered)", context.Cause(ctx), answered.Load(), n)
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// delivery holds the results of a courier's rounds.
type delivery struct{ rate, dials spread }

// connections is the first half of the fourth article.
func connections(ctx context.Context, b *bench) error {
	p, err := b.start(ctx, "upper")
	if err != nil {
		return err
	}
	defer p.Stop()
	most, requests := quickly(b, 100, 2000), quickly(b, 4000, 500_000)
	if limit, err := descriptors(); err == nil && limit < most+200 {
		most = max(limit-200, 1)
		b.say("the descriptor limit of %d allows %d connections", limit, most)
	}
	if requests, err = b.affordable(ctx, p.addr, most, requests); err != nil {
		return err
	}
	all := make(map[string]delivery)
	names := []string{"article", "roomy", "conns", "mux"}
	rounds := quickly(b, 1, 3)
	for round := range rounds {
		for i := range names {
			name := names[(i+round)%len(names)]
			b.say("%s, round %d of %d", name, round+1, rounds)
			c := couriers(p.addr, most, quickly(b, 10, 100))[name]()
			runtime.GC() // so that no client pays for another's garbage
			rate, err := deliver(ctx, c, most, requests)
			dials := c.dials()
			if err = errors.Join(err, c.close()); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			d := all[name]
			d.rate.rounds, d.dials.rounds = append(d.rate.rounds, rate), append(d.dials.rounds, float64(dials))
			all[name] = d
		}
	}
	b.connectionRows(all, most, requests)
	return nil
}

// roundTime is how long a client's requests of one round may take.
const roundTime = 7 * time.Second

// affordable returns how many of the article's requests there is time for: all of them,
// except on a slow machine.
func (b *bench) affordable(ctx context.Context, addr string, most, wanted int) (int, error) {
	c := couriers(addr, most, most)["roomy"]()
	trial := min(wanted, 20*most)
	rate, err := deliver(ctx, c, most, trial)
	if err = errors.Join(err, c.close()); err != nil {
		return 0, err
	}
	n := min(wanted, max(trial, int(rate*roundTime.Seconds())))
	b.say("%s requests per round", thousands(n))
	return n, nil
}

const articleSeconds = 3.731506996 // for 500,000 requests

func (b *bench) connectionRows(all map[string]delivery, most, requests int) {
	told := one(500_000 / articleSeconds)
	b.add(told.row("the article's own figures, 500,000 requests in 3.7315 s", "requests/s",
		"Division: its headline and its last paragraph say more than 150,000. Its clock also stops when a worker takes the last request, not when the answer arrives, so up to 2,000 are missing.").
		beside(150_000).as(first(told.median() >= 150_000, false)))
	article, roomy, own, mux := all["article"], all["roomy"], all["conns"], all["mux"]
	b.add(article.rate.row("the article's pool, MaxIdle 100", "requests/s", fmt.Sprintf("%s requests. ", thousands(requests))+"Another machine, a framed protocol instead of none, and hone's server instead of the article's epoll loop, which takes whatever has arrived for one message. "+
		"Client and server share two CPUs.").beside(told.median()))
	b.add(article.dials.row("dials of the article's pool, MaxIdle 100", "dials", fmt.Sprintf("The article says that connections are reused. With %s borrowers and MaxIdle 100 (%s requests), a connection that is returned while 100 are idle is closed, and dialled again "+
		"a moment later. The claim: no more than one dial for each of %[1]s borrowers.", thousands(most), thousands(requests))).to(article.dials.times(1/float64(most)), "one for each borrower").as(first(article.dials.median() <= float64(most), false)))
	b.add(roomy.dials.row("dials of the article's pool, MaxIdle as large as MaxActive", "dials", "The setting that the article's code needs.").
		to(roomy.dials.times(1/float64(most)), "one for each borrower").as(first(roomy.dials.median() <= float64(most), false)))
	for _, c := range []struct {
		what, why string
		of        delivery
	}{
		{"the article's pool, MaxIdle as large as MaxActive", "The claim: connection churn costs throughput.", roomy},
		{"conns.Pool", fmt.Sprintf("Ours: no MaxIdle to get wrong; borrowers wait in FIFO order and give up when their context ends. It dialled %s times.", thousands(int(own.dials.median()))), own},
		{"framed.Mux, one connection", "Ours: requests have ids, so all callers share one connection, and one write carries the requests of many. Where the protocol has ids, no pool is needed. " +
			"A handler that blocks delays the requests after it on the connection (head-of-line blocking), unless it replies late.", mux},
	} {
		more := c.of.rate.over(article.rate)
		b.add(c.of.rate.row(c.what, "requests/s", c.why).to(more, "the article's pool").as(better(more)))
	}
	pool := own.rate.over(roomy.rate)
	b.add(pool.row("conns.Pool against the article's pool, both without churn", "× requests/s", "Is ours cheaper when the other has room? The kernel takes most of a request's time, and both pools only hand over a connection.").as(better(pool)))
}
