package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/demo"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// ladder is the first article: its three servers and ours, under two loads.
func ladder(ctx context.Context, b *bench) error {
	all, end, err := b.startAll(ctx, append(rungNames(), ownName(engine.Engine{})))
	if err != nil {
		return err
	}
	defer end()
	for _, depth := range []int{64, 1} {
		what := fmt.Sprintf("100 connections × %d", depth)
		laps, err := b.driveAll(ctx, all, quickly(b, 1, 5), what, func(p *process) (load.Plan, error) { return b.framesPlan(p, depth) })
		if err != nil {
			return err
		}
		if depth == 64 {
			b.ladderRates(laps)
		}
		b.ladderGains(what, laps)
		b.ladderOwn(what, ownName(engine.Engine{}), laps)
	}
	return b.ladderProfiles(ctx, all)
}

// framesPlan returns the load on a framed server.
func (b *bench) framesPlan(p *process, depth int) (load.Plan, error) {
	target, err := load.ParseTarget("tcp://"+p.addr, wire.Standard)
	return load.Plan{Target: target, Conns: quickly(b, 20, 100), Depth: depth, Expect: []byte{},
		For: quickly(b, 100*time.Millisecond, 1200*time.Millisecond), Warmup: quickly(b, 20*time.Millisecond, 300*time.Millisecond)}, err
}

const (
	notThisMachine = "The article does not name its machine, and here server and load share the CPUs: compare the gains below."
	perRequest     = "µs of CPU"
)

// ladderRates shows requests per second next to the article's.
func (b *bench) ladderRates(laps map[string]lap) {
	for i, r := range []struct {
		what    string
		article float64
	}{{"direct I/O", 185_000}, {"4 KiB buffers", 270_000}, {"sync.Pool", 292_000}} {
		b.add(laps[rungNames()[i]].rate.row(r.what+", 100 connections × 64", "requests/s", notThisMachine).beside(r.article))
	}
}

// ladderGains judges each step against the one before.
func (b *bench) ladderGains(load string, laps map[string]lap) {
	for i, step := range []struct {
		what    string
		article float64
		why     string
	}{
		{"buffers after direct I/O", 270.0 / 185, "Direct I/O makes four system calls per request (two reads, for the length and the rest, and two writes). " +
			"With buffers, all requests that have arrived share one read and one write: the more are in flight, the larger the gain, and with one at a time " +
			"it is two calls instead of four. The article's version flushes only when 4 KiB are full and so hangs with one request at a time; the version here flushes when no whole request is left."},
		{"sync.Pool after buffers", 292.0 / 270, "The pool saves one of a request's seven or eight allocations, 40 bytes; the others stay (frame, id, two joins, ack, and those of " +
			"encoding/binary). Runs on a shared machine differ by about as much as this step's 8 %."},
	} {
		before, after := laps[rungNames()[i]], laps[rungNames()[i+1]]
		gain := after.rate.over(before.rate)
		b.add(gain.row(step.what+", "+load, "× requests/s", step.why).beside(step.article).as(gained(step.article, gain)))
		saved := before.cpu.over(after.cpu)
		b.add(after.cpu.row(step.what+", CPU, "+load, perRequest, "User and system time of the server alone; the ratio is how many times less than the step before. "+
			"It does not depend on how much CPU the load generator uses.").to(saved, "less than the step before").as(better(saved)))
	}
}

// ladderOwn compares hone's server with the article's last step.
func (b *bench) ladderOwn(load, name string, laps map[string]lap) {
	own, last := laps[name], laps[rungNames()[2]]
	more := own.rate.over(last.rate)
	b.add(own.rate.row(name+", "+load, "requests/s", "Ours. The claim: more requests/s than the article's last step, in each round. "+
		"With 64 in flight the generator, which checks every answer, uses most of the CPUs and hides much of the difference.").to(more, "the article's last step").as(better(more)))
	saved := last.cpu.over(own.cpu)
	b.add(own.cpu.row(name+", CPU, "+load, perRequest, "Of the server alone; the ratio is how many times less than the article's last step. "+
		"No allocation per request, with limits, timeouts and backpressure on, which the article's servers do not have.").to(saved, "less than the article's last step").as(better(saved)))
}

// ladderProfiles looks for the bottlenecks that the article names.
func (b *bench) ladderProfiles(ctx context.Context, all []*process) error {
	var views [3]profileOf // of the steps
	for i := range views {
		plan, err := b.framesPlan(all[i], 64)
		if err != nil {
			return err
		}
		plan.For = time.Minute // cancelled once the profile is taken
		views[i], err = b.profile(ctx, all[i], quickly(b, 150*time.Millisecond, 3*time.Second), "", func(ctx context.Context) error {
			_, err := load.Run(ctx, plan)
			return err
		})
		if err != nil {
			return err
		}
	}
	direct, buffered, pooled := views[0], views[1], views[2]
	calls := flatShare(direct.cpu, inSystemCalls...)
	b.add(one(calls).row("direct I/O: system calls, of its CPU", "%", "The article's flame graph shows Syscall as the largest box, from reads and writes. Top functions here: "+top(direct.cpu, 3)+".").
		as(first(calls > 50, calls > cumShare(direct.cpu, inAllocation...))))
	left := flatShare(buffered.cpu, inSystemCalls...)
	memory := cumShare(buffered.cpu, inAllocation...)
	b.add(one(memory).row("buffers: allocation and collection, of its CPU", "%", fmt.Sprintf("What the article looks at next. System calls are %.0f %% now. Top functions: %s.", left, top(buffered.cpu, 3))).
		as(first(memory > left, memory > 10)))
	decoding := cumShare(buffered.allocs, nameOf((*demo.Step).Decode))
	b.add(one(decoding).row("buffers: decoding a packet, of all bytes allocated", "%", "The article's packet.Decode, which is where it puts the pool. Most bytes: "+top(buffered.allocs, 4)+".").
		beside(35.72).as(first(decoding >= enough*35.72, decoding > 5)))
	after := cumShare(pooled.allocs, nameOf((*demo.Step).Decode))
	b.add(one(after).row("sync.Pool: decoding a packet, of all bytes allocated", "%", "What remains with the pool: the id, which is a string. Most bytes: "+top(pooled.allocs, 4)+".").
		to(one(after).over(one(decoding)), "without the pool").as(first(after < decoding/2, after < decoding)))
	return nil
}

// one is a figure of one round.
func one(v float64) spread { return spread{[]float64{v}} }

// first returns holds, holdsLess or, if neither is true, contradicted.
func first(whole, part bool) verdict {
	switch {
	case whole:
		return holds
	case part:
		return holdsLess
	}
	return contradicted
}
