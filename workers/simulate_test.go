package workers

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// kind is what tasks need, and what happens when there are many.
type kind struct {
	cpu        float64 // seconds of processor a task needs, on average
	wait       float64 // seconds it waits for something else
	sigma      float64 // contention: tasks on a processor slow each other down
	kappa      float64 // and so does every pair of them
	downstream int     // how many can wait at once elsewhere; zero: any number
	rate       float64 // tasks offered a second; zero: as many as are taken
}

// server is a machine with a pool, in virtual time: processors are shared
// equally by tasks that compute, as in Gunther's universal scalability law, and
// others wait. It is the same for the same seed.
type server struct {
	kind
	procs  int
	random *rand.Rand
	now    float64 // seconds
	limit  int

	queue    int // tasks that wait for a worker
	busy     int
	held     int     // tasks that wait for a place downstream
	waiting  times   // ends of waits
	work     float64 // processor seconds that each computing task has got so far
	working  times   // work at which they have enough
	arrival  float64
	done     int
	used     float64 // processor seconds
	sumBusy  float64 // integrals over time
	sumQueue float64
	sumReady float64
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

const backlog = 1000 // tasks that always wait where as many are offered as are taken

func newServer(k kind, limit int, seed uint64) *server {
	s := &server{kind: k, procs: procs, limit: limit, random: rand.New(rand.NewPCG(1, seed))}
	s.become(k)
	return s
}

// become changes the kind of load. Tasks that run go on as they were.
func (s *server) become(k kind) {
	s.kind = k
	s.arrival = math.Inf(1)
	if k.rate > 0 {
		s.queue = min(s.queue, backlog)
		s.arrival = s.now + s.random.ExpFloat64()/k.rate
	} else {
		s.queue = backlog
	}
}

// speed is how fast a computing task goes on.
func (s *server) speed() float64 {
	n := float64(len(s.working))
	if n == 0 {
		return 0
	}
	return min(1, float64(s.procs)/n) / (1 + s.sigma*(n-1) + s.kappa*n*(n-1))
}

// run lets time pass until the given moment.
func (s *server) run(until float64) {
	for {
		for s.queue > 0 && s.busy < s.limit {
			s.queue--
			s.busy++
			heap.Push(&s.working, s.work+s.cpu*s.random.ExpFloat64())
			if s.rate == 0 {
				s.queue = backlog
			}
		}
		next, speed := min(until, s.arrival), s.speed()
		if len(s.working) > 0 {
			next = min(next, s.now+max(0, s.working[0]-s.work)/speed)
		}
		if len(s.waiting) > 0 {
			next = min(next, s.waiting[0])
		}
		s.advance(next-s.now, speed)
		s.now = next
		switch {
		case next == s.arrival:
			s.queue++
			s.arrival = s.now + s.random.ExpFloat64()/s.rate
		case len(s.waiting) > 0 && next == s.waiting[0]:
			heap.Pop(&s.waiting)
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
	s.used += dt * float64(min(n, s.procs))
	s.sumBusy += dt * float64(s.busy)
	s.sumQueue += dt * float64(s.queue)
	s.sumReady += dt * float64(max(0, n-s.procs))
}

func (s *server) begin()  { heap.Push(&s.waiting, s.now+s.wait*(0.5+s.random.Float64())) }
func (s *server) finish() { s.done++; s.busy-- }

// best is the best fixed limit for a kind of load, and its throughput.
func best(k kind) (limit int, rate float64) {
	for n := 1; n < mostWorkers+max(1, n/8); n += max(1, n/8) {
		n := min(n, mostWorkers)
		s := newServer(k, n, 2)
		s.run(2) // warm
		before := s.done
		s.run(5)
		if r := float64(s.done-before) / 3; r > rate {
			limit, rate = n, r
		}
	}
	return limit, rate
}

// pilotage is a climb that steers a server by windows, as a pilot does.
type pilotage struct {
	*server
	climb   climb
	blind   bool // as where nothing is known of processors
	highest int  // limit
	log     []Decision
}

func newPilotage(k kind, seed uint64) *pilotage {
	p := newPilot(AutoOptions{Max: mostWorkers, Start: 2 * procs})
	return &pilotage{server: newServer(k, p.climb.limit, seed), climb: p.climb}
}

// steer is run with a window after every few looks.
func (p *pilotage) steer(until float64) {
	for p.now < until {
		from := *p.server
		for p.now-from.now < longest.Seconds() && (p.now-from.now < shortest.Seconds() || p.done-from.done < fewest) {
			p.run(p.now + look.Seconds())
		}
		took := p.now - from.now
		w := window{
			took: time.Duration(took * 1e9), done: p.done - from.done, procs: p.procs,
			busy: (p.sumBusy - from.sumBusy) / took, waiting: (p.sumQueue - from.sumQueue) / took,
			runnable: (p.sumReady - from.sumReady) / took, cpu: (p.used - from.used) / took / float64(p.procs),
		}
		if p.blind {
			w.cpu, w.runnable = -1, 0
		}
		before := p.limit
		limit, why := p.climb.next(w)
		p.limit = limit
		p.highest = max(p.highest, limit)
		if limit != before {
			p.log = append(p.log, Decision{From: before, To: limit, Reason: why, Throughput: w.throughput(),
				Running: w.busy, Waiting: w.waiting, CPU: w.cpu, Runnable: w.runnable,
				At: time.Unix(0, int64(p.now*1e9))})
		}
	}
}

// rate is the throughput while it is steered for so many seconds more.
func (p *pilotage) rate(seconds float64) float64 {
	before, from := p.done, p.now
	p.steer(p.now + seconds)
	return float64(p.done-before) / (p.now - from)
}
