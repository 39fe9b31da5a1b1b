package conns_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
)

// TestRandom runs random lists of operations and compares the pool with a model: the
// permits are never exceeded, a connection has one owner, waiters are served in order,
// connections that were reset or have expired are not lent, and nothing is lost.
// HONE_TEST_SEED repeats one list.
func TestRandom(t *testing.T) {
	first, lists := rand.Uint64(), 150
	if again := os.Getenv("HONE_TEST_SEED"); again != "" {
		n, err := strconv.ParseUint(again, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, lists = n, 1
	}
	var served, refused, passed int
	for i := range lists {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed)
			for range 150 {
				m.step()
				if t.Failed() {
					t.Logf("HONE_TEST_SEED=%d, config %+v, did %v", seed, m.config, m.did)
					break
				}
			}
			m.end()
			served, refused, passed = served+m.served, refused+m.refused, passed+m.cancelled
		})
		if t.Failed() {
			return
		}
	}
	if lists > 1 && (served < 1000 || refused < 100 || passed < 100) {
		t.Errorf("%d served, %d refused, %d cancelled: too few to prove anything", served, refused, passed)
	}
}

const modelLife = 3 * time.Minute

// model tracks who should own what.
type model struct {
	t       *testing.T
	rand    *rand.Rand
	config  conns.Config[*fake]
	server  *server
	pool    *conns.Pool[*fake]
	limit   int // current limit on permits
	waits   []*wait
	leases  []conns.Lease[*fake]
	oldest  int // the smallest id that may be lent: earlier ones were reset
	dials   []chan error
	closes  []chan struct{}
	did     []string
	pausing bool // the pool may refuse to dial

	served, refused, cancelled int
}

type wait struct {
	cancel context.CancelFunc
	done   <-chan result
}

func newModel(t *testing.T, seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 1))
	m := &model{t: t, rand: r, server: &server{}}
	deaf := r.IntN(2) == 0 // dials ignore cancellation
	m.server.onDial = func(ctx context.Context) error {
		gate := make(chan error)
		if deaf {
			ctx = context.Background()
		}
		m.server.mu.Lock()
		m.dials = append(m.dials, gate)
		m.server.mu.Unlock()
		select {
		case err := <-gate:
			return err
		case <-ctx.Done():
			m.server.mu.Lock()
			defer m.server.mu.Unlock()
			m.dials = slices.DeleteFunc(m.dials, func(other chan error) bool { return other == gate })
			return ctx.Err()
		}
	}
	m.server.onClose = func() {
		gate := make(chan struct{})
		m.server.mu.Lock()
		m.closes = append(m.closes, gate)
		m.server.mu.Unlock()
		<-gate
	}
	c := m.server.config(1 + r.IntN(5))
	c.MaxDials = 1 + r.IntN(3)
	c.MinIdle = max(0, r.IntN(5)-2)
	c.MaxWaiters = 3 + r.IntN(20)
	c.MaxIdleTime = []time.Duration{-1, time.Minute}[r.IntN(2)]
	c.MaxLifetime = modelLife
	c.MaxBackoff = []time.Duration{-1, time.Second}[r.IntN(2)]
	if r.IntN(2) == 0 {
		c.ProbeAfter = 20 * time.Second
		c.Probe = func(context.Context, *fake) error {
			if r := time.Now().UnixNano() / 1e6 % 5; r == 0 {
				return errDown
			}
			return nil
		}
	}
	m.config, m.limit, m.pausing = c, c.Max, c.MaxBackoff > 0
	m.pool = conns.New(c)
	return m
}

// step performs one operation and checks the result.
func (m *model) step() {
	names := []string{"get", "get", "get", "release", "release", "discard", "cancel", "cancel and release",
		"dialed", "dialed", "dial failed", "closed", "closed", "pass", "pass long", "resize", "reset"}
	name := names[m.rand.IntN(len(names))]
	m.did = append(m.did, name)
	switch name {
	case "get":
		ctx, cancel := context.WithCancel(m.t.Context())
		m.waits = append(m.waits, &wait{cancel, later(ctx, m.pool)})
	case "release":
		if l, ok := take(m.rand, &m.leases); ok {
			l.Release()
		}
	case "discard":
		if l, ok := take(m.rand, &m.leases); ok {
			l.Discard(errDown)
		}
	case "cancel":
		m.cancel()
	case "cancel and release": // concurrently
		l, ok := take(m.rand, &m.leases)
		m.cancel()
		if ok {
			l.Release()
		}
	case "dialed":
		m.letDial(nil)
	case "dial failed":
		m.letDial(errDown)
	case "closed":
		m.letClose()
	case "pass":
		pass(time.Duration(m.rand.IntN(3000)) * time.Millisecond)
	case "pass long":
		pass(time.Duration(m.rand.IntN(100)) * time.Second)
	case "resize":
		most := 1 + m.rand.IntN(5)
		m.pool.Resize(most, min(most, m.rand.IntN(3)))
		m.config.Max = most
		m.limit = max(m.limit, most)
	case "reset":
		m.server.mu.Lock()
		m.oldest = m.server.dials + 1
		m.server.mu.Unlock()
		m.pool.Reset()
	}
	m.collect()
	m.check()
}

// take removes a random element of all.
func take[T any](r *rand.Rand, all *[]T) (T, bool) {
	var one T
	if len(*all) == 0 {
		return one, false
	}
	i := r.IntN(len(*all))
	one = (*all)[i]
	*all = slices.Delete(*all, i, i+1)
	return one, true
}

func (m *model) cancel() {
	if w, ok := take(m.rand, &m.waits); ok {
		m.cancelled++
		w.cancel()
		synctest.Wait()
		if got := <-w.done; !errors.Is(got.err, context.Canceled) {
			m.t.Errorf("a cancelled Get returned %v", got.err)
		}
	}
}

func (m *model) letDial(err error) {
	m.server.mu.Lock()
	gate, ok := take(m.rand, &m.dials)
	m.server.mu.Unlock()
	if ok {
		gate <- err
	}
}

func (m *model) letClose() {
	m.server.mu.Lock()
	gate, ok := take(m.rand, &m.closes)
	m.server.mu.Unlock()
	if ok {
		close(gate)
	}
}

// collect checks that waiters were served in order, and takes over their leases.
func (m *model) collect() {
	synctest.Wait()
	var still []*wait
	for _, w := range m.waits {
		select {
		case got := <-w.done:
			w.cancel()
			atOnce := errors.Is(got.err, conns.ErrBusy) || errors.Is(got.err, conns.ErrBackoff)
			if len(still) > 0 && !atOnce {
				m.t.Errorf("a waiter was served (error %v) before an earlier one", got.err)
			}
			if got.err != nil {
				m.refused++
				continue
			}
			m.served++
			m.checkLent(got.lease.Conn())
			m.leases = append(m.leases, got.lease)
		default:
			still = append(still, w)
		}
	}
	m.waits = still
}

func (m *model) checkLent(c *fake) {
	for _, other := range m.leases {
		if other.Conn() == c {
			m.t.Errorf("connection %d was lent twice", c.id)
		}
	}
	if c.id < m.oldest {
		m.t.Errorf("connection %d was lent after the reset before %d", c.id, m.oldest)
	}
	if age := time.Since(c.born); age > modelLife && m.pool.Stats().Max == m.config.Max && m.config.MinIdle == 0 && !slices.Contains(m.did, "resize") {
		m.t.Errorf("a connection was lent at the age of %v", age)
	}
}

func (m *model) check() {
	st := m.pool.Stats()
	m.server.mu.Lock()
	dialing, open := m.server.pending, len(m.server.open)
	m.server.mu.Unlock()
	if st.Dialing != dialing || st.Open+st.Closing != open {
		m.t.Errorf("%d dialing and %d open, the pool reports %+v", dialing, open, st)
	}
	if dialing+open > m.limit {
		m.t.Errorf("%d dialing or open, want at most %d", dialing+open, m.limit)
	}
	m.limit = max(m.config.Max, min(m.limit, dialing+open))
	if st.InUse != len(m.leases) || st.Waiters != len(m.waits) {
		m.t.Errorf("%d in use and %d waiting, the pool reports %+v", len(m.leases), len(m.waits), st)
	}
	if st.Waiters > 0 && st.Idle > 0 {
		m.t.Errorf("callers wait although connections are idle: %+v", st)
	}
	if room := min(st.Max-dialing-open, m.config.MaxDials-dialing); !m.pausing && room > 0 && st.Waiters > dialing {
		m.t.Errorf("callers wait and no dial is in progress: %+v", st)
	}
}

// end makes every operation succeed: then all callers must be served, and the pool must
// end.
func (m *model) end() {
	for range 1000 {
		if len(m.waits) == 0 {
			break
		}
		for len(m.leases) > 0 {
			l, _ := take(m.rand, &m.leases)
			l.Release()
		}
		m.letDial(nil)
		m.letClose()
		pass(100 * time.Millisecond)
		m.collect()
	}
	if len(m.waits) > 0 {
		m.t.Errorf("%d callers wait for ever: %+v, operations %v", len(m.waits), m.pool.Stats(), m.did)
	}
	for _, w := range m.waits {
		w.cancel()
	}
	for _, l := range m.leases {
		l.Release()
	}
	closed := make(chan error, 1)
	go func() { closed <- m.pool.Close(m.t.Context()) }()
	for range 1000 {
		synctest.Wait()
		select {
		case err := <-closed:
			if err != nil || len(m.server.open) > 0 {
				m.t.Errorf("Close: %v, %d connections left", err, len(m.server.open))
			}
			return
		default:
			m.letClose()
			m.letDial(nil)
		}
	}
	m.t.Error("Close does not return")
}
