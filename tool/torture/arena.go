package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// Limits bound what one scenario does.
type Limits struct {
	Conns  int           // connections that it has open at once; more make Open fail. Zero: 1,000
	Few    int           // connections of a scenario that waits. Zero: 40
	Peers  int           // clients of an attack on HTTP/2. Zero: 8, or 3
	Bytes  int64         // that it sends in all; more make Write fail. Zero: 256 MiB
	Within time.Duration // in which it ends, unless it waits. Zero: 10 s
	Wait   time.Duration // for time-outs of the server. Zero: 75 s
	Answer time.Duration // in which an answer counts as given, at the least. Zero: 2 s
	Gone   time.Duration // in which the server has closed what its clients have left. Zero: 5 s
	Stop   time.Duration // in which an owned server ends after SIGTERM. Zero: 30 s
}

func (l Limits) complete() Limits {
	return Limits{
		Conns: cmp.Or(l.Conns, 1000), Few: cmp.Or(l.Few, 40), Peers: l.Peers, Bytes: cmp.Or(l.Bytes, 256<<20),
		Within: cmp.Or(l.Within, 10*time.Second), Wait: cmp.Or(l.Wait, 75*time.Second), Answer: cmp.Or(l.Answer, 2*time.Second),
		Gone: cmp.Or(l.Gone, 5*time.Second), Stop: cmp.Or(l.Stop, 30*time.Second),
	}
}

// Arena is what one attack has: its target, and bounds. Its methods may be called concurrently,
// except for Rand's.
type Arena struct {
	Limits
	// Rand depends on the seed and the scenario's name only.
	Rand *rand.Rand
	// Server is the server's process; nil unless it is watched or owned.
	Server *Process

	target *target
	spins  float64 // share of a CPU that the process does not use beside the bystanders
	mu     sync.Mutex
	conns  map[*Conn]struct{} // that are open
	notes  []string
	sent   atomic.Int64

	inputs []string // see Result
}

var (
	errTooMany = errors.New("torture: the scenario has as many connections as it may")
	errTooMuch = errors.New("torture: the scenario has sent as much as it may")
)

// Open opens a connection, which is closed when the attack has ended.
func (a *Arena) Open(ctx context.Context, open opener) (*Conn, error) {
	return a.keep(ctx, open, false)
}

func (a *Arena) keep(ctx context.Context, open opener, free bool) (*Conn, error) {
	c := a.target.conn(false)
	c.arena, c.free = a, free
	a.mu.Lock()
	full := len(a.conns) >= a.Conns && !free
	if !full {
		a.conns[c] = struct{}{}
	}
	a.mu.Unlock()
	if full {
		return nil, errTooMany
	}
	err := a.target.open(ctx, a.Answer, open, c)
	if err != nil {
		a.forget(c)
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		c.until, err = deadline, c.SetDeadline(deadline)
	}
	return c, err
}

func (a *Arena) forget(c *Conn) {
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
}

// close closes what an attack has left open.
func (a *Arena) close() {
	a.mu.Lock()
	left := a.conns
	a.conns = map[*Conn]struct{}{}
	a.mu.Unlock()
	for c := range left {
		if c.tcp != nil {
			c.tcp.Close()
		}
	}
}

// beginning is what a peer of a crowd does at once. What it leaves in rest is for later.
type beginning func(c *Conn, peer int) error

func saysNothing(*Conn, int) error { return nil }

// Crowd opens n connections, one after the other, and begins on each. It returns those that it got:
// fewer with an error.
func (a *Arena) Crowd(ctx context.Context, n int, open opener, begin beginning) ([]*Conn, error) {
	var crowd []*Conn
	for len(crowd) < n {
		c, err := a.Open(ctx, open)
		if err == nil {
			err = begin(c, len(crowd))
		}
		if err != nil {
			return crowd, fmt.Errorf("connection %d of %d: %s", len(crowd)+1, n, plain(err))
		}
		crowd = append(crowd, c)
	}
	return crowd, nil
}

// single is what an attack does on the one connection that it has open, the i-th.
type single func(ctx context.Context, c *Conn, i int) Finding

// each returns an attack that opens n connections, one after the other, and does something on each until
// that finds something. When nothing was found, done says so of n.
func each(n int, open opener, done string, do single) attackFunc {
	return func(ctx context.Context, a *Arena) Finding {
		for i := range n {
			c, err := a.Open(ctx, open)
			if err != nil {
				return unknown("after %d of %d connections: %s", i, n, plain(err))
			}
			found := do(ctx, c, i)
			if ctx.Err() != nil {
				return unknown("its time was over after %d of %d connections", i+1, n)
			}
			if found != (Finding{}) {
				return found
			}
		}
		return survives(done, n)
	}
}

// atOnce does something n times at the same time, and returns what each made.
func atOnce[T any](n int, do func(i int) T) []T {
	made := make([]T, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { made[i] = do(i) })
	}
	all.Wait()
	return made
}

// Healthy asks the server one good request on a new connection, whatever the attack may still do.
func (a *Arena) Healthy(ctx context.Context) error {
	c, err := a.keep(ctx, (*target).Dial, true)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Ask()
}

// serves returns a finding if newcomers are not served when or where the words say.
func (a *Arena) serves(ctx context.Context, format string, args ...any) Finding {
	if err := a.Healthy(ctx); err != nil {
		return falls("%s, newcomers are not served: %s", fmt.Sprintf(format, args...), plain(err))
	}
	return Finding{}
}

const mostNotes = 20

// Note adds a line of evidence, up to a bound.
func (a *Arena) Note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.notes) < mostNotes {
		a.notes = append(a.notes, fmt.Sprintf(format, args...))
	}
}

// noteError adds what went wrong where the words say, if anything did.
func (a *Arena) noteError(err error, format string, args ...any) {
	if err != nil {
		a.Note("%s: %s", fmt.Sprintf(format, args...), plain(err))
	}
}

// growth returns what says by how many bytes the process's memory has grown since now; false: that is
// not known.
func (a *Arena) growth() func() (grown int64, known bool) {
	before, ok := a.Server.Used()
	return func() (int64, bool) {
		now, alive := a.Server.Used()
		return now.Resident - before.Resident, ok && alive
	}
}

// junk returns n random bytes.
func (a *Arena) junk(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(a.Rand.Uint32())
	}
	return b
}

// Closings reads from connections until the server has closed each, or ctx or Wait ends, and
// returns how long each took; negative: it is still open. What the server sends is discarded.
func (a *Arena) Closings(ctx context.Context, crowd []*Conn) []time.Duration {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range crowd {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
		}
	})
	defer stop()
	return atOnce(len(crowd), func(i int) time.Duration {
		c := crowd[i]
		if c.SetReadDeadline(c.within(a.Wait+a.Wait/50)) != nil || ctx.Err() != nil { // a server's limit may be the same
			return -1
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(c.Conn, a.Bytes)); isTimeout(err) {
			return -1
		}
		return time.Since(began)
	})
}

// closed is the finding about connections that a server should have closed. What names them, in
// the plural.
func (a *Arena) closed(what string, took []time.Duration) Finding {
	times := slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d < 0 })
	if len(times) < len(took) {
		return unknown("%d of %d %s are still open after %v: no limit up to then", len(took)-len(times), len(took), what, a.Wait)
	}
	return survives("closed %d %s after %s to %s", len(took), what, elapsed(slices.Min(times)), elapsed(slices.Max(times)))
}

func elapsed(d time.Duration) string { return figure.Time(d) }

func size(bytes int64) string { return figure.Bytes(float64(bytes)) }
