// Package simulation runs a whole server in fake time, with its clients and everything that goes wrong
// between them, from one seed: the same seed is the same history. Only tests import it.
//
// A scene is a server and the language of its guests. A seed draws who they are, what they ask and when,
// which reads and writes are short, fail or find nothing although there was something, in which order a
// loop learns what is ready, and when the server is told to end. Everything from outside happens at an
// instant of its own, because fake time goes on only when everybody waits. So the order between instants
// is what a seed explores: races within one are left to the race detector and the metamorphic tests.
package simulation

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
)

// Environment variables: the one seed to simulate, with what happens printed, or how many to simulate instead
// of 100 (30 with the race detector), and of 20 that are simulated twice.
const (
	theSeed = "HONE_SIMULATE"
	seeds   = "HONE_SIMULATIONS"
)

// given returns the number in an environment variable, or otherwise.
func given(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Server is what a scene serves.
type Server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// Scene is a server, and the language of its guests.
type Scene struct {
	Server Server
	Secure func(net.Listener, *tls.Config) net.Listener // engine.NewTLSListener, which this package cannot import
	Guest  func(r *rand.Rand) Script                    // what a guest says and hears
	Stall  time.Duration                                // the server's Limits.StallTime
	Idle   time.Duration                                // its Limits.IdleTime, and the longest that it waits for a message
	Abrupt bool                                         // after its last words it may reset the connection
	Check  func() error                                 // what must hold when the server has ended
}

// World is one run.
type World struct {
	T    *testing.T
	Rand *rand.Rand // what the seed draws before the first guest comes

	seed     uint64
	client   *tls.Config // of the guests; nil: no TLS
	listener *fakenet.Listener
	began    time.Time
	others   sync.WaitGroup

	mu       sync.Mutex
	history  []string
	failure  string
	broken   map[int]bool // connections that a fault has broken
	refused  int          // registrations that a fault has refused, and no guest has noticed
	stopping time.Time    // when the server was told to end; zero: not yet
	hurried  bool         // and not to wait
}

// Each runs a scene in the worlds of many seeds, and each of some twice. It prints how to repeat the first
// that fails, and its last events.
func Each(t *testing.T, scene func(w *World) Scene) { each(t, false, scene) }

// EachOverTLS is Each with TLS.
func EachOverTLS(t *testing.T, scene func(w *World) Scene) { each(t, true, scene) }

func each(t *testing.T, secure bool, scene func(w *World) Scene) {
	many := uint64(100)
	if testrun.Race {
		many = 30
	}
	first, last := uint64(1), given(seeds, many)
	if seed := given(theSeed, 0); seed != 0 {
		first, last = seed, seed
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		w := run(t, seed, secure, scene)
		if w.failure != "" {
			for _, e := range w.history[max(0, len(w.history)-50):] {
				t.Log(e)
			}
			t.Errorf("seed %d: %s\nrepeat it with %s=%d go test -run '^%s$'", seed, w.failure, theSeed, seed, t.Name())
		}
	}
}

// run runs a scene in the world of a seed.
func run(t *testing.T, seed uint64, secure bool, scene func(w *World) Scene) (w *World) {
	w = &World{seed: seed, Rand: rand.New(rand.NewPCG(seed, 0)), broken: map[int]bool{}}
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			w.T = t
			w.run(scene(w), secure)
		})
	})
	return w
}

// Failure returns what must not happen and has; "" if nothing did.
func (w *World) Failure() string { return w.failure }

// Note records an event.
func (w *World) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%14v  ", time.Since(w.began))+fmt.Sprintf(format, args...))
	if os.Getenv(theSeed) != "" {
		fmt.Println(w.history[len(w.history)-1]) // at once, because it may not end
	}
}

// Go runs do, for which the end of the world waits.
func (w *World) Go(do func()) { w.others.Go(do) }

// fail records that something happened that must not.
func (w *World) fail(format string, args ...any) {
	w.Note("FAILURE: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// Pause waits for d and then until an instant that belongs to slot, one of a thousand.
func Pause(slot int, d time.Duration) {
	now := time.Now()
	at := now.Add(d).Truncate(time.Microsecond).Add(time.Microsecond + time.Duration(slot%1000))
	<-time.After(at.Sub(now))
}

// stopSlot is of the server's end. From firstGuest on, guests have two each.
const (
	stopSlot   = 1
	firstGuest = 10
)

func (w *World) run(s Scene, secure bool) {
	w.began = time.Now()
	w.listener = fakenet.Listen()
	w.listener.Limit = 1 << (9 + w.Rand.IntN(8))
	w.listener.Shuffle = func(n int, swap func(i, j int)) { w.now(1).Shuffle(n, swap) }
	w.listener.Faults = w.faults
	w.listener.Fault = w.pollFault(w.Rand.IntN(6) == 0)
	var ln net.Listener = w.listener
	if secure {
		server, client := Certified()
		ln, w.client = s.Secure(ln, server), client
	}
	served := make(chan error, 1)
	go func() { served <- s.Server.Serve(ln) }()
	synctest.Wait()
	var guests sync.WaitGroup
	for i := range 2 + w.Rand.IntN(7) {
		g := newGuest(w, s, i)
		guests.Go(g.run)
	}
	end := w.stop(s.Server)
	guests.Wait()
	end()
	w.others.Wait()
	if err := <-served; err == nil {
		w.fail("Serve returned no error")
	}
	synctest.Wait()
	if err := s.Check(); err != nil {
		w.fail("at the end: %v", err)
	}
}

// stop tells the server to end, in the middle of everything or when the guests have left, and returns what
// waits until it has.
func (w *World) stop(s Server) (end func()) {
	when := time.Duration(w.Rand.IntN(60_000)) * time.Millisecond
	kind := w.Rand.IntN(4)
	do := func() {
		Pause(stopSlot, 0)
		w.mu.Lock()
		w.stopping, w.hurried = time.Now(), kind == 1
		w.mu.Unlock()
		w.Note("the server is told to end (kind %d)", kind)
		var err error
		if kind == 1 {
			err = s.Close()
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
			defer cancel()
			if err = s.Shutdown(ctx); err != nil {
				w.fail("Shutdown: %v", err)
			}
		}
		if err != nil { // when it has ended depends on net/http's own jitter, too
			w.Note("the server has ended: %v", err)
		}
	}
	if kind > 1 {
		return do
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Pause(stopSlot, when)
		do()
	}()
	return func() { <-done }
}

// ended reports since when the server is to end.
func (w *World) ending() (since time.Time, hurried bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping, w.hurried
}

// faults returns what happens to the reads and writes of a connection.
func (w *World) faults(conn int) sys.Fault {
	r := rand.New(rand.NewPCG(w.seed, 1000+uint64(conn)))
	faulty, breaks := r.IntN(2) == 0, r.IntN(5) == 0
	var mu sync.Mutex
	return func(_ sys.Call, n int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		switch draw := r.IntN(1000); {
		case !faulty:
		case draw < 250:
			return 1 + r.IntN(n), nil
		case draw < 350:
			return 0, syscall.EAGAIN
		case draw < 355 && breaks:
			w.mu.Lock()
			w.broken[conn] = true
			w.mu.Unlock()
			w.Note("connection %d breaks", conn)
			return 0, syscall.ECONNRESET
		}
		return n, nil
	}
}

// now returns what the seed draws for this instant, however often it is asked.
func (w *World) now(what uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, what<<56^uint64(time.Since(w.began))))
}

// pollFault has waits return less than there is, and now and then refuses a registration.
func (w *World) pollFault(refuses bool) sys.Fault {
	return func(c sys.Call, n int) (int, error) {
		switch r := w.now(2); {
		case c == sys.CallWait && r.IntN(8) == 0:
			return 1, nil
		case c == sys.CallRegister && refuses && r.IntN(40) == 0:
			w.mu.Lock()
			w.refused++
			w.mu.Unlock()
			w.Note("a registration fails")
			return 0, os.NewSyscallError("epoll_ctl", syscall.ENOMEM)
		}
		return n, nil
	}
}

// excuses reports whether a fault explains that connection conn has ended, and uses it up.
func (w *World) excuses(conn int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken[conn] {
		return true
	}
	if w.refused > 0 {
		w.refused--
		return true
	}
	return false
}

// Same runs a scene twice in the world of each of some seeds, on one processor, every other one with TLS, and
// compares what happens. Go's scheduler interrupts a goroutine after 10 ms, which it has got beside other
// programs without having run: then it may be the other's turn, and the pair is run again.
func Same(t *testing.T, scene func(w *World) Scene) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range given(seeds, 20) {
		for tries := 3; ; tries-- {
			a, b := run(t, seed, seed%2 == 1, scene).history, run(t, seed, seed%2 == 1, scene).history
			if slices.Equal(a, b) {
				break
			}
			i := 0
			for i < min(len(a), len(b)) && a[i] == b[i] {
				i++
			}
			differ := fmt.Sprintf("seed %d: event %d of %d and %d is not the same:\n%v\n%v", seed, i, len(a), len(b),
				a[max(0, i-3):min(i+2, len(a))], b[max(0, i-3):min(i+2, len(b))])
			if tries == 1 {
				t.Error(differ)
				break
			}
			t.Log(differ)
		}
	}
}
