package lab

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/hone-go/hone/workers"
)

const (
	burst      = 10_000 // tasks at a time, as in the article
	deepCalls  = 100    // nested calls of each task, as in the article
	parkedDeep = 2000   // goroutines that wait at that depth, in a server with live connections
)

// descend is the article's task: nested calls, which need stack. It returns 0 for 0.
//
//go:noinline
func descend(zero, depth, to int) int {
	if depth < to {
		return descend(0, depth+1, to)
	}
	return zero
}

// articlePool is the article's pool: some goroutines that take tasks from a channel.
type articlePool struct{ tasks chan func() }

func newArticlePool(n int) *articlePool {
	p := &articlePool{make(chan func())}
	for range n {
		go func() {
			for task := range p.tasks {
				task()
			}
		}()
	}
	return p
}

// close ends its goroutines, which the article's benchmark leaks.
func (p *articlePool) close() { close(p.tasks) }

// stackSizes is what the runtime reports about stacks.
type stackSizes struct {
	Start uint64 `json:"start"` // of a new goroutine, in bytes
}

// tasksStage times bursts of tasks. The order "park" makes it a server with live
// connections, "stacks" returns stackSizes.
func tasksStage() (*stage, error) {
	rest := &resting{until: make(chan struct{})}
	s := &stage{timed: make(map[string]timed), stop: rest.stop, asked: func(order string) (any, error) {
		switch order {
		case "park":
			rest.park()
			return done{}, nil
		case "stacks":
			sample := []metrics.Sample{{Name: "/gc/stack/starting-size:bytes"}}
			metrics.Read(sample)
			return stackSizes{Start: sample[0].Value.Uint64()}, nil
		}
		return nil, fmt.Errorf("unknown order %q", order)
	}}
	for name, depth := range map[string]int{"deep": deepCalls, "flat": 1} {
		s.timed["go/"+name] = timed{func(n int) { bursts(n, depth, func(task func()) { go task() }) }}
		s.timed["article/"+name] = timed{func(n int) {
			for range n { // a new pool for each burst, as in the article
				p := newArticlePool(runtime.GOMAXPROCS(0))
				bursts(1, depth, func(task func()) { p.tasks <- task })
				p.close()
			}
		}}
		s.timed["hone/"+name] = timed{func(n int) { ownBursts(n, depth) }}
	}
	return s, nil
}

// bursts hands over n bursts of tasks, and waits for each.
func bursts(n, depth int, handOver func(task func())) {
	var all sync.WaitGroup
	for range n {
		all.Add(burst)
		for range burst {
			handOver(func() {
				if descend(0, 0, depth) != 0 {
					panic("lab: a task did not return its argument")
				}
				all.Done()
			})
		}
		all.Wait()
	}
}

func ownBursts(n, depth int) {
	p := workers.New(workers.Options{})
	ctx := context.Background()
	bursts(n, depth, func(task func()) {
		if err := p.Go(ctx, task); err != nil {
			panic("lab: an open pool with a queue that blocks refused a task: " + err.Error())
		}
	})
	if err := p.Close(ctx); err != nil {
		panic("lab: a pool without tasks did not close: " + err.Error())
	}
}

// resting holds goroutines that wait deep in their stacks until the process ends.
type resting struct {
	until chan struct{}
	all   sync.WaitGroup
}

// park starts them and lets the collector scan their stacks.
func (r *resting) park() {
	var there sync.WaitGroup
	for range parkedDeep {
		there.Add(1)
		r.all.Go(func() { restAt(deepCalls, there.Done, r.until) })
	}
	there.Wait()
	for range 2 { // the size of new stacks is set by the collection before
		runtime.GC()
	}
}

func (r *resting) stop() {
	close(r.until)
	r.all.Wait()
}

//go:noinline
func restAt(depth int, there func(), until chan struct{}) int {
	if depth > 0 {
		return 1 + restAt(depth-1, there, until)
	}
	there()
	<-until
	return 0
}

// taskState is a process in which bursts are timed.
type taskState struct {
	name string
	env  []string
	park bool
	flat bool // tasks of one call instead of a hundred
}

// tasks is the second half of the second article.
func tasks(ctx context.Context, b *bench) error {
	states := []taskState{
		{name: "cold"},
		{name: "flat", flat: true},
		{name: "live", park: true},
		{name: "fixed", park: true, env: []string{"GODEBUG=adaptivestackstart=0"}},
	}
	all := make(map[string]map[string]spread)
	starts := make(map[string]spread)
	rounds := quickly(b, 1, 7)
	for _, state := range states {
		p, err := b.start(ctx, "tasks", state.env...)
		if err != nil {
			return err
		}
		defer p.Stop()
		if state.park {
			if err := p.order(ctx, "park", 0, &done{}); err != nil {
				return err
			}
		}
		var stacks stackSizes
		if err := p.order(ctx, "stacks", 0, &stacks); err != nil {
			return err
		}
		starts[state.name] = one(float64(stacks.Start))
		cases := []string{"go/deep", "article/deep", "hone/deep"}
		if state.flat {
			cases = []string{"go/flat", "article/flat", "hone/flat"}
		}
		b.say("%s: new goroutines begin with %d bytes of stack", state.name, stacks.Start)
		if all[state.name], err = b.timeAll(ctx, p, cases, rounds, quickly(b, 20*time.Millisecond, 350*time.Millisecond)); err != nil {
			return err
		}
	}
	b.taskTimes(all)
	b.taskReasons(all, starts)
	return b.taskProfile(ctx)
}

// taskTimes reports the article's two figures, their ratio, and ours.
func (b *bench) taskTimes(all map[string]map[string]spread) {
	const ms = 1e-6
	cold := all["cold"]
	b.add(cold["go/deep"].times(ms).row("10,000 tasks of 100 calls, a goroutine each", "ms", notTheirs).beside(41.41),
		cold["article/deep"].times(ms).row("10,000 tasks of 100 calls, the article's pool", "ms", notTheirs).beside(5.61))
	gain := cold["go/deep"].over(cold["article/deep"])
	b.add(gain.row("the pool's gain, tasks of 100 calls", "× as fast", "This benchmark has no other goroutines and few collections, so every new goroutine begins with 2 KiB of "+
		"stack, which is copied twice as it grows. The pool's goroutines have already grown theirs. See the rows below.").beside(taskGain).as(gained(taskGain, gain)))
	for _, name := range []string{"deep", "flat"} {
		in := all[map[string]string{"deep": "cold", "flat": "flat"}[name]]
		more := in["article/"+name].over(in["hone/"+name])
		what := map[string]string{"deep": "hone's workers, tasks of 100 calls", "flat": "hone's workers, tasks of one call"}[name]
		b.add(in["hone/"+name].times(ms).row(what, "ms", "Ours, at the same limit. The claim: less time than the article's pool. It has a bounded queue of 1,024, so the sender "+
			"seldom waits, and a shutdown; the article's pool hands over each task on an unbuffered channel.").to(more, "less than the article's pool").as(better(more)))
	}
}

// inMS formats the time of a burst with a goroutine each and in the article's pool.
func (b *bench) inMS(in map[string]spread) string {
	told := func(name string) string {
		for _, depth := range []string{"/deep", "/flat"} {
			if s := in[name+depth]; s.known() {
				return number(s.median() / 1e6)
			}
		}
		return "–"
	}
	return told("go") + " ms with a goroutine each, " + told("article") + " in the pool"
}

const (
	taskGain  = 41_407_678.0 / 5_608_174
	notTheirs = "The article used another machine: compare the gains below."
)

// taskReasons measures what the gain consists of.
func (b *bench) taskReasons(all map[string]map[string]spread, starts map[string]spread) {
	flat := all["flat"]["go/flat"].over(all["flat"]["article/flat"])
	b.add(flat.row("the pool's gain, tasks of one call", "× as fast", "The article explains the gain by the cost of creating and scheduling goroutines. Then it would be as large for tasks that need no "+
		"stack. What remains here is that cost: "+b.inMS(all["flat"])+".").beside(taskGain).as(gained(taskGain, flat)))
	live := all["live"]["go/deep"].over(all["live"]["article/deep"])
	b.add(live.row("the pool's gain, 100 calls, in a live server", "× as fast", "The same with 2,000 goroutines that wait at that depth, as connections do, and a collection: Go then starts new "+
		"stacks at the mean size that it scanned; collections during a burst also scan the burst's own small stacks and lower it again. A goroutine each "+
		fmt.Sprintf("takes %s of its cold time: ", number(all["live"]["go/deep"].median()/all["cold"]["go/deep"].median()))+b.inMS(all["live"])+".").beside(taskGain).as(gained(taskGain, live)))
	fixed := all["fixed"]["go/deep"].over(all["fixed"]["article/deep"])
	b.add(fixed.row("the same, with adaptivestackstart=0", "× as fast", "The control: the same goroutines wait, but new stacks stay at 2 KiB: "+b.inMS(all["fixed"])+
		". The extra time of a goroutine each over the row above is the growth of stacks.").
		beside(taskGain).as(gained(taskGain, fixed)))
	b.add(starts["cold"].row("a new goroutine's stack", "bytes", "As the article says: 2 KiB (/gc/stack/starting-size of runtime/metrics).").beside(2048).as(first(starts["cold"].median() == 2048, false)),
		starts["live"].row("a new goroutine's stack, in a live server", "bytes", "The article's fixed 2 KiB is no longer the whole truth since Go 1.19: the last collection sets it to the mean of the stacks that it scanned.").
			beside(2048).as(first(starts["live"].median() == 2048, false)))
}

// taskProfile shows where CPU time goes in the article's benchmark.
func (b *bench) taskProfile(ctx context.Context) error {
	p, err := b.start(ctx, "tasks")
	if err != nil {
		return err
	}
	defer p.Stop()
	of, err := b.profile(ctx, p, quickly(b, 150*time.Millisecond, 2*time.Second), "go/deep", nobody)
	if err != nil {
		return err
	}
	growth := cumShare(of.cpu, "runtime.newstack")
	making := cumShare(of.cpu, "runtime.newproc", "runtime.schedule", "runtime.goexit0")
	b.add(one(growth).row("a goroutine each: growing stacks, of its CPU", "%", "Not named by the article. Top functions: "+top(of.cpu, 4)+".").as(first(growth > making, growth > 10)),
		one(making).row("a goroutine each: creating, scheduling and ending, of its CPU", "%", "What the article names (runtime.newproc, runtime.schedule), and finds in its flame graph next to the task itself. "+
			"The claim: this is where the time goes.").to(one(making).over(one(growth)), "growing stacks").as(first(making > growth, making > growth/2)))
	return nil
}
