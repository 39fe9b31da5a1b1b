package sys

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// script answers a Fault's calls one by one, then lets everything through, and records
// the calls.
type script struct {
	answers []answer
	asked   []string
}

type answer struct {
	allow int
	err   error
}

func (s *script) fault(c Call, n int) (int, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s:%d", [...]string{"read", "write", "wait", "register"}[c], n))
	if len(s.answers) == 0 {
		return n, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next.allow, next.err
}

func fails(errs ...error) []answer {
	var all []answer
	for _, err := range errs {
		all = append(all, answer{9, err})
	}
	return all
}

func TestFaultsOfRead(t *testing.T) {
	counted(t)
	for name, test := range map[string]struct {
		answers []answer
		asked   int
		read    string
		err     error
	}{
		"none":             {nil, 1, "hello", nil},
		"EAGAIN":           {fails(syscall.EAGAIN), 1, "", ErrAgain},
		"ErrAgain":         {fails(ErrAgain), 1, "", ErrAgain},
		"ErrClosed":        {fails(ErrClosed), 1, "", ErrClosed},
		"EINTR":            {fails(syscall.EINTR, syscall.EINTR), 3, "hello", nil},
		"EINTR and reset":  {fails(syscall.EINTR, syscall.ECONNRESET), 2, "", syscall.ECONNRESET},
		"ECONNRESET":       {fails(syscall.ECONNRESET), 1, "", syscall.ECONNRESET},
		"short":            {[]answer{{2, nil}}, 1, "he", nil},
		"nothing":          {[]answer{{0, nil}}, 1, "", ErrAgain},
		"less than that":   {[]answer{{-5, nil}}, 1, "", ErrAgain},
		"more than wanted": {[]answer{{1 << 30, nil}}, 1, "hello", nil},
	} {
		s := &script{answers: test.answers}
		p := newPoll(t, s.fault)
		a, b := pair(t)
		send(t, b, "hello")
		buf := make([]byte, 8)
		n, err := p.Read(a, buf)
		if string(buf[:n]) != test.read || !errors.Is(err, test.err) || len(s.asked) != test.asked {
			t.Errorf("%s: read %q and %v after asking %v, want %q and %v", name, buf[:n], err, s.asked, test.read, test.err)
		}
		if got := len(test.read) + a.Unread(); got != 5 {
			t.Errorf("%s: %d bytes left, want 5", name, got)
		}
	}
	s := &script{answers: fails(syscall.ECONNRESET)}
	if n, err := newPoll(t, s.fault).Read(NoSocket, nil); n != 0 || err != nil || s.asked != nil {
		t.Errorf("read nothing: %d and %v after asking %v; there is no call to fail", n, err, s.asked)
	}
}

func TestFaultsOfWrite(t *testing.T) {
	counted(t)
	for name, test := range map[string]struct {
		answers []answer
		asked   string
		wrote   int
		err     error
	}{
		"none":            {nil, "[write:10]", 10, nil},
		"EAGAIN":          {fails(syscall.EAGAIN), "[write:10]", 0, ErrAgain},
		"EINTR":           {fails(syscall.EINTR, syscall.EINTR), "[write:10 write:10 write:10]", 10, nil},
		"EPIPE":           {fails(syscall.EPIPE), "[write:10]", 0, syscall.EPIPE},
		"short, rest":     {[]answer{{3, nil}}, "[write:10 write:7]", 10, nil},
		"short, EAGAIN":   {[]answer{{3, nil}, {0, syscall.EAGAIN}}, "[write:10 write:7]", 3, ErrAgain},
		"short, nothing":  {[]answer{{3, nil}, {0, nil}}, "[write:10 write:7]", 3, ErrAgain},
		"short, EPIPE":    {[]answer{{3, nil}, {4, nil}, {0, syscall.EPIPE}}, "[write:10 write:7 write:3]", 7, syscall.EPIPE},
		"short, EINTR":    {[]answer{{9, nil}, {0, syscall.EINTR}}, "[write:10 write:1 write:1]", 10, nil},
		"more than there": {[]answer{{1 << 30, nil}}, "[write:10]", 10, nil},
	} {
		s := &script{answers: test.answers}
		p := newPoll(t, s.fault)
		a, b := pair(t)
		text := []byte("0123456789")
		n, err := p.Write(a, text)
		if asked := fmt.Sprint(s.asked); n != test.wrote || !errors.Is(err, test.err) || asked != test.asked {
			t.Errorf("%s: wrote %d and %v after asking %s, want %d and %v after %s", name, n, err, asked, test.wrote, test.err, test.asked)
		}
		if n < len(text) && err == nil {
			t.Errorf("%s: a short count without an error", name)
		}
		buf := make([]byte, 20)
		got, _ := Read(uintptr(b), buf)
		if !bytes.Equal(buf[:got], text[:n]) {
			t.Errorf("%s: the peer has %q, want %q", name, buf[:got], text[:n])
		}
	}
}

// A large write is split into pieces, with and without a fault, and stops when the socket
// is full.
func TestPollWritesPieces(t *testing.T) {
	counted(t)
	s := &script{}
	p := newPoll(t, s.fault)
	a, _ := pair(t)
	n, err := p.Write(a, make([]byte, 8<<20))
	if n == 0 || n == 8<<20 || err != ErrAgain {
		t.Errorf("wrote %d and %v, want a part and ErrAgain", n, err)
	}
	for _, asked := range s.asked {
		if asked != "write:65536" {
			t.Errorf("asked for %s", asked)
		}
	}
	plain := newPoll(t, nil)
	a, _ = pair(t)
	if m, err := plain.Write(a, make([]byte, 8<<20)); m != n || err != ErrAgain {
		t.Errorf("without a fault wrote %d and %v, with one %d", m, err, n)
	}
}

func TestFaultsOfRegister(t *testing.T) {
	counted(t)
	s := &script{}
	p := newPoll(t, s.fault)
	if s.asked != nil {
		t.Errorf("NewPoll asked %v", s.asked)
	}
	a, _ := pair(t)
	s.answers = fails(syscall.ENOMEM)
	if err := p.Add(a, Out, 1); !Exhausted(err) {
		t.Errorf("added with %v, want ENOMEM", err)
	}
	wantNow(t, p, "")
	s.answers = fails(syscall.EINTR)
	do(t, p.Add(a, Out, 1))
	wantNow(t, p, "1 out;")
	s.answers = fails(syscall.ENOMEM, syscall.EPERM)
	if err := p.Change(a, 0, 2); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("changed with %v, want ENOMEM", err)
	}
	if err := p.Remove(a); !errors.Is(err, syscall.EPERM) {
		t.Errorf("removed with %v, want EPERM", err)
	}
	wantNow(t, p, "1 out;")
	do(t, p.Remove(a))
	wantNow(t, p, "")
	if got := fmt.Sprint(s.asked); got != "[register:0 wait:8 register:0 register:0 wait:8 register:0 register:0 wait:8 register:0 wait:8]" {
		t.Errorf("asked %s", got)
	}
}

func TestFaultsOfTheWaits(t *testing.T) {
	for _, wait := range []waiting{
		{name: "Now", on: (*Poll).Now}, {name: "Block", on: (*Poll).Block}, {name: "Park", on: (*Poll).Park},
	} {
		t.Run(wait.name, func(t *testing.T) {
			counted(t)
			s := &script{}
			p := newPoll(t, s.fault)
			for key := range uint64(4) {
				a, _ := pair(t)
				do(t, p.Add(a, Out, key))
			}
			s.answers = append(fails(syscall.EINTR, syscall.ENOMEM), answer{0, nil}, answer{-1, nil}, answer{1, nil}, answer{3, nil})
			s.asked = nil
			ready := make([]Ready, 8)
			for i, want := range []int{0, 0, 0, 0, 1, 3, 4} {
				if n := wait.on(p, ready); n != want {
					t.Errorf("wait %d: %d reports, want %d", i+1, n, want)
				}
			}
			if got, want := fmt.Sprint(s.asked), "["+strings.Repeat("wait:8 ", 6)+"wait:8]"; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
		})
	}
}

// A fault that hits a parked goroutine when Go's poller wakes it must not make it park
// again: the poller is edge-triggered.
func TestFaultAtTheEndOfParking(t *testing.T) {
	counted(t)
	waits := 0
	p := newPoll(t, func(c Call, n int) (int, error) {
		if c == CallWait {
			waits++
			if waits == 2 {
				return 0, syscall.EINTR
			}
		}
		return n, nil
	})
	found := make(chan int)
	ready := make([]Ready, 2)
	go func() { found <- p.Park(ready); found <- p.Park(ready) }()
	awaitGoroutines(t, 1, "sys.(*Poll).Park", "IO wait")
	do(t, p.Wake())
	if n := <-found; n != 0 {
		t.Errorf("%d reports from a wait that failed", n)
	}
	if n := <-found; n != 1 || ready[0].Key() != WakeKey {
		t.Errorf("%d reports, want the wake that is still pending", n)
	}
}

func TestFaultsThatInterruptForever(t *testing.T) {
	counted(t)
	asked := 0
	p := newPoll(t, func(c Call, n int) (int, error) {
		asked++
		return 0, fmt.Errorf("as a fault may say it: %w", syscall.EINTR)
	})
	a, b := pair(t)
	buf := make([]byte, 5)
	for name, call := range map[string]func() (int, error){
		"Write": func() (int, error) { return p.Write(a, []byte("hello")) },
		"Read":  func() (int, error) { send(t, a, "hello"); return p.Read(b, buf) },
		"Add":   func() (int, error) { return 5, p.Add(a, In, 1) },
	} {
		asked = 0
		if n, err := call(); n != 5 || err != nil || asked != maxInterrupts {
			t.Errorf("%s: %d and %v after %d interruptions, want success after %d", name, n, err, asked, maxInterrupts)
		}
	}
}
