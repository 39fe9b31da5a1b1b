package load

import (
	"sync"
)

// window is the measured time, in nanoseconds since Run began. A request belongs to it by its
// intended moment, or in a closed loop by when it was written.
type window struct{ from, till int64 }

func (w window) has(moment int64) bool { return moment >= w.from && moment < w.till }

// counter counts for some of the connections, so that readers on different processors seldom contend
// for its lock. The lock is held for a few records at a time and is the last in the lock order.
type counter struct {
	window   window
	timeout  int64
	timeouts []int64 // per step, where a step has its own; else nil

	mu    sync.Mutex
	now   *tally   // the current counts
	spare *tally   // swapped with now by the collector
	last  int64    // when the last answer came
	steps []counts // per step of the plan's Traffic, for the whole run
	delays

	_ [64]byte // avoids false sharing with the next counter
}

// limit returns the time-out of a step.
func (s *counter) limit(step int32) int64 {
	if s.timeouts == nil {
		return s.timeout
	}
	return s.timeouts[step]
}

// batch is what one read brought: a few runs of answers to requests of the same moment, since what
// was written together is usually answered together.
type batch struct {
	runs    []answers
	count   int64 // answers
	bad     int64 // answers that failed
	errors  [kinds]int64
	example error
	codes   []codes
	wrong   []stepFault
}

// stepFault is a failed request of a step.
type stepFault struct {
	step int32
	kind Kind
}

// codes counts the answers with one status code.
type codes struct {
	code  uint16
	count int64
}

type answers struct {
	intended, written, count, bad int64
	step                          int32
}

func (b *batch) add(intended, written int64, step int32) {
	b.count++
	if n := len(b.runs); n > 0 && b.runs[n-1].intended == intended && b.runs[n-1].written == written && b.runs[n-1].step == step {
		b.runs[n-1].count++
		return
	}
	b.runs = append(b.runs, answers{intended, written, 1, 0, step})
}

// complain marks the answer added last as failed.
func (b *batch) complain(k Kind, measured bool, err error) {
	b.bad++
	b.runs[len(b.runs)-1].bad++
	if measured {
		b.errors[k]++
		b.wrong = append(b.wrong, stepFault{b.runs[len(b.runs)-1].step, k})
		if b.example == nil {
			b.example = err
		}
	}
}

// code counts the status code of an answer to one of the window's requests.
func (b *batch) code(code uint16) {
	for i := range b.codes {
		if b.codes[i].code == code {
			b.codes[i].count++
			return
		}
	}
	b.codes = append(b.codes, codes{code, 1})
}

// record counts a batch that was read at now, and empties it.
func (s *counter) record(b *batch, now int64) {
	s.mu.Lock()
	t := s.now
	late := s.lateness(now)
	s.last = max(s.last, now)
	for _, a := range b.runs {
		if s.quickest = min(s.quickest, now-a.written); late > 0 || a.written < s.late[s.newest].till {
			s.heldUp(&a, late, now)
		}
		if s.steps != nil {
			s.steps[a.step].record(s, &a, now)
		}
		t.counts.record(s, &a, now)
	}
	t.Answered += b.count
	if s.window.has(now) {
		t.During += b.count
	}
	for _, c := range b.codes {
		t.count(int(c.code), c.count)
	}
	if b.bad > 0 {
		s.complaints(b)
	}
	s.mu.Unlock()
	b.runs, b.codes, b.count, b.bad = b.runs[:0], b.codes[:0], 0, 0
}

func (s *counter) complaints(b *batch) {
	for k, n := range b.errors {
		s.now.Errors[k] += n
	}
	if s.now.Example == nil && b.example != nil {
		s.now.Example = exampleOf(b.example)
	}
	for _, w := range b.wrong {
		if s.steps != nil {
			s.steps[w.step].Errors[w.kind]++
		}
	}
	b.errors, b.example, b.wrong = [kinds]int64{}, nil, b.wrong[:0]
}

// drop counts a request that was not sent, with the time it has waited.
func (s *counter) drop(k Kind, step int32, intended, now int64) {
	if !s.window.has(intended) {
		return
	}
	s.mu.Lock()
	if s.steps != nil {
		s.steps[step].fail(k, intended, now)
		s.steps[step].Unsent++
	}
	s.now.fail(k, intended, now)
	s.now.Unsent++
	s.mu.Unlock()
}

// lose counts a request that was sent and will have no answer. A request that timed out counts
// with the time that it waited, which is less than an answer would have taken: without it, a
// server that hangs would look better than a slow one. A request whose connection broke has no
// response time, because its short time would make the server look fast.
func (s *counter) lose(k Kind, step int32, intended, now int64, why error) {
	if !s.window.has(intended) {
		return
	}
	s.mu.Lock()
	if s.steps != nil {
		s.steps[step].fail(k, intended, now)
	}
	s.now.Lost++
	s.now.fail(k, intended, now)
	if s.now.Example == nil && why != nil {
		s.now.Example = exampleOf(why)
	}
	s.mu.Unlock()
}

// collect moves the counter's counts into t. It holds the lock only for swapping two pointers.
func (s *counter) collect(t *tally) {
	s.mu.Lock()
	s.now, s.spare = s.spare, s.now
	s.mu.Unlock()
	t.take(s.spare)
}

// lastAnswer returns the time of the last answer; 0 before the first.
func (s *counter) lastAnswer() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
