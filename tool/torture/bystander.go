package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

const (
	regulars  = 4                     // bystanders with one connection for all their requests
	newcomers = 2                     // bystanders that open one for each
	second    = 3                     // bystanders beside them that speak HTTP/2, where the server does: one is a newcomer
	askEvery  = 20 * time.Millisecond // on average, of each
	lagStep   = 10 * time.Millisecond
)

// Bystanders is what the bystanders felt during one scenario.
type Bystanders struct {
	Asked   int `json:"asked"`
	Wrong   int `json:"wrong"`   // other answers than before the attacks
	Lost    int `json:"lost"`    // connections that ended with a request unanswered
	Refused int `json:"refused"` // newcomers that got no connection, or were closed without an answer
	Silent  int `json:"silent"`  // requests without an answer or an end for so long that they were given up
	// Median and Worst are response times in seconds; Worst includes waits that had not ended.
	Median float64 `json:"median_seconds"`
	Worst  float64 `json:"worst_seconds"`
	// Lag is how late this program's own goroutines were at worst, in seconds. The bystanders'
	// times may be its fault up to that.
	Lag float64 `json:"lag_seconds"`
	// First is the first failure, in words.
	First string `json:"first,omitempty"`
}

// String returns the response times.
func (f Bystanders) String() string {
	return fmt.Sprintf("median %s, worst %s of %d", figure.Micros(1e6*f.Median), figure.Micros(1e6*f.Worst), f.Asked)
}

// crowd is all bystanders.
type crowd struct {
	target *target
	// patience is how long a bystander waits for an answer.
	patience time.Duration

	mu     sync.Mutex
	all    []*bystander
	felt   Bystanders
	first  error // the first failure of felt, or an answer that may be another client's
	took   []float64
	since  time.Time // when everybody was asked to answer; see settled
	paused bool
	learns bool

	stop context.CancelFunc
	live sync.WaitGroup
}

// bystander asks good requests, one after the other.
type bystander struct {
	crowd    *crowd
	newcomer bool
	http2    bool
	random   *rand.Rand

	// With the crowd's mutex:
	conn  *Conn     // nil: none
	asked time.Time // what is not answered; zero: nothing
	calm  bool      // it has had an answer since
}

// locked does something while nobody else looks at or changes the crowd.
func (c *crowd) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// start lets bystanders live until end.
func (c *crowd) start(ctx context.Context, seed uint64) {
	ctx, c.stop = context.WithCancel(ctx)
	seats := regulars + newcomers
	if c.target.http2 {
		seats += second
	}
	for seat := range seats {
		b := &bystander{
			crowd: c, newcomer: regulars <= seat && seat <= regulars+newcomers, http2: seat >= regulars+newcomers, random: rand.New(rand.NewPCG(seed, uint64(seat))),
		}
		c.all = append(c.all, b)
		c.live.Go(func() { b.live(ctx) })
	}
	c.live.Go(func() { c.measureLag(ctx) })
}

func (c *crowd) end() {
	c.stop()
	c.live.Wait()
}

// measureLag measures how late this program's goroutines are.
func (c *crowd) measureLag(ctx context.Context) {
	for {
		due := time.Now().Add(lagStep)
		if !pause(ctx, lagStep) {
			return
		}
		late := time.Since(due).Seconds()
		c.locked(func() { c.felt.Lag = max(c.felt.Lag, late) })
	}
}

// pause stops the asking, and returns when nobody has a connection any more.
func (c *crowd) pause(ctx context.Context) {
	c.locked(func() { c.paused = true })
	c.await(ctx, func() bool { return false }, func(b *bystander) bool { return b.conn == nil })
}

// goOn lets everybody ask again.
func (c *crowd) goOn() { c.locked(func() { c.paused = false }) }

// begin begins to note what is felt.
func (c *crowd) begin() { c.locked(func() { c.felt, c.first, c.took = Bystanders{}, nil, c.took[:0] }) }

// settled waits until every bystander has had an answer to a request that it sent after now. It
// reports false when that takes longer than the crowd's patience, or nobody is left to answer.
func (c *crowd) settled(ctx context.Context, server *Process) bool {
	c.locked(func() {
		c.since = time.Now()
		for _, b := range c.all {
			b.calm = false
		}
	})
	ended := func() bool { _, ended := server.ended(); return ended }
	return c.await(ctx, ended, func(b *bystander) bool { return b.calm })
}

// await waits until something is true of every bystander. It reports false when that takes longer than
// the crowd's patience, or is hopeless.
func (c *crowd) await(ctx context.Context, hopeless func() bool, is func(*bystander) bool) bool {
	for until := time.Now().Add(c.patience); ; {
		waiting := false
		c.locked(func() { waiting = slices.ContainsFunc(c.all, func(b *bystander) bool { return !is(b) }) })
		if !waiting {
			return true
		}
		if time.Now().After(until) || hopeless() || !pause(ctx, askEvery/4) {
			return false
		}
	}
}

// soFar returns what was felt since begin.
func (c *crowd) soFar() Bystanders {
	var felt Bystanders
	var took []float64
	c.locked(func() {
		felt, took = c.felt, slices.Clone(c.took)
		for _, b := range c.all {
			if !b.asked.IsZero() {
				felt.Worst = max(felt.Worst, time.Since(b.asked).Seconds())
			}
		}
	})
	if len(took) > 0 { // nobody waits for the sorting
		slices.Sort(took)
		felt.Median = took[len(took)/2]
	}
	return felt
}

// failure returns the first failure since begin, or an answer that may be another client's; nil: there
// was none.
func (c *crowd) failure() (first error) {
	c.locked(func() { first = c.first })
	return first
}

// live asks until ctx ends.
func (b *bystander) live(ctx context.Context) {
	defer b.hangUp()
	for pause(ctx, time.Duration(b.random.Int64N(2*int64(askEvery)))) {
		began, paused := time.Now(), false
		b.crowd.locked(func() {
			if paused = b.crowd.paused; !paused {
				b.asked = began
				b.crowd.felt.Asked++
			}
		})
		if paused {
			b.hangUp()
			continue
		}
		err := b.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		b.answered(began, err)
		if b.newcomer || err != nil {
			b.hangUp()
		}
	}
}

func (b *bystander) hangUp() {
	if c := b.conn; c != nil {
		b.crowd.locked(func() { b.conn = nil })
		c.Conn.Close()
	}
}

// ask sends a request and judges its answer.
func (b *bystander) ask(ctx context.Context) error {
	until := time.Now().Add(b.crowd.patience)
	if b.conn != nil && b.conn.closing {
		b.hangUp() // the server has announced that it closes
	}
	if b.conn == nil {
		c, dial := b.crowd.target.conn(b.http2), opener((*target).Dial)
		if b.http2 {
			dial = (*target).HTTP2
		}
		if err := b.crowd.target.open(ctx, b.crowd.patience, dial, c); err != nil {
			return err
		}
		b.crowd.locked(func() { b.conn = c })
	}
	c := b.conn
	stop := context.AfterFunc(ctx, func() { c.tcp.Close() })
	defer stop()
	got, err := c.exchange(c.Request(nil), until)
	if errors.Is(err, errNotServed) && c.last > 1 { // its announcement has crossed the request, which is asked again, as clients do
		c.closing = true
		stop()
		return b.ask(ctx)
	}
	if err != nil {
		return err
	}
	return b.crowd.judge(c.known, got)
}

// judge compares an answer with the known one, or learns it.
func (c *crowd) judge(known *answer, got answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.learns && !got.alien {
		known.learn(got)
		return nil
	}
	return known.check(got)
}

// answered notes how a request ended.
func (b *bystander) answered(began time.Time, err error) {
	c := b.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	took := time.Since(began).Seconds()
	b.asked = time.Time{}
	c.felt.Worst = max(c.felt.Worst, took)
	switch {
	case err == nil:
		c.took = append(c.took, took)
		b.calm = b.calm || began.After(c.since)
		return
	case errors.Is(err, errWrongAnswer):
		c.felt.Wrong++
	case isTimeout(err):
		c.felt.Silent++
	case b.newcomer, b.conn == nil: // it got no connection
		c.felt.Refused++
	default:
		c.felt.Lost++
	}
	if c.first == nil {
		c.felt.First = plain(err)
	}
	if c.first == nil || errors.Is(err, errAlien) {
		c.first = err
	}
}

// plain returns an error without the addresses in it.
func plain(err error) string {
	op := new(net.OpError)
	switch {
	case isTimeout(err):
		return "no answer in time"
	case errors.As(err, &op):
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	return err.Error()
}
