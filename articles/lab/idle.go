package lab

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

const (
	idleWarm = 100             // connections before the first memory reading, so that code and tables are loaded
	idleRest = 6 * time.Second // by then a server has released what it can
)

// idle is the second half of the fourth article: memory per idle connection.
func idle(ctx context.Context, b *bench) error {
	limit, err := descriptors()
	if err != nil {
		b.add(spread{}.row("bytes per idle connection", "bytes", fmt.Sprintf("Not available on this system: %v.", err)))
		return nil
	}
	n := min(quickly(b, 300, 50_000), limit-500)
	if runtime.GOOS != "linux" || n < 2*idleWarm {
		b.add(spread{}.row("bytes per idle connection", "bytes", fmt.Sprintf("Needs Linux and more than %d descriptors (ulimit -n).", limit)))
		return nil
	}
	names := []string{"article-direct", "article-buffered", "article-epoll", ownName(engine.Engine{})}
	each := make(map[string]float64, len(names))
	for _, name := range names {
		b.say("%s with %s connections", name, thousands(n))
		if each[name], err = b.idleBytes(ctx, name, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	b.idleRows(names, each, n)
	return nil
}

// idleBytes measures the memory of a server per connection that it has answered once.
func (b *bench) idleBytes(ctx context.Context, name string, n int) (float64, error) {
	p, err := b.start(ctx, name)
	if err != nil {
		return 0, err
	}
	defer p.Stop()
	asked, err := idlePlan(p)
	if err != nil {
		return 0, err
	}
	var held load.Guests
	defer held.Leave()
	var resident [2]int64
	for i, upTo := range []int{idleWarm, n} {
		if err := held.UpTo(ctx, asked, upTo); err != nil {
			return 0, err
		}
		if err := wait(ctx, quickly(b, 0, idleRest)*time.Duration(i)); err != nil {
			return 0, err
		}
		if err := p.order(ctx, "settle", 0, &done{}); err != nil {
			return 0, err
		}
		use, err := p.Used()
		if err != nil {
			return 0, err
		}
		resident[i] = use.Resident
	}
	return float64(resident[1]-resident[0]) / float64(n-idleWarm), nil
}

// idlePlan sends one request on each connection. Its client addresses have ports for
// 50,000.
func idlePlan(p *process) (plan load.Plan, err error) {
	plan = load.Plan{Timeout: callTime}
	if err := plan.Sources.UnmarshalText([]byte("127.0.0.1-127.0.0.4")); err != nil {
		return plan, err
	}
	plan.Content, plan.Expect = []byte("hello world\r\n"), []byte{}
	plan.Target, err = load.ParseTarget("tcp://"+p.addr, wire.Standard)
	return plan, err
}

// idleRows reports the cost of a connection, and of a million.
func (b *bench) idleRows(names []string, each map[string]float64, n int) {
	const gib = 1e6 / (1 << 30)
	whole, epoll := one(each["article-buffered"]), one(each["article-epoll"])
	drawn := fmt.Sprintf("Extrapolated from %s connections to a million. Memory of the process; the kernel adds about 5 KB per connection, whatever the server.", thousands(n))
	million := whole.times(gib)
	b.add(million.row("a million connections, a goroutine and 4 KiB buffers each", "GiB", "The article says tens of GB (20 is used here) for a goroutine and a buffer each. "+drawn).
		beside(20).as(first(million.median() >= enough*20, million.median() >= 5)))
	for _, name := range names {
		here := one(each[name])
		why := fmt.Sprintf("%s connections, each answered once. 50,000 take %.0f MiB, a million %.1f GiB. ", thousands(n), each[name]*50_000/(1<<20), each[name]*gib)
		switch name {
		case "article-direct", "article-buffered":
			b.add(here.row(name+", an idle connection", "bytes", why+"A goroutine's stack, package net's connection, and the buffers. The article prints a screenshot for 50,000, whose figures cannot be read.").to(here.over(epoll), "the article's epoll"))
		case "article-epoll":
			less := whole.over(here)
			b.add(here.row(name+", an idle connection", "bytes", why+"The claim: less than a goroutine with buffers. What remains is package net's connection, which is also registered with Go's own epoll, and a map entry.").
				to(less, "less than a goroutine with buffers").as(larger(less)))
		default:
			less := epoll.over(here)
			b.add(here.row(name+", an idle connection", "bytes", why+"Ours. The claim: less than the article's epoll server.").to(less, "less than the article's epoll").as(larger(less)))
		}
	}
}
