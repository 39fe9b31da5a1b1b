package sys

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// sockets returns a connected pair of non-blocking sockets.
func sockets(t *testing.T) (a, b uintptr) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range fds {
			if fd >= 0 {
				syscall.Close(fd)
			}
		}
	})
	return uintptr(fds[0]), uintptr(fds[1])
}

func TestReadAndWrite(t *testing.T) {
	a, b := sockets(t)
	p := make([]byte, 100)
	if n, err := Read(b, p); n != 0 || err != ErrAgain {
		t.Errorf("with nothing to read: %d and %v, want ErrAgain", n, err)
	}
	if n, err := Read(b, nil); n != 0 || err != nil {
		t.Errorf("with no room to read into: %d and %v, want 0, nil: it is not the end", n, err)
	}
	if n, err := Write(a, []byte("hello")); n != 5 || err != nil {
		t.Errorf("wrote %d and %v", n, err)
	}
	if n, err := Read(b, p[:2]); n != 2 || err != nil || string(p[:2]) != "he" {
		t.Errorf("read %q and %v", p[:n], err)
	}
	if n, err := Read(b, p); n != 3 || err != nil || string(p[:3]) != "llo" {
		t.Errorf("read %q and %v", p[:n], err)
	}
	if n, err := Write(a, nil); n != 0 || err != nil {
		t.Errorf("wrote nothing: %d and %v", n, err)
	}
	syscall.Shutdown(int(a), syscall.SHUT_WR)
	for range 2 {
		if n, err := Read(b, p); n != 0 || err != ErrClosed {
			t.Errorf("at the end: %d and %v, want ErrClosed", n, err)
		}
	}
}

// A large write is split into pieces, so that no call holds a processor for long, and
// stops when the socket is full.
func TestWriteTakesWhatFits(t *testing.T) {
	a, b := sockets(t)
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(i * 7)
	}
	var got []byte
	p := make([]byte, 100_000)
	for rest, full := want, false; len(got) < len(want); {
		n, err := Write(a, rest)
		if short := n < len(rest); short != (err == ErrAgain) || !short && err != nil {
			t.Fatalf("wrote %d of %d with %v; a short count comes with ErrAgain", n, len(rest), err)
		}
		if rest = rest[n:]; len(rest) > 0 {
			full = true
			if n, err := Write(a, rest); n != 0 || err != ErrAgain {
				t.Fatalf("wrote %d more with %v into a socket that is full", n, err)
			}
		}
		for {
			n, err := Read(b, p)
			if err == ErrAgain {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p[:n]...)
		}
		if len(rest) == 0 && !full {
			t.Fatal("a socket took 4 MiB at once; the test proves nothing")
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("read other bytes than were written")
	}
}

// Writing to a closed peer returns an error and does not raise SIGPIPE.
func TestWriteToNobody(t *testing.T) {
	a, b := sockets(t)
	syscall.Shutdown(int(b), syscall.SHUT_RD)
	if n, err := Write(a, []byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("wrote %d and %v, want EPIPE", n, err)
	}
	const nobody = 1 << 30
	if _, err := Read(nobody, make([]byte, 1)); !errors.Is(err, syscall.EBADF) {
		t.Errorf("read %v from no descriptor, want EBADF", err)
	}
	if _, err := Write(nobody, make([]byte, 1)); !errors.Is(err, syscall.EBADF) {
		t.Errorf("wrote %v to no descriptor, want EBADF", err)
	}
}

func TestReset(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near.(*net.TCPConn).SetLinger(0)
	near.Close()
	raw, err := far.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got error
	raw.Read(func(fd uintptr) bool {
		_, got = Read(fd, make([]byte, 1))
		return got != ErrAgain
	})
	if !errors.Is(got, syscall.ECONNRESET) {
		t.Errorf("read %v, want ECONNRESET", got)
	}
}

func TestNoAllocations(t *testing.T) {
	a, b := sockets(t)
	p := make([]byte, 100)
	n := testing.AllocsPerRun(100, func() {
		Write(a, p)
		Read(b, p)
		Read(b, p) // ErrAgain
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestDescriptorLimit(t *testing.T) {
	var want syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &want); err != nil {
		t.Fatal(err)
	}
	if got, ok := DescriptorLimit(); !ok || got != want.Cur {
		t.Errorf("%d, %v; want %d", got, ok, want.Cur)
	}
}

func TestExhausted(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                  false,
		syscall.EMFILE:       true,
		syscall.ENFILE:       true,
		syscall.ENOBUFS:      true,
		syscall.ENOMEM:       true,
		syscall.ECONNABORTED: false,
		syscall.EINVAL:       false,
		net.ErrClosed:        false,
	} {
		if got := Exhausted(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
		if err == nil {
			continue
		}
		wrapped := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
		if got := Exhausted(fmt.Errorf("serving: %w", wrapped)); got != want {
			t.Errorf("%v, as Accept wraps it: %v, want %v", err, got, want)
		}
	}
}

func TestSpare(t *testing.T) {
	var s Spare
	if s.Release() {
		t.Error("Release before Hold returned true")
	}
	for range 2 {
		if !s.Hold() {
			t.Fatal("Hold failed although there is a descriptor")
		}
	}
	if !s.Release() || s.Release() {
		t.Error("want to release exactly once")
	}
}

// Only a lack of descriptors counts as one. Without a spare, Release has nothing to free.
func TestSpareWithoutItsDescriptor(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EMFILE: false,
		syscall.ENFILE: false,
		syscall.ENOMEM: true,
		syscall.EPERM:  true, // a seccomp filter
		syscall.ENOENT: true,
		syscall.ENOSYS: true,
	} {
		s := Spare{open: func() (int, error) { return -1, err }}
		if got := s.Hold(); got != want {
			t.Errorf("%v: Hold returned %v, want %v", err, got, want)
		}
		if s.Release() {
			t.Errorf("%v: Release returned true although nothing was held", err)
		}
	}
}

// withDescriptors limits the process to n more descriptors until the test ends.
func withDescriptors(t *testing.T, n int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	used := map[string]bool{}
	for _, fd := range open {
		if _, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil { // the one that read the folder is closed
			used[fd.Name()] = true
		}
	}
	low := limit
	low.Cur = 0 // the limit is one of numbers: descriptors beyond it take no room
	for free := 0; free < n; low.Cur++ {
		if !used[strconv.FormatUint(low.Cur, 10)] {
			free++
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
}

func TestMissing(t *testing.T) {
	withDescriptors(t, 5)
	for n, want := range map[int]int{0: 0, 1: 0, 5: 0, 6: 1, 9: 4} {
		for range 2 { // it gives them back
			missing, err := Missing(n)
			if missing != want || (want > 0) != errors.Is(err, syscall.EMFILE) {
				t.Errorf("of %d descriptors %d are missing (%v), want %d of 5", n, missing, err, want)
			}
		}
	}
}

// TestSpareLeavesRoomForOne uses up all descriptors.
func TestSpareLeavesRoomForOne(t *testing.T) {
	withDescriptors(t, 10)
	var s Spare
	if !s.Hold() {
		t.Fatal("not held")
	}
	defer s.Release()
	var taken []*os.File
	defer func() {
		for _, f := range taken {
			f.Close()
		}
	}()
	take := func() error {
		f, err := os.Open(os.DevNull)
		if err == nil {
			taken = append(taken, f)
		}
		return err
	}
	err := take()
	for ; err == nil; err = take() {
		if len(taken) > 100 {
			t.Fatal("the descriptor limit has no effect")
		}
	}
	if !Exhausted(err) {
		t.Fatalf("ran into %v, which does not count as exhausted", err)
	}
	if !s.Release() {
		t.Fatal("not released")
	}
	if err := take(); err != nil {
		t.Errorf("releasing the spare did not free a descriptor: %v", err)
	}
	if err := take(); err == nil {
		t.Error("the spare freed more than one descriptor")
	}
	if s.Hold() {
		t.Error("Hold succeeded without a free descriptor")
	}
	taken[0].Close()
	taken = taken[1:]
	if !s.Hold() {
		t.Error("Hold failed although there is a free descriptor again")
	}
}
