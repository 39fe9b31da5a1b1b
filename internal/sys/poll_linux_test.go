package sys

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// counted fails the test if it ends with more goroutines or descriptors than it began
// with. Call it first.
func counted(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe() // makes Go's poller open its own descriptors
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() {
		if !eventually(func() bool { return runtime.NumGoroutine() <= goroutines }) {
			t.Errorf("%d goroutines, began with %d", runtime.NumGoroutine(), goroutines)
		}
		if n := descriptors(t); n != files {
			t.Errorf("%d descriptors, began with %d", n, files)
		}
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	return len(open)
}

func eventually(done func() bool) bool {
	for begun := time.Now(); !done(); runtime.Gosched() {
		if time.Since(begun) > 10*time.Second {
			return false
		}
	}
	return true
}

// awaitGoroutines waits until n goroutines are inside the named method and in the given
// traceback state: "IO wait" in Go's poller, "syscall".
func awaitGoroutines(t *testing.T, n int, method, state string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	if !eventually(func() bool {
		found := 0
		for trace := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			first, frames, _ := strings.Cut(trace, "\n")
			if strings.Contains(first, "["+state) && strings.Contains(frames, method) {
				found++
			}
		}
		return found >= n
	}) {
		t.Fatalf("no %d goroutines in %s with state %s:\n%s", n, method, state, stacks[:runtime.Stack(stacks, true)])
	}
}

// starved limits the process to room more descriptors, 0 or 1, until the returned
// function is called.
func starved(t *testing.T, room uint64) (feed func()) {
	t.Helper()
	next, err := syscall.Open(os.DevNull, syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(next)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(next) + room
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	feed = func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	t.Cleanup(feed)
	return feed
}

func newPoll(t *testing.T, fault Fault) *Poll {
	t.Helper()
	p, err := NewPoll(fault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// pair returns a connected pair of Sockets, closed when the test ends.
func pair(t *testing.T) (a, b Socket) {
	t.Helper()
	x, y := sockets(t)
	return Socket(x), Socket(y)
}

// ownPair returns a connected pair of Sockets that the test closes.
func ownPair(t *testing.T) (a, b Socket) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return Socket(fds[0]), Socket(fds[1])
}

func send(t *testing.T, s Socket, text string) {
	t.Helper()
	if n, err := Write(uintptr(s), []byte(text)); n != len(text) || err != nil {
		t.Fatalf("sent %d of %d bytes: %v", n, len(text), err)
	}
}

// told formats a wait's events, in the order of the kernel.
func told(ready []Ready) string {
	var text strings.Builder
	for i := range ready {
		r := &ready[i]
		if r.Key() == WakeKey {
			text.WriteString("wake;")
			continue
		}
		fmt.Fprintf(&text, "%d", r.Key())
		for _, part := range []struct {
			is   bool
			name string
		}{{r.In(), " in"}, {r.Out(), " out"}, {r.Broken(), " broken"}, {r.HungUp(), " hung-up"}} {
			if part.is {
				text.WriteString(part.name)
			}
		}
		text.WriteString(";")
	}
	return text.String()
}

func wantNow(t *testing.T, p *Poll, want string) {
	t.Helper()
	ready := make([]Ready, 8)
	if got := told(ready[:p.Now(ready)]); got != want {
		t.Errorf("ready now: %q, want %q", got, want)
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPollReportsForAsLongAsItIsSo(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, b := pair(t)
	do(t, p.Add(a, In, 7))
	wantNow(t, p, "")
	send(t, b, "hello")
	for range 3 {
		wantNow(t, p, "7 in;")
	}
	do(t, p.Change(a, In|Out, 8))
	wantNow(t, p, "8 in out;")
	buf := make([]byte, 2)
	for range 2 {
		if _, err := p.Read(a, buf); err != nil {
			t.Fatal(err)
		}
		wantNow(t, p, "8 in out;")
	}
	if n, err := p.Read(a, buf); n != 1 || err != nil {
		t.Fatalf("read %d and %v, want the last byte", n, err)
	}
	wantNow(t, p, "8 out;")
	do(t, p.Change(a, In, 8))
	wantNow(t, p, "")
	do(t, b.CloseWrite())
	wantNow(t, p, "8 in;")
	do(t, p.Change(a, 0, 8))
	wantNow(t, p, "")
}

func TestPollKeysHave64Bits(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, _ := pair(t)
	do(t, p.Add(a, Out, 1))
	ready := make([]Ready, 2)
	for _, key := range []uint64{0, 1, 1 << 31, 1 << 32, 1 << 63, 0x8765_4321_fedc_ba98, WakeKey - 1} {
		do(t, p.Change(a, Out, key))
		if n := p.Now(ready); n != 1 || ready[0].Key() != key {
			t.Errorf("%d events, with key %#x, want one with %#x", n, ready[0].Key(), key)
		}
	}
}

func TestPollOnce(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, b := ownPair(t)
	defer a.Close()
	do(t, p.Add(a, In|Out|Once, 1))
	wantNow(t, p, "1 out;")
	send(t, b, "x")
	wantNow(t, p, "")
	do(t, p.Change(a, In|Once, 2))
	wantNow(t, p, "2 in;")
	do(t, b.Close())
	wantNow(t, p, "")
	do(t, p.Change(a, Once, 3))
	wantNow(t, p, "3 hung-up;")
	wantNow(t, p, "")
}

func TestPollForgets(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, b := ownPair(t)
	defer b.Close()
	send(t, b, "x")
	do(t, p.Add(a, In, 1))
	if err := p.Add(a, In, 2); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("added twice: %v, want EEXIST", err)
	}
	wantNow(t, p, "1 in;")
	do(t, p.Remove(a))
	wantNow(t, p, "")
	for _, err := range []error{p.Remove(a), p.Change(a, In, 1)} {
		if !errors.Is(err, syscall.ENOENT) {
			t.Errorf("of an unknown socket: %v, want ENOENT", err)
		}
	}
	do(t, p.Add(a, In, 3))
	wantNow(t, p, "3 in;")
	do(t, a.Close())
	wantNow(t, p, "")
	if err := p.Add(NoSocket, In, 1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("added NoSocket: %v, want EBADF", err)
	}
}

func TestPollReportsHangUpsToTheUninterested(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, b := ownPair(t)
	defer a.Close()
	do(t, p.Add(a, 0, 1))
	send(t, b, "x")
	wantNow(t, p, "")
	do(t, b.Close())
	for range 2 {
		wantNow(t, p, "1 hung-up;")
	}
	do(t, p.Change(a, In, 1))
	wantNow(t, p, "1 in hung-up;") // the x is still unread
	do(t, p.Remove(a))
	wantNow(t, p, "")
}

func TestPollReportsAReset(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	near, far := tcpPair(t)
	do(t, p.Add(far, 0, 1))
	do(t, near.SetLinger(0))
	do(t, near.Close())
	ready := make([]Ready, 2)
	if got := told(ready[:p.Block(ready)]); got != "1 broken hung-up;" {
		t.Errorf("reported %q", got)
	}
	if n, err := p.Read(far, make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d and %v, want ECONNRESET", n, err)
	}
}

// With more events than room for them, waits report all sockets in turn.
func TestPollIsFairToAll(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	for key := range uint64(6) {
		a, _ := pair(t)
		do(t, p.Add(a, Out, key))
	}
	seen := make(map[uint64]int)
	ready := make([]Ready, 2)
	for range 6 {
		for i := range p.Now(ready) {
			seen[ready[i].Key()]++
		}
	}
	for key := range uint64(6) {
		if seen[key] != 2 {
			t.Errorf("in 6 waits for 2 of 6, %d was reported %d times, want 2", key, seen[key])
		}
	}
}

// eachWait runs a test with both ways to wait.
func eachWait(t *testing.T, test func(t *testing.T, wait waiting)) {
	for _, wait := range []waiting{
		{"Block", "syscall", (*Poll).Block},
		{"Park", "IO wait", (*Poll).Park},
	} {
		t.Run(wait.name, func(t *testing.T) { counted(t); test(t, wait) })
	}
}

type waiting struct {
	name  string
	state string // of a goroutine that waits this way
	on    func(*Poll, []Ready) int
}

func (w waiting) await(t *testing.T, n int) {
	t.Helper()
	awaitGoroutines(t, n, "sys.(*Poll)."+w.name, w.state)
}

// untilTold waits until there is an event: a wait may return without one.
func (w waiting) untilTold(p *Poll) string {
	ready := make([]Ready, 8)
	for {
		if n := w.on(p, ready); n > 0 {
			return told(ready[:n])
		}
	}
}

func TestWakeBeforeTheWait(t *testing.T) {
	eachWait(t, func(t *testing.T, wait waiting) {
		p := newPoll(t, nil)
		for range 1000 {
			do(t, p.Wake())
			do(t, p.Wake())
			if got := wait.untilTold(p); got != "wake;" {
				t.Fatalf("reported %q", got)
			}
		}
		wantNow(t, p, "")
	})
}

func TestWakeDuringTheWait(t *testing.T) {
	eachWait(t, func(t *testing.T, wait waiting) {
		p := newPoll(t, nil)
		heard := make(chan string)
		go func() {
			defer close(heard)
			for range 10_000 {
				heard <- wait.untilTold(p)
			}
		}()
		for i := 0; i < 10_000; i++ {
			if i < 3 {
				wait.await(t, 1)
			}
			do(t, p.Wake())
			if got := <-heard; got != "wake;" {
				t.Fatalf("reported %q", got)
			}
		}
	})
}

// Concurrent Wakes, with a socket that changes meanwhile: none is lost.
func TestWakeFromEverywhere(t *testing.T) {
	eachWait(t, func(t *testing.T, wait waiting) {
		p := newPoll(t, nil)
		a, b := pair(t)
		do(t, p.Add(a, In, 1))
		const wakers, each = 4, 1000
		jobs := make(chan struct{}, wakers*each)
		var others sync.WaitGroup
		for range wakers {
			others.Go(func() {
				for range each {
					jobs <- struct{}{}
					p.Wake()
					runtime.Gosched()
				}
			})
		}
		others.Go(func() {
			for sent := 0; sent < each; runtime.Gosched() {
				n, err := p.Write(b, []byte("x"))
				if sent += n; err != nil && err != ErrAgain {
					t.Error(err)
					return
				}
			}
		})
		buf := make([]byte, 1)
		turns, done, read := 0, 0, 0
		for ; done < wakers*each || read < each; turns++ {
			got := wait.untilTold(p)
			if strings.Contains(got, "1 in;") {
				n, err := p.Read(a, buf)
				do(t, err)
				read += n
			}
			if strings.Contains(got, "wake;") {
				for len(jobs) > 0 {
					<-jobs
					done++
				}
			}
		}
		others.Wait()
		t.Logf("%d turns", turns)
	})
}

func TestWaitReportsSockets(t *testing.T) {
	eachWait(t, func(t *testing.T, wait waiting) {
		p := newPoll(t, nil)
		a, b := pair(t)
		do(t, p.Add(a, In, 1))
		heard := make(chan string)
		said := ""
		go func() {
			for range 3 {
				got := wait.untilTold(p)
				buf := make([]byte, 10)
				n, err := p.Read(a, buf)
				if string(buf[:n]) != said { // the race detector must report no race here
					got = fmt.Sprintf("read %q, said %q", buf[:n], said)
				}
				heard <- fmt.Sprint(got, n, err)
			}
		}()
		for i := range 3 {
			wait.await(t, 1)
			said = fmt.Sprint(i)
			if _, err := p.Write(b, []byte(said)); err != nil {
				t.Error(err)
			}
			if got := <-heard; got != "1 in;1 <nil>" {
				t.Errorf("heard %q", got)
			}
		}
	})
}

// Park reports a socket that was ready before it began to wait, although Go's poller has
// seen the edge already.
func TestParkReportsWhatWasReadyBefore(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	a, b := pair(t)
	do(t, p.Add(a, In, 1))
	send(t, b, "x")
	ready := make([]Ready, 2)
	for range 100 {
		if got := told(ready[:p.Park(ready)]); got != "1 in;" {
			t.Fatalf("reported %q", got)
		}
	}
}

func TestParkAndBlockByTurns(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	p.Unpark()
	before := descriptors(t)
	waits := []waiting{{"Park", "IO wait", (*Poll).Park}, {"Block", "syscall", (*Poll).Block}}
	for i := range 20 {
		wait := waits[i%2]
		heard := make(chan string)
		go func() { heard <- wait.untilTold(p) }()
		if i < 4 {
			wait.await(t, 1)
		}
		do(t, p.Wake())
		if got := <-heard; got != "wake;" {
			t.Fatalf("%s reported %q", wait.name, got)
		}
		want := before
		if wait.name == "Park" {
			want++
		}
		if n := descriptors(t); n != want {
			t.Errorf("%d descriptors after %s, want %d", n, wait.name, want)
		}
		p.Unpark()
		p.Unpark()
		if n := descriptors(t); n != before {
			t.Errorf("%d descriptors after Unpark, want %d", n, before)
		}
	}
}

// A goroutine in the state "IO wait" holds no thread. Counting the process's threads
// instead would measure how busy the machine is: the runtime starts one whenever a system
// call takes long.
func TestParkCostsNoThread(t *testing.T) {
	counted(t)
	const polls = 256
	ended := make(chan string, polls)
	all := make([]*Poll, polls)
	for i := range all {
		p := newPoll(t, nil)
		all[i] = p
		go func() { ended <- (waiting{on: (*Poll).Park}).untilTold(p) }()
	}
	awaitGoroutines(t, polls, "sys.(*Poll).Park", "IO wait")
	for _, p := range all {
		do(t, p.Wake())
	}
	for range all {
		if got := <-ended; got != "wake;" {
			t.Errorf("reported %q", got)
		}
	}
}

func TestParkWithoutRoomForADescriptor(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	do(t, p.Wake())
	feed := starved(t, 0)
	ready := make([]Ready, 2)
	got := told(ready[:p.Park(ready)])
	feed()
	if got != "wake;" {
		t.Errorf("reported %q", got)
	}
	if p.parked != nil {
		t.Error("got a descriptor beyond the limit")
	}
}

func TestNewPollWithoutRoom(t *testing.T) {
	counted(t)
	for room := range uint64(2) {
		feed := starved(t, room)
		_, err := NewPoll(nil)
		feed()
		if !Exhausted(err) {
			t.Errorf("with room for %d descriptors: %v, want EMFILE", room, err)
		}
	}
}

func TestPollAllocatesNothing(t *testing.T) {
	counted(t)
	for _, fault := range []Fault{nil, func(_ Call, n int) (int, error) { return n, nil }} {
		p := newPoll(t, fault)
		a, b := pair(t)
		do(t, p.Add(a, In, 1))
		wakes := make(chan struct{})
		woken := make(chan struct{})
		go func() {
			defer close(woken)
			for range wakes {
				p.Wake()
			}
		}()
		ready, buf := make([]Ready, 4), make([]byte, 10)
		do(t, p.Wake())
		p.Park(ready) // opens what Unpark closed
		for name, call := range map[string]func(){
			"Now":   func() { p.Now(ready) },
			"Block": func() { p.Wake(); p.Block(ready) },
			"Park":  func() { wakes <- struct{}{}; p.Park(ready) },
			"Write and Read": func() {
				p.Write(b, buf)
				p.Read(a, buf)
				p.Read(a, buf) // ErrAgain
			},
			"Change": func() { p.Change(a, In, 2) },
			"Remove and Add": func() {
				p.Remove(a)
				p.Add(a, In, 1)
			},
		} {
			if n := testing.AllocsPerRun(100, call); n != 0 {
				t.Errorf("%s: %v allocations, want 0", name, n)
			}
		}
		close(wakes)
		<-woken
	}
}
