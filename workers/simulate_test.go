package workers

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// kind is what tasks need, and how they interfere.
type kind struct {
	cpu        float64 // mean CPU time of a task in seconds
	wait       float64 // seconds it waits for something else
	sigma      float64 // contention: tasks on a processor slow each other down
	kappa      float64 // coherence: and so does every pair of them
	downstream int     // capacity of a downstream service; zero: unlimited
	rate       float64 // tasks offered per second; zero: saturation
	tasks      int     // closed-loop callers; zero: saturation
	handOff    float64 // seconds that an idle worker takes to wake up; one wakes at a time
	slowest    float64 // other programs change the speed twice a second, to between this and 1; zero: never
	stalls     float64 // mean seconds between stalls of 60 ms by other programs; zero: never
}

// server is a machine with a pool, in virtual time: CPU-bound tasks share processors
// equally, as in Gunther's universal scalability law, and others wait. It is
// deterministic for a seed.
type server struct {
	kind
	procs  int
	random *rand.Rand
	others *rand.Rand // the other programs
	now    float64    // seconds
	limit  int

	queue   int // tasks that wait for a worker
	busy    int
	held    int     // tasks that wait for the downstream service
	waited  float64 // waiting time of each waiting task so far
	waiting times   // values of waited at which they are done
	work    float64 // CPU time of each computing task so far
	working times   // values of work at which they are done
	arrival float64
	back    times   // when callers submit the next task
	handed  float64 // when the last task got its worker
	factor  float64 // speed factor caused by other programs
	shift   float64 // when that changes
	done    int
	used    float64 // CPU seconds
}

type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

const backlog = 1000 // tasks that always wait under saturation

func newServer(k kind, limit int, seed uint64) *server {
	s := &server{kind: k, procs: procs, limit: limit, factor: 1, random: rand.New(rand.NewPCG(1, seed)), others: rand.New(rand.NewPCG(2, seed))}
	s.become(k)
	return s
}

// become changes the kind of load. Running tasks are not affected.
func (s *server) become(k kind) {
	s.kind = k
	s.arrival, s.shift, s.back = math.Inf(1), math.Inf(1), nil
	switch {
	case k.rate > 0:
		s.queue = min(s.queue, backlog)
		s.arrival = s.now + s.random.ExpFloat64()/k.rate
	case k.tasks > 0:
		s.queue = max(0, k.tasks-s.busy)
	default:
		s.queue = backlog
	}
	if s.factor = 1; k.slowest+k.stalls > 0 {
		s.shift = s.now
	}
}

// speed returns how fast computing tasks progress.
func (s *server) speed() float64 {
	n := float64(len(s.working))
	if n == 0 {
		return 0
	}
	return s.factor * min(1, float64(s.procs)/n) / (1 + s.sigma*(n-1) + s.kappa*n*(n-1))
}

// run advances the time to until.
func (s *server) run(until float64) {
	for {
		for s.queue > 0 && s.busy < s.limit && s.now >= s.handed+s.handOff {
			s.handed = s.now
			s.start()
		}
		var ended float64
		next, speed := min(until, s.arrival, s.shift), s.speed()
		if s.queue > 0 && s.busy < s.limit {
			next = min(next, s.handed+s.handOff)
		}
		if len(s.back) > 0 {
			next = min(next, s.back[0])
		}
		if len(s.working) > 0 {
			next = min(next, s.now+max(0, s.working[0]-s.work)/speed)
		}
		if len(s.waiting) > 0 {
			ended = s.now + max(0, s.waiting[0]-s.waited)/s.factor
			next = min(next, ended)
		}
		s.advance(next-s.now, speed)
		s.now = next
		switch {
		case next == s.arrival:
			s.queue++
			s.arrival = s.now + s.random.ExpFloat64()/s.rate
		case next == s.shift:
			s.disturb()
		case len(s.back) > 0 && next == s.back[0]:
			heap.Pop(&s.back)
			s.queue++
		case next == s.handed+s.handOff && s.queue > 0 && s.busy < s.limit:
		case len(s.waiting) > 0 && next == ended:
			s.waited = heap.Pop(&s.waiting).(float64)
			s.finish()
			if s.held > 0 && (s.downstream == 0 || len(s.waiting) < s.downstream) {
				s.held--
				s.begin()
			}
		case next == until:
			return
		default:
			s.work = heap.Pop(&s.working).(float64)
			switch {
			case s.wait == 0:
				s.finish()
			case s.downstream > 0 && len(s.waiting) >= s.downstream:
				s.held++
			default:
				s.begin()
			}
		}
	}
}

func (s *server) advance(dt, speed float64) {
	n := len(s.working)
	s.work += dt * speed
	s.waited += dt * s.factor
	s.used += dt * float64(min(n, s.procs)) * s.factor
}

// disturb decides what the other programs do next.
func (s *server) disturb() {
	share, long := s.others.Float64(), s.others.ExpFloat64()
	switch {
	case s.stalls == 0:
		s.factor, s.shift = s.slowest+(1-s.slowest)*share, s.now+0.5*long
	case s.factor >= 0.9:
		s.factor, s.shift = 0.05+0.55*share, s.now+0.06*long
	default:
		s.factor, s.shift = 0.9+0.1*share, s.now+s.stalls*long
	}
}

// start makes a worker take a task from the queue.
func (s *server) start() {
	s.queue--
	s.busy++
	heap.Push(&s.working, s.work+s.cpu*s.random.ExpFloat64())
	if s.rate == 0 && s.tasks == 0 {
		s.queue = backlog
	}
}

func (s *server) begin() {
	heap.Push(&s.waiting, s.waited+s.wait*(0.5+s.random.Float64()))
}

func (s *server) finish() {
	s.done++
	s.busy--
	if s.busy+s.queue+len(s.back) < s.tasks {
		heap.Push(&s.back, s.now+s.handOff*s.random.ExpFloat64())
	}
	if s.queue > 0 && s.busy < s.limit {
		s.start()
	}
}

// best returns the smallest limit with 95 % of the throughput of the best fixed limit,
// and that throughput.
func best(k kind) (limit int, rate float64) {
	at := func(n int) float64 {
		s := newServer(k, n, 2)
		s.run(2) // warm-up
		before := s.done
		s.run(5)
		return float64(s.done-before) / 3
	}
	for n := 1; n < mostWorkers+max(1, n/8); n += max(1, n/8) {
		if r := at(min(n, mostWorkers)); r > rate {
			limit, rate = min(n, mostWorkers), r
		}
	}
	return 1 + sort.Search(limit-1, func(i int) bool { return at(1+i) >= 0.95*rate }), rate
}

// pilotage is a server controlled by a pilot.
type pilotage struct {
	*server
	pilot   *pilot
	blind   bool // CPU utilisation is unknown
	began   bool
	highest int // maximum of the limit
}

func newPilotage(k kind, seed uint64) *pilotage {
	most := mostWorkers
	if k.tasks > 0 {
		most = 16 * k.tasks
	}
	p := &pilotage{pilot: newPilot(AutoOptions{Max: most, Start: 2 * procs})}
	p.server = newServer(k, p.pilot.climb.limit, seed)
	p.pilot.machine = func() machine {
		if p.blind {
			return machine{-1, procs, 0}
		}
		return machine{time.Duration(p.used * 1e9), procs, max(0, len(p.working)-procs)}
	}
	return p
}

// steer is run with samples.
func (p *pilotage) steer(until float64) {
	for p.now < until {
		p.run(p.now + look.Seconds()*(1+p.random.Float64()/4))
		p.limit = p.pilot.see(time.Unix(0, int64(p.now*1e9)), census{
			limit: p.limit, busy: p.busy, inUse: p.busy, waiting: p.queue, done: int64(p.done), bound: p.queue > 0 && p.busy >= p.limit,
		}, p.pilot.machine(), !p.began)
		p.began = true
		p.highest = max(p.highest, p.limit)
	}
}

// rate returns the throughput while the pilot is in control, over the given time.
func (p *pilotage) rate(seconds float64) float64 {
	before, from := p.done, p.now
	p.steer(p.now + seconds)
	return float64(p.done-before) / (p.now - from)
}
