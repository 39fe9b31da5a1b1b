package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
)

// opener opens a log of one kind; a second call opens the same log again.
type opener func(t *testing.T) Log

// each runs a test on every kind of log, behind a Log that logs what it is called for.
func each(t *testing.T, test func(t *testing.T, open opener)) {
	said := slog.New(slog.NewTextHandler(t.Output(), nil))
	t.Run("segments", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		test(t, func(t *testing.T) Log { return logged{openedSegments(t, dir, SegmentsOptions{size: 4 << 10}), said} })
	})
	t.Run("cluster", func(t *testing.T) {
		url, dir := natstest.Start(t, ""), t.TempDir()
		test(t, func(t *testing.T) Log {
			log, err := OpenCluster(t.Context(), url, dir)
			must(t, err)
			t.Cleanup(func() { log.Close() })
			return logged{log, said}
		})
	})
}

// logged is a Log around another one that has all methods itself: one more in Log is one that it lacks.
type logged struct {
	log  Log
	said *slog.Logger
}

func (l logged) Append(ctx context.Context, envelope []byte) (uint64, error) {
	pos, err := l.log.Append(ctx, envelope)
	l.said.Debug("Append", "pos", pos, "err", err)
	return pos, err
}

func (l logged) AppendReserved(ctx context.Context, envelope []byte) (uint64, error) {
	pos, err := l.log.AppendReserved(ctx, envelope)
	l.said.Debug("AppendReserved", "pos", pos, "err", err)
	return pos, err
}

func (l logged) Read(ctx context.Context, from uint64, each func(uint64, []byte) error) error {
	l.said.Debug("Read", "from", from)
	return l.log.Read(ctx, from, each)
}

func (l logged) Follow(ctx context.Context, from uint64, each func(uint64, []byte) error) error {
	l.said.Debug("Follow", "from", from)
	return l.log.Follow(ctx, from, each)
}

func (l logged) Measure(ctx context.Context) (func(uint64) (uint64, int64), error) {
	l.said.Debug("Measure")
	return l.log.Measure(ctx)
}

func (l logged) Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	l.said.Debug("Verify", "rate", rate)
	return l.log.Verify(ctx, rate, progress)
}

func (l logged) Wait(ctx context.Context, pos uint64) error { return l.log.Wait(ctx, pos) }
func (l logged) Trim(ctx context.Context, to uint64) error  { return l.log.Trim(ctx, to) }
func (l logged) Bounds() (first, next uint64, err error)    { return l.log.Bounds() }
func (l logged) Status() Status                             { return l.log.Status() }
func (l logged) Failed() <-chan error                       { return l.log.Failed() }
func (l logged) Close() error                               { return l.log.Close() }

// OpenCluster opens a log in a cluster. Package journal_test sets it, because package cluster imports this one.
var OpenCluster func(ctx context.Context, url, dir string) (Log, error)

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reports is must where the test may go on, or where a goroutine of its own
// cannot end it.
func reports(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// works ends the test with the error of a call that returns something, too.
func works(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
}

func appended(t *testing.T, log Log, envelope []byte, want uint64) {
	t.Helper()
	if pos, err := log.Append(t.Context(), envelope); err != nil || pos != want {
		t.Fatalf("Append: position %d, %v; want %d", pos, err, want)
	}
}

// contents reads a whole log.
func contents(t *testing.T, log Log, from uint64) [][]byte {
	t.Helper()
	var all [][]byte
	next := max(from, 1)
	err := log.Read(t.Context(), from, func(pos uint64, envelope []byte) error {
		if pos != next {
			t.Fatalf("position %d, want %d", pos, next)
		}
		next++
		all = append(all, bytes.Clone(envelope))
		return nil
	})
	must(t, err)
	return all
}

func TestLog(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	each(t, func(t *testing.T, open opener) {
		const n = 40
		log := open(t)
		if first, next, err := log.Bounds(); first != 1 || next != 1 || err != nil {
			t.Fatalf("an empty log: bounds %d and %d, %v", first, next, err)
		}
		if all := contents(t, log, 0); len(all) != 0 {
			t.Fatalf("an empty log has %d envelopes", len(all))
		}
		for i := uint64(1); i <= n; i++ {
			appended(t, log, sample("a", i, int(i)), i)
			if i%10 == 0 {
				must(t, log.Close())
				log = open(t)
			}
		}
		if first, next, err := log.Bounds(); first != 1 || next != n+1 || err != nil {
			t.Fatalf("bounds %d and %d, %v", first, next, err)
		}
		for i, b := range contents(t, log, 7) {
			if want := sample("a", uint64(i)+7, i+7); !bytes.Equal(b, want) {
				t.Fatalf("position %d has other bytes", i+7)
			}
		}
		if all := contents(t, log, n+1); len(all) != 0 {
			t.Errorf("%d envelopes after the last", len(all))
		}
		var done, all uint64
		if err := log.Verify(t.Context(), 0, func(d, a uint64) { done, all = d, a }); err != nil || done != n || all != n {
			t.Errorf("Verify: %v, progress %d of %d", err, done, all)
		}
		next := uint64(1)
		must(t, log.Follow(t.Context(), 0, func(pos uint64, b []byte) error {
			if pos != next || !bytes.Equal(b, sample("a", pos, int(pos))) {
				t.Errorf("Follow: position %d instead of %d", pos, next)
			}
			next++
			return nil
		}))
		measure, err := log.Measure(t.Context())
		must(t, err)
		begins, whole := measure(1)
		middle, half := measure(n / 2)
		if begins != 1 || middle > n/2 || whole < n*100 || half <= 0 || half >= whole {
			t.Errorf("from 1 on %d bytes, from the middle on %d, which begins at %d", whole, half, middle)
		}
		if st := log.Status(); st.Left <= 0 || st.Full != nil || st.Connected != nil && !*st.Connected {
			t.Errorf("%+v", st)
		}
		if pos, err := log.AppendReserved(t.Context(), sample("a", next, 1)); err == nil && pos == next {
			next++
		} else if !errors.Is(err, ErrNoSpace) {
			t.Errorf("AppendReserved: position %d, %v", pos, err)
		}
		appended(t, log, sample("a", next, 1), next)
		select {
		case err := <-log.Failed():
			t.Error("the log has failed:", err)
		default:
		}
		stop := errors.New("stop")
		if err := log.Read(t.Context(), 1, func(uint64, []byte) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("Read returns %v when its function stops it", err)
		}
		reports(t, log.Close())
		if err := log.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		if _, err := log.Append(t.Context(), sample("a", 1, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("Append after Close: %v", err)
		}
	})
}

// TestRefusedAppends: what is refused before it is sent does not break the log.
func TestRefusedAppends(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		log := open(t)
		defer log.Close()
		if _, err := log.Append(t.Context(), []byte("no envelope")); !errors.Is(err, ErrMalformed) {
			t.Errorf("no envelope: %v", err)
		}
		if _, err := log.Append(t.Context(), make([]byte, MaxEnvelope+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := log.Append(ended, sample("a", 1, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
		appended(t, log, sample("a", 1, 1), 1)
	})
}

// TestTrim: what was trimmed is gone and says so, the rest keeps its positions, and a start finds it so.
func TestTrim(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	each(t, func(t *testing.T, open opener) {
		const n = 200
		log := open(t)
		for i := uint64(1); i <= n; i++ {
			appended(t, log, sample("a", i, 1), i)
		}
		first := uint64(0)
		check := func(to uint64) {
			t.Helper()
			begins, next, err := log.Bounds()
			if err != nil || next != n+1 || begins > to || begins < first {
				t.Fatalf("trimmed to %d: bounds %d and %d, %v", to, begins, next, err)
			}
			first = begins
			if all := contents(t, log, first); uint64(len(all)) != n+1-first {
				t.Fatalf("trimmed to %d: %d envelopes", to, len(all))
			}
			err = log.Read(t.Context(), 1, func(uint64, []byte) error { return nil })
			if trimmed := (*TrimmedError)(nil); first > 1 && (!errors.As(err, &trimmed) || trimmed.First != first) {
				t.Fatalf("trimmed to %d: reading position 1: %v", to, err)
			}
			if err := log.Verify(t.Context(), 0, nil); err != nil {
				t.Fatalf("trimmed to %d: %v", to, err)
			}
		}
		for _, to := range []uint64{0, 1, 150, 100} {
			must(t, log.Trim(t.Context(), to))
			check(max(to, first, 1))
		}
		if first < 100 {
			t.Errorf("of 200 envelopes, trimming to 150 leaves those from %d on", first)
		}
		if err := log.Wait(t.Context(), 1); err != nil {
			t.Errorf("Wait for what was trimmed: %v", err)
		}
		must(t, log.Close())
		log = open(t)
		check(first)
		must(t, log.Trim(t.Context(), n+100))
		check(n + 1)
		appended(t, log, sample("a", n+1, 1), n+1)
	})
}

// TestTrimBeside trims while others append, read and verify: positions go on without gaps, and a reader
// is overtaken at most.
func TestTrimBeside(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	each(t, func(t *testing.T, open opener) {
		n := uint64(testrun.Sized(120, 300))
		log := open(t)
		var beside sync.WaitGroup
		ended := make(chan struct{})
		beside.Go(func() {
			defer close(ended)
			for i := uint64(1); i <= n; i++ {
				if pos, err := log.Append(t.Context(), sample("a", i, 1)); err != nil || pos != i {
					t.Errorf("Append: position %d, %v; want %d", pos, err, i)
					return
				}
			}
		})
		running := func() bool {
			select {
			case <-ended:
				return false
			default:
				return true
			}
		}
		beside.Go(func() {
			for from := uint64(1); running(); {
				err := log.Read(t.Context(), from, func(pos uint64, b []byte) error {
					if pos != from || !bytes.Equal(b, sample("a", pos, 1)) {
						return fmt.Errorf("position %d instead of %d", pos, from)
					}
					from++
					return nil
				})
				if trimmed := (*TrimmedError)(nil); errors.As(err, &trimmed) {
					from = max(from, trimmed.First)
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
		beside.Go(func() {
			for running() {
				if err := log.Verify(t.Context(), 0, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for running() {
			_, next, err := log.Bounds()
			if err == nil {
				err = log.Trim(t.Context(), max(next, 20)-20)
			}
			if err != nil {
				t.Error(err)
				break
			}
		}
		beside.Wait()
		if _, next, err := log.Bounds(); next != n+1 || err != nil {
			t.Errorf("next position %d, %v", next, err)
		}
	})
}

// TestWait: those that wait are woken by an Append, by Close and by their context.
func TestWait(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		log := open(t)
		wait := func(ctx context.Context, pos uint64) chan error {
			done := make(chan error, 1)
			go func() { done <- log.Wait(ctx, pos) }()
			return done
		}
		second := wait(t.Context(), 2)
		appended(t, log, sample("a", 1, 1), 1)
		reports(t, log.Wait(t.Context(), 1))
		select {
		case err := <-second:
			t.Errorf("Wait for the second returns with the first: %v", err)
		default:
		}
		appended(t, log, sample("a", 2, 1), 2)
		reports(t, <-second)
		ctx, cancel := context.WithCancel(t.Context())
		third := wait(ctx, 3)
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Errorf("its context has ended: %v", err)
		}
		third = wait(t.Context(), 3)
		reports(t, log.Close())
		if err := <-third; !errors.Is(err, ErrClosed) {
			t.Errorf("the log is closed: %v", err)
		}
	})
}

// TestVerifyRate: Verify keeps to its rate, and Append goes on meanwhile where it was.
func TestVerifyRate(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	each(t, func(t *testing.T, open opener) {
		log := open(t)
		const n = 20
		for i := uint64(1); i <= n; i++ {
			appended(t, log, sample("a", i, 1), i)
		}
		size := len(sample("a", 1, 1)) * n
		began := time.Now()
		verified := make(chan error, 1)
		go func() { verified <- log.Verify(t.Context(), int64(size)*4, nil) }()
		appended(t, log, sample("a", n+1, 1), n+1)
		reports(t, <-verified)
		if took := time.Since(began); took < 150*time.Millisecond {
			t.Errorf("a quarter of a second's bytes were verified in %v", took)
		}
		appended(t, log, sample("a", n+2, 1), n+2)
	})
}
