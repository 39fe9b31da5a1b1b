package client

import (
	"bytes"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hone-go/hone/wire"
)

const (
	longestWait = time.Millisecond // a loop keeps its processor meanwhile
	napTime     = 30 * time.Microsecond
	spinTime    = 50 * time.Microsecond // before a request is due: waking up takes that long
	catchUp     = 1024                  // late requests begun in one turn, so that answers are read, too
	readSize    = 256 << 10
	eventCount  = 512
)

// Package syscall does not have these.
const (
	setTimerSlack = 29
	epollPwait2   = 441 // Linux 5.11
)

// loop has a share of the connections. Times are nanoseconds since start.
type loop struct {
	plan   *Plan
	index  int // of plan.Loops
	stop   *atomic.Bool
	start  time.Time
	epoll  int
	conns  []conn
	fast   kind
	usual  pattern // with HTTP: of an answer
	in     []byte  // what is read; the beginning of an answer goes to its connection
	events [eventCount]syscall.EpollEvent

	now      int64 // when the last wait ended
	phase    phase
	from     int64 // the window
	till     int64
	openedAt mark
	closedAt mark

	due      int64   // at a rate: requests whose moment has come
	gap      float64 // between two of them
	pending  int64   // requests that are due or sent and have no answer
	answered int64
	fresh    int64 // answers of the last turn
	vain     bool  // the last turn found nothing and did not sleep
	wrong    int64
	spun     int64
	latency  histogram
	late     histogram
}

// phase is where in the plan a loop is.
type phase uint8

const (
	warming phase = iota
	measuring
	draining
)

// mark is what a loop's rate is computed from.
type mark struct{ now, answered int64 }

// kind is what connections with the same content have in common: requests one
// behind the other, in which only the ids have to be written, and the answer.
type kind struct {
	requests []byte
	size     int // of one request
	asks     int // where the id is in a request
	key      uint64
	answer   []byte
	answers  int // where the id is in an answer
}

// idSize is the length of an id.
const idSize = 8

func newKind(content []byte, depth int) kind {
	k := kind{asks: wire.HeaderSize + 1, answers: wire.HeaderSize + 1}
	k.repeat(wire.Append(nil, wire.Packet{Command: wire.Submit, Content: content}), depth)
	k.answer = wire.Append(nil, wire.Packet{Command: wire.SubmitAck, Content: content})
	return k
}

// repeat makes the requests of one.
func (k *kind) repeat(request []byte, depth int) {
	k.requests, k.size = bytes.Repeat(request, depth), len(request)
}

func newLoop(p *Plan, index int) (*loop, error) {
	l := &loop{
		plan: p, index: index,
		from: int64(p.Warmup), till: int64(p.Warmup + p.Window),
	}
	room := 0
	switch {
	case p.HTTP != nil:
		l.fast.repeat(p.HTTP.Request, p.Depth)
		room = 2*longestAnswer + len(p.HTTP.Body)
	case p.WS != nil:
		l.fast = newWSKind(p.Content, p.Depth)
		room = longestAnswer + len(l.fast.answer)
	default:
		l.fast = newKind(p.Content, p.Depth)
		room = len(l.fast.answer)
	}
	l.in = make([]byte, readSize+room)
	if p.Rate > 0 {
		l.gap = 1e9 / p.Rate * float64(p.Loops)
	}
	var err error
	l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return l, os.NewSyscallError("epoll_create1", err)
}

func (l *loop) close() {
	for i := range l.conns {
		syscall.Close(l.conns[i].fd)
	}
	syscall.Close(l.epoll)
}

// run turns the loop until the last answer has come or is missing.
func (l *loop) run() error {
	l.now = int64(time.Since(l.start))
	for i := range l.conns {
		c := &l.conns[i]
		if c.wires != nil {
			c.wires.conn = c
		}
		if err := l.send(c); err != nil {
			return err
		}
	}
	for !l.stop.Load() && !l.over() {
		if err := l.turn(); err != nil {
			return err
		}
		l.cross()
	}
	l.giveUp()
	return nil
}

// turn waits, verifies the answers that have come and sends what is to follow.
func (l *loop) turn() error {
	timeout := l.timeout()
	if l.rests() {
		nap(napTime)
	}
	n, err := l.wait(timeout)
	if err != nil {
		return err
	}
	last, answered, due := l.now, l.answered, l.due
	l.now = int64(time.Since(l.start))
	for i := range n {
		if err := l.serve(&l.conns[l.events[i].Fd], l.events[i].Events); err != nil {
			return err
		}
	}
	if err := l.begin(); err != nil {
		return err
	}
	l.fresh = l.answered - answered
	// The time since the last look was spent in vain if that one found nothing either:
	// otherwise there is work in it.
	before := l.vain
	if l.vain = timeout == 0 && n == 0 && l.due == due; l.vain && before && l.phase == measuring {
		l.spun += l.now - last
	}
	return nil
}

// rests reports whether to nap before the next look: not at a rate, where requests
// have moments, and only while the server has enough to do. A loop that waits in
// epoll instead is woken for nearly every answer, which costs it a turn and the
// server the waking; in a nap it gathers several.
func (l *loop) rests() bool {
	return l.gap == 0 && l.fresh > 0 && 2*l.fresh < l.pending
}

// timeout is how long the loop may wait for answers. Shortly before a request is
// due it is 0: a loop that sleeps wakes up late.
func (l *loop) timeout() time.Duration {
	edge := l.from
	switch l.phase {
	case measuring:
		edge = l.till
	case draining:
		edge = l.till + int64(drainTime)
	}
	wait := min(longestWait, time.Duration(edge-l.now))
	if next := l.moment(l.due); l.gap > 0 && next < l.till {
		wait = min(wait, time.Duration(next-l.now)-spinTime)
	}
	return max(0, wait)
}

// wait fills events. The scheduler is told of no call, since its monitor would take
// the loop's processor away within those that block; but others may have the
// processor when there is nothing to do.
func (l *loop) wait(timeout time.Duration) (n int, err error) {
	n, errno := l.look(0)
	if n == 0 {
		runtime.Gosched()
		if timeout > 0 {
			n, errno = l.look(timeout)
		}
	}
	if errno != 0 && errno != syscall.EINTR {
		return 0, os.NewSyscallError("epoll_pwait2", errno)
	}
	return n, nil
}

func (l *loop) look(timeout time.Duration) (n int, errno syscall.Errno) {
	ts := syscall.NsecToTimespec(int64(timeout))
	found, _, errno := syscall.RawSyscall6(epollPwait2, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(found), 0
}

// nap sleeps; a signal ends it early. The thread's timers are allowed to be 50 µs
// late otherwise, and the thread is not always the same.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// cross enters the next phase when its moment has come. The window's edges are
// told before the loop's first.
func (l *loop) cross() {
	switch {
	case l.phase == warming && l.now >= l.from:
		l.phase, l.openedAt = measuring, mark{l.now, l.answered}
		l.tell(l.plan.Opened)
	case l.phase == measuring && l.now >= l.till:
		l.phase, l.closedAt = draining, mark{l.now, l.answered}
		l.tell(l.plan.Closed)
		for i := range l.conns {
			if l.gap == 0 {
				l.conns[i].owed = 0
			}
		}
	}
}

// tell is called at an edge of the window: one loop's edges stand for all.
func (l *loop) tell(who func()) {
	if l.index == 0 && who != nil {
		who()
	}
}

// over reports whether there is nothing left to wait for.
func (l *loop) over() bool {
	return l.phase == draining && (l.now >= l.till+int64(drainTime) || l.pending == 0 && (l.gap == 0 || l.moment(l.due) >= l.till))
}

// moment is when request n of this loop is due: the requests of all loops together
// are equally far apart.
func (l *loop) moment(n int64) int64 {
	return int64((float64(n) + float64(l.index)/float64(l.plan.Loops)) * l.gap)
}

// begin sends the requests whose moment has come, request n on connection n modulo
// their number, whatever the server does.
func (l *loop) begin() error {
	if l.gap == 0 {
		return nil
	}
	for range catchUp {
		moment := l.moment(l.due)
		if moment > l.now || moment >= l.till {
			break
		}
		c := &l.conns[l.due%int64(len(l.conns))]
		l.due++
		l.pending++
		c.owed++
		if moment >= l.from {
			l.late.add(l.now - moment)
		}
		if err := l.send(c); err != nil {
			return err
		}
	}
	return nil
}

// record counts a response time. At a rate the requests count that were due within
// the window, whenever they are answered; otherwise those that are answered then.
func (l *loop) record(since, now int64) {
	if l.gap == 0 && l.phase == measuring || l.gap > 0 && since >= l.from && since < l.till {
		l.latency.add(now - since)
	}
}

// giveUp counts the requests that have no answer as if it had come now: without
// them, a server that answers late would look better than one that answers.
func (l *loop) giveUp() {
	if l.gap == 0 {
		return
	}
	for i := range l.conns {
		c := &l.conns[i]
		for _, s := range c.slots {
			if s.id != free {
				l.record(s.since, l.now)
			}
		}
		for ; c.owed > 0; c.owed-- {
			l.record(l.intended(c), l.now)
			c.sent++
		}
	}
}
