package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/sys"
)

// FuzzLoop plays a script against one event loop: clients that send, read, disconnect and
// reset, system calls that fail, timeouts that expire, handlers that reply late, panic or
// get stuck until the watchdog takes their loop away, that wait for output or for input,
// that leave, hold, and lend the socket. Sockets and epoll are real; the script drives
// the loop, its watchdog and its helpers. One goroutine runs at a time, so that failures
// are reproducible: a visit that waits is a coroutine, see errand, and continues when the
// script says so.
//
// The invariants: no client ever sees foreign bytes, a reply or a push twice, a reply out
// of order or anything within a reply that holds; no visit gets foreign bytes; every
// request of a client that reads and closes properly is answered; every connection and
// context then ends by itself, with one counted reason, no visit waits, and no counts are
// left.
func FuzzLoop(f *testing.F) {
	for _, script := range []string{
		"", "\x00\x01\x05\x05\x02", "\x00\x01\x40\x05\x05\x01\x20\x05",
		"\x00\x01\x07\x01\x07\x05\x05\x05\x06\x06\x02\x05\x03\x05",
		"\x00\x00\x01\x03\x05\x0b\x0c\x0b\x09\x09\x05\x02\x02",
		"\x00\x01\x01\x00\x01\x00\x09\x2f\x03\x00\xff\x05\x04\x00\xff\x8e\x00\x05",                     // Flush
		"\x00\x01\x01\x00\x01\x00\x0a\x2f\x03\x00\x10\x05\x03\x00\xff\x05\x8e\x00\x05",                 // More
		"\x00\x01\x01\x00\x01\x00\x0c\x03\x01\x00\x0c\x03\x03\x00\xff\x05\x04\x00\xff\x8e\x00\x05",     // Hold
		"\x00\x01\x01\x00\x01\x00\x0e\x21\x01\x00\x00\x2f\x03\x00\xff\x05\x08\x00\x01\x8e\x00\x05\x05", // TakeOver
	} {
		f.Add([]byte(script))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return
		}
		play(t, script)
	})
}

func play(t *testing.T, script []byte) {
	st := newStage(t, script)
	defer st.close()
	for st.more() {
		st.step()
	}
	st.finish()
}

// stage is one loop and everything around it.
type stage struct {
	t       *testing.T
	script  []byte
	s       *Server
	l       *loop
	runner  *workspace
	helpers []*helper
	tasks   []job // given to helpers, not yet started
	actors  []*actor
	late    []lateAnswer
	faults  map[sys.Call][]misfortune
	errand  *errand   // the running one
	waiting []*errand // in the middle of a visit
	seats   int       // size of a loop's buffer
	loan    *loan     // from TakeOver until its end
	ctxs    []watchedBy
	depth   int  // nesting of stuck handlers
	letGo   bool // the innermost must return
	calm    bool // no more failures and no stuck handlers
	ended   map[Conn]Reason
	opened  int // connections that OnOpen has seen
	last    timing.Tick
}

// actor is a client, with what it expects from the server.
type actor struct {
	fd     int
	conn   Conn // the server's handle
	id     byte
	unsent []byte // queued for sending
	rest   []int  // the same, as the remaining bytes of each message
	heard  []byte // received but not parsed yet
	asked  uint16
	seen   map[uint16]int // replies per request
	parts  map[uint16]int // parts of the current reply received so far
	pushes map[uint16]int // pushes received, less those accepted, by the request that held them
	last   int            // last request that was answered at once
	closed bool           // on this side
	half   bool           // it sends no more
	over   bool           // it has read the end
	broken bool           // something failed, or a timeout expired: not everything is answered
}

type misfortune struct {
	allow int
	err   error
}

// errand is the work of one server goroutine until it ends: a round of the loop, or a
// helper's job. It pauses when its visit waits.
type errand struct {
	goOn   func() (struct{}, bool)
	pause  func(struct{}) bool
	wakeUp <-chan struct{} // ends the wait
}

// loan is a socket in the hands of user code.
type loan struct {
	conn    Conn
	entered chan struct{}
	goOn    chan struct{}
	begun   bool
}

// watchedBy is a context of a connection.
type watchedBy struct {
	ctx context.Context
	id  byte
}

type lateAnswer struct {
	reply Reply
	id    byte
	seq   uint16
}

func newStage(t *testing.T, script []byte) *stage {
	st := &stage{t: t, script: script, faults: map[sys.Call][]misfortune{}, ended: map[Conn]Reason{}}
	first := st.next()
	mode := HandOff(first % 3)
	if st.seats = 256; first/3%2 == 1 {
		st.seats = streamRead + 256 // more than a waiting visit may keep
	}
	limits := Limits{HighWater: 2 << 10, HardCap: 8 << 10, InFlight: 4, Helpers: 2, TotalOutput: 64 << 10, FrameTime: time.Second, IdleTime: 10 * time.Second, StallTime: 2 * time.Second}
	if st.next()%4 == 0 {
		limits.InFlight = 1
	}
	s := bare(limits)
	s.Protocol, s.Engine = fuzzProtocol{st}, Events(mode)
	s.how = s.Engine
	s.Logger = slog.New(slog.DiscardHandler)
	s.spoken.Store(&[]*spoken{newSpoken(s.Protocol)})
	s.OnClose = func(c Conn, why Reason) {
		if _, twice := st.ended[c]; twice {
			t.Errorf("OnClose twice for one connection")
		}
		st.ended[c] = why
	}
	if st.next()%2 == 0 {
		s.OnOpen = func(c Conn) {
			st.opened++
			c.Push(answerOf(saidPush, 0, 0, 0))
		}
	}
	s.stop, s.empty = make(chan struct{}), make(chan struct{})
	s.ctx = context.Background()
	s.waits = st.wait
	s.helpers.init(s.limits.Helpers, &s.goroutines, &s.workspaces, &s.clock)
	s.watchdog.Init()
	s.workspaces.New = func() any { return &workspace{in: make([]byte, st.seats)} }
	l, err := newLoop(s, func() (*sys.Poll, error) { return sys.NewPoll(st.fault) })
	if err != nil {
		t.Fatal(err)
	}
	s.loops = []*loop{l}
	close(s.running)
	st.s, st.l = s, l
	st.runner = s.workspaces.New().(*workspace)
	for range 64 {
		h := &helper{jobs: make(chan job, 1)}
		st.helpers = append(st.helpers, h)
		s.helpers.idle = append(s.helpers.idle, h)
	}
	return st
}

func (st *stage) close() {
	for _, a := range st.actors {
		a.close()
	}
	if st.loan != nil && st.loan.begun { // the test has failed
		close(st.loan.goOn)
		st.s.goroutines.Wait()
	}
	for _, c := range *st.l.chunks.Load() { // no locking: a panic may have left a mutex locked
		for i := range c.slots {
			if s := &c.slots[i]; s.tenant.Load() != 0 {
				s.socket.Close()
			}
		}
	}
	st.l.poll.Close()
}

// next returns the script's next byte; 0 at its end.
func (st *stage) next() int {
	if len(st.script) == 0 {
		return 0
	}
	b := st.script[0]
	st.script = st.script[1:]
	return int(b)
}

func (st *stage) more() bool { return len(st.script) > 0 }

func (st *stage) fault(c sys.Call, n int) (int, error) {
	queue := st.faults[c]
	if len(queue) == 0 || st.calm {
		return n, nil
	}
	st.faults[c] = queue[1:]
	if m := queue[0]; m.err != nil {
		if m.err != syscall.EINTR && m.err != syscall.EAGAIN {
			for _, a := range st.actors { // the call does not identify the client
				a.broken = true
			}
		}
		return 0, m.err
	} else if m.allow >= 0 {
		return min(m.allow, n), nil
	}
	return n, nil
}

// step performs one action of the script.
func (st *stage) step() {
	switch what := st.next(); what % 16 {
	case 0:
		st.connect()
	case 1, 2:
		if a := st.someone(); a != nil {
			a.ask(byte(st.next()), byte(st.next()))
		}
	case 3:
		if a := st.someone(); a != nil {
			a.send(st, 1+st.next())
		}
	case 4:
		if a := st.someone(); a != nil {
			a.read(st, 1+16*st.next())
		}
	case 5, 6:
		st.turn()
	case 7:
		st.answer(st.next())
	case 8:
		if a := st.someone(); a != nil {
			a.broken = true // a peer that does not read
			a.conn.Push(answerOf(saidPush, a.id, 0, 32*st.next()))
		}
	case 9:
		st.pass(time.Duration(st.next()) * 40 * time.Millisecond)
	case 10:
		st.harm(st.next())
	case 11:
		st.work(st.next())
	case 12:
		if a := st.someone(); a != nil {
			a.halfClose(st)
		}
	case 13:
		if a := st.someone(); a != nil {
			a.close()
		}
	case 14:
		switch {
		case what < 128:
			st.letGo = st.depth > 0
		case what < 240:
			st.wakeUp(st.next())
		default:
			st.endLoan()
		}
	case 15:
		switch a := st.someone(); {
		case a != nil && what < 64:
			a.conn.SetValue(a)
		case a != nil && what < 128:
			if v := a.conn.Value(); v != nil && v != a {
				st.t.Fatalf("client %d has another client's value", a.id)
			}
			a.conn.Close(ClosedHere)
			a.broken = true
		case what > 240:
			st.drain()
		}
	}
}

func (st *stage) someone() *actor {
	if len(st.actors) == 0 {
		return nil
	}
	return st.actors[st.next()%len(st.actors)]
}

func (st *stage) connect() {
	if len(st.actors) == 8 {
		return
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		st.t.Fatal(err)
	}
	syscall.SetsockoptInt(fds[0], syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1) // the kernel's minimum: about 4 KiB
	a := &actor{fd: fds[1], id: byte(len(st.actors) + 1), seen: map[uint16]int{}, parts: map[uint16]int{}, pushes: map[uint16]int{}}
	if why := st.s.admit(new(arrival)); why != 0 {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return
	}
	k, why := st.l.take()
	if why != 0 {
		st.t.Fatal(why)
	}
	st.actors = append(st.actors, a)
	a.conn = k.conn()
	k.owner().begin(&arrival{}, sys.Socket(fds[0]), nil)
	if !k.s.opened || st.s.draining.Load() {
		k.held().list()
	}
	k.held().release()
}

// turn runs one round of the loop.
func (st *stage) turn() {
	l := st.l
	if st.depth > 0 && l.visiting.Load()&visitSlots != 0 {
		return // stuck, in inline mode
	}
	l.batch, _ = l.Collect(l.batch)
	l.turned, l.next = 0, 0
	l.found = l.poll.Now(l.ready[:])
	st.round()
}

// round continues a round that was begun, if there is one.
func (st *stage) round() {
	d := st.runner
	st.run(func() {
		if !st.l.round(d) { // its goroutine has lost the loop
			st.served()
		}
	})
}

// run runs an errand until it ends or waits.
func (st *stage) run(do func()) {
	e := &errand{}
	e.goOn, _ = iter.Pull(func(pause func(struct{}) bool) {
		e.pause = pause
		do()
	})
	st.goOn(e)
}

// goOn resumes an errand.
func (st *stage) goOn(e *errand) {
	before := st.errand
	st.errand = e
	if _, waits := e.goOn(); waits {
		st.waiting = append(st.waiting, e)
	}
	st.errand = before
	st.gather()
}

// wait is called where the owner of a connection waits in the middle of a visit.
func (st *stage) wait(wakeUp <-chan struct{}) {
	e := st.errand
	e.wakeUp = wakeUp
	e.pause(struct{}{})
}

// wakeUp resumes one of the visits that were woken, and reports whether there was one.
func (st *stage) wakeUp(i int) bool {
	for n := range st.waiting {
		n = (n + i) % len(st.waiting)
		if e := st.waiting[n]; len(e.wakeUp) > 0 {
			st.waiting = append(st.waiting[:n], st.waiting[n+1:]...)
			st.goOn(e)
			return true
		}
	}
	return false
}

// gather collects the jobs given to helpers. A job that runs the loop continues with its
// round at once. A loan that has begun is then in user code.
func (st *stage) gather() {
	if o := st.loan; o != nil && !o.begun {
		if k, ok := o.conn.lock(); !ok {
			st.loan = nil // the connection ended before
		} else {
			o.begun = k.phase() == life.TakenOver
			k.s.mu.Unlock()
			if o.begun {
				<-o.entered
			}
		}
	}
	for _, h := range st.helpers {
		select {
		case t := <-h.jobs:
			st.s.helpers.idle = append(st.s.helpers.idle, h)
			if t.key != 0 {
				st.tasks = append(st.tasks, t)
				break
			}
			st.runner = st.s.workspaces.New().(*workspace)
			st.round()
		default:
		}
	}
}

// endLoan makes user code return a socket, or keep it, and reports whether it had one.
func (st *stage) endLoan() bool {
	if st.loan == nil || !st.loan.begun {
		return false
	}
	close(st.loan.goOn)
	st.s.goroutines.Wait()
	st.loan = nil
	st.gather()
	return true
}

// work runs one of the helpers' jobs.
func (st *stage) work(i int) {
	st.gather()
	if len(st.tasks) == 0 {
		return
	}
	i %= len(st.tasks)
	t := st.tasks[i]
	st.tasks = append(st.tasks[:i], st.tasks[i+1:]...)
	st.run(func() {
		if k, ok := t.l.find(t.key); ok {
			d := &workspace{in: make([]byte, 64), offLoop: true, ref: k}
			d.ref.owner().serveOffLoop(d)
		}
		st.served()
	})
}

// served ends a helper's job.
func (st *stage) served() {
	if t, more := st.s.helpers.served(); more {
		st.tasks = append(st.tasks, t)
	}
}

// stuck is a handler that does not return for a while.
func (st *stage) stuck() {
	if st.calm || st.depth == 3 {
		return
	}
	if visit := st.l.visiting.Load(); visit&visitSlots != 0 && st.s.how.hand == Auto {
		st.l.passOn(visit, true)
	}
	st.gather()
	st.depth++
	for st.more() && !st.letGo {
		st.step()
	}
	st.letGo = false
	st.depth--
}

// answer sends one of the late replies.
func (st *stage) answer(i int) {
	if len(st.late) == 0 {
		return
	}
	i %= len(st.late)
	a := st.late[i]
	st.late = append(st.late[:i], st.late[i+1:]...)
	b := answerOf(saidLate, a.id, a.seq, i)
	say := [][]byte{b[:3], b[3:]}
	if a.seq%5 == 4 { // an empty reply
		say = nil
		st.actors[a.id-1].seen[a.seq]++
	}
	switch err := a.reply.Send(say...); err {
	case nil, ErrClosed, SlowReader:
		if err == nil {
			if again := a.reply.Send(b); again != ErrSettled && again != ErrClosed && again != SlowReader {
				st.t.Errorf("a second Send returned %v", again)
			}
		}
	default:
		st.t.Errorf("a late reply returned %v", err)
	}
}

// pass advances the time and runs the sweeper.
func (st *stage) pass(d time.Duration) {
	st.s.clock.Age(d)
	now := st.s.clock.Read()
	st.s.judgeAll(st.last, now)
	st.last = now
	for _, a := range st.actors {
		a.broken = true // a timeout may expire
	}
}

// harm makes the next system calls fail.
func (st *stage) harm(what int) {
	call := []sys.Call{sys.CallRead, sys.CallWrite, sys.CallWait, sys.CallRegister}[what%4]
	var m misfortune
	switch fatal := what >> 2 % 8; fatal {
	case 0:
		m.err = syscall.EINTR
	case 1, 2:
		m.err = syscall.EAGAIN
	case 3, 4, 5:
		m.allow = 1 + what>>5
	case 6:
		m.err = syscall.ECONNRESET
	case 7:
		m.err = syscall.EPIPE
	}
	if call == sys.CallRegister {
		m = misfortune{err: syscall.ENOMEM}
	}
	st.faults[call] = append(st.faults[call], m)
}

// drain starts a Shutdown.
func (st *stage) drain() {
	st.s.draining.Store(true)
	st.l.each(func(k connRef) { k.held().notify() })
	for _, a := range st.actors {
		a.broken = true
	}
}

// finish makes all actors behave, and checks the invariants.
func (st *stage) finish() {
	st.calm = true
	for round := range 2000 {
		busy := false
		for _, a := range st.actors {
			for a.send(st, 1<<10) {
				busy = true
			}
			busy = a.read(st, 1<<16) || busy
			if len(a.unsent) == 0 {
				a.halfClose(st)
			}
		}
		for len(st.tasks) > 0 {
			st.work(0)
			busy = true
		}
		for len(st.late) > 0 {
			st.answer(0)
			busy = true
		}
		for range st.waiting {
			busy = st.wakeUp(0) || busy
		}
		busy = st.endLoan() || busy
		st.turn()
		busy = busy || st.l.found > 0 || len(st.l.batch) > 0 || len(st.tasks) > 0
		if !busy && round > 2 && !st.acknowledge() {
			break
		}
	}
	st.check()
}

// acknowledge has the sweeper see which unfinished replies were received, and reports
// whether there are any.
func (st *stage) acknowledge() (found bool) {
	st.l.each(func(k connRef) {
		x := k.x.Load()
		found = found || x != nil && x.unfinished
	})
	if found {
		st.s.clock.Age(time.Duration(2*st.s.rules.Period) * time.Millisecond)
		st.s.judgeAll(st.last, st.s.clock.Read())
	}
	return found
}

func (st *stage) check() {
	t, s := st.t, st.s
	st.l.each(func(k connRef) {
		x := k.x.Load()
		state := fmt.Sprintf("why %v, phase %d, away %v, want %d, listed %v, dead %v, draining %v, waits %v, dirty %v",
			k.reason(), k.phase(), k.s.tenant.Load()&awayBit != 0, k.s.want, k.s.marks.has(isListed), k.s.dead, k.s.own.has(drains), k.s.marks.has(isWaiting), k.s.marks.has(isDirty))
		if x != nil {
			state += fmt.Sprintf(", goal %d, rest %d, ready %v, lacks %d, left %d, waiting %d, owed %d, blocked %v, front %v, queue %d",
				x.goal, x.in.Len(), x.in.Ready(), x.in.Want(), x.left, x.waiting, x.promises.Open(), x.blocked.Load(), x.front.Lent(), x.queue.Len())
		}
		t.Errorf("connection %d did not end: %s", uint32(k.key), state)
	})
	if len(st.waiting) > 0 {
		t.Errorf("%d visits are still waiting", len(st.waiting))
	}
	if t.Failed() {
		return
	}
	if c := &s.helpers; c.offLoop != 0 || c.busy.Load() != 0 || len(c.line) != 0 {
		t.Errorf("%d helpers serve off the loop, %d are in user code, and %d jobs wait in line", c.offLoop, c.busy.Load(), len(c.line))
	}
	for _, w := range st.ctxs {
		select {
		case <-w.ctx.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("a context of client %d was not cancelled", w.id)
		}
	}
	var ended uint64
	for why := range s.ended {
		ended += s.ended[why].Load()
	}
	told := int(ended)
	if s.OnOpen != nil {
		told = st.opened
	}
	if s.open != 0 || st.l.open.Load() != 0 || s.output.Held() != 0 || s.input.Held() != 0 || s.output.Waiting() != 0 || ended != s.accepted.Load() || len(st.ended) != told {
		t.Errorf("counts: %d open, %d in the loop, %d bytes of output, %d of input, %d in line, %d ended of %d accepted, OnClose for %d",
			s.open, st.l.open.Load(), s.output.Held(), s.input.Held(), s.output.Waiting(), ended, s.accepted.Load(), len(st.ended))
	}
	for _, a := range st.actors {
		why := st.ended[a.conn]
		if !a.closed && !a.broken && why != PeerClosed {
			t.Errorf("client %d behaved well, but its connection ended for %v", a.id, why)
		}
		if a.closed || why != PeerClosed {
			continue
		}
		if !a.over {
			t.Errorf("client %d: the server has ended, but the client has not seen the end", a.id)
		}
		for seq := range a.asked {
			if a.seen[seq] != 1 {
				t.Errorf("client %d: %d replies to request %d of %d; ended for %v", a.id, a.seen[seq], seq, a.asked, st.ended[a.conn])
			}
			if a.pushes[seq] != 0 {
				t.Errorf("client %d: %d more pushes than were accepted came for request %d", a.id, a.pushes[seq], seq)
			}
		}
	}
}

func (a *actor) close() {
	if !a.closed {
		a.closed = true
		syscall.Close(a.fd)
	}
}

// ask queues a message.
func (a *actor) ask(what, size byte) {
	if a.half || a.closed || a.asked >= 500 {
		return
	}
	switch what %= 32; {
	case what >= doEnd:
		what = doEcho
	case what == doClose, what == doPanic, what == doRefuse, what == doPush, panicsLate(what, size), what == doLend && keepsSocket(size):
		a.broken = true
	}
	before := len(a.unsent)
	a.unsent = append(a.unsent, what|a.id<<4, size, byte(a.asked>>8), byte(a.asked))
	if what == doMore {
		a.unsent = append(a.unsent, bytes.Repeat([]byte{a.id}, bodySize(size))...)
	}
	a.rest = append(a.rest, len(a.unsent)-before)
	a.asked++
}

// send sends up to n queued bytes and reports whether it could.
func (a *actor) send(st *stage, n int) bool {
	if a.closed || len(a.unsent) == 0 {
		return false
	}
	n, err := syscall.Write(a.fd, a.unsent[:min(n, len(a.unsent))])
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		a.unsent, a.rest = nil, nil // the server has closed the connection
		return false
	}
	a.unsent = a.unsent[n:]
	for n > 0 {
		part := min(n, a.rest[0])
		n -= part
		if a.rest[0] -= part; a.rest[0] == 0 {
			a.rest = a.rest[1:]
		}
	}
	return true
}

func (a *actor) halfClose(st *stage) {
	if !a.half && !a.closed {
		a.asked -= uint16(len(a.rest))
		a.unsent, a.rest = nil, nil
		a.half = true
		syscall.Shutdown(a.fd, syscall.SHUT_WR)
	}
}

// read reads up to n bytes, checks them, and reports whether there were any.
func (a *actor) read(st *stage, n int) bool {
	if a.closed || a.over {
		return false
	}
	b := make([]byte, n)
	n, err := syscall.Read(a.fd, b)
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil || n == 0:
		a.over = true
		return true
	}
	a.heard = append(a.heard, b[:n]...)
	for a.understand(st) {
	}
	return true
}

func (a *actor) understand(st *stage) bool {
	if len(a.heard) < answerHead {
		return false
	}
	kind, id, seq, part, size := a.heard[0], a.heard[1], binary.BigEndian.Uint16(a.heard[2:]), int(a.heard[4]), int(binary.BigEndian.Uint32(a.heard[4:])&0xffffff)
	if len(a.heard) < answerHead+size {
		return false
	}
	body := a.heard[answerHead : answerHead+size]
	a.heard = a.heard[answerHead+size:]
	if id == 0 && kind == saidPush && size == 0 {
		return true // a greeting
	}
	if id != a.id || !bytes.Equal(body, bytes.Repeat([]byte{id}, size)) {
		st.t.Fatalf("client %d reads bytes of client %d", a.id, id)
	}
	switch kind {
	case saidAnswer, saidLate:
		if a.seen[seq]++; a.seen[seq] > 1 || seq >= a.asked && !a.half {
			st.t.Fatalf("client %d: reply %d to request %d of %d", a.id, a.seen[seq], seq, a.asked)
		}
		if kind == saidAnswer || st.s.ordered {
			if a.last > int(seq)+1 {
				st.t.Fatalf("client %d: request %d is answered after request %d", a.id, seq, a.last-1)
			}
			a.last = int(seq) + 1
		}
	case saidPart:
		if a.parts[seq] != part || a.seen[seq] > 0 || a.last > int(seq) {
			st.t.Fatalf("client %d: part %d of the reply to request %d comes after %d others and %d replies, the last to request %d", a.id, part, seq, a.parts[seq], a.seen[seq], a.last-1)
		}
		a.parts[seq]++
	case saidHeld:
		if a.pushes[seq]++; a.pushes[seq] > 0 || a.seen[seq] == 0 {
			st.t.Fatalf("client %d: a push comes before the reply to request %d, or twice", a.id, seq)
		}
	case saidRefusal:
		a.broken = true
	}
	return true
}
