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
)

const (
	regulars  = 4                     // bystanders with one connection for all their requests
	newcomers = 2                     // bystanders that open one for each
	askEvery  = 20 * time.Millisecond // on average, of each
	lagStep   = 10 * time.Millisecond
)

// Felt is what the bystanders felt during one scenario.
type Felt struct {
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

// crowd is all bystanders.
type crowd struct {
	target *target
	// patience is how long a bystander waits for an answer.
	patience time.Duration

	mu     sync.Mutex
	felt   Felt
	first  error // the first failure of felt
	took   []float64
	asking map[*bystander]time.Time // when each has asked what is not answered
	since  time.Time                // when everybody was asked to answer; see settled
	calm   map[*bystander]bool      // who has had an answer since
	paused bool
	learns bool

	stop context.CancelFunc
	live sync.WaitGroup
}

// bystander asks good requests, one after the other.
type bystander struct {
	crowd    *crowd
	newcomer bool
	random   *rand.Rand
	nc       net.Conn // nil: none
	client   client
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
	c.asking, c.calm = map[*bystander]time.Time{}, map[*bystander]bool{}
	for seat := range regulars + newcomers {
		b := &bystander{crowd: c, newcomer: seat >= regulars, random: rand.New(rand.NewPCG(seed, uint64(seat)))}
		c.calm[b] = true
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
	for until := time.Now().Add(c.patience); time.Now().Before(until) && !c.all(func(b *bystander, _ bool) bool { return b.nc == nil }); {
		if !pause(ctx, askEvery/4) {
			return
		}
	}
}

// all reports whether something is true of every bystander, calm or not.
func (c *crowd) all(is func(b *bystander, calm bool) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b, calm := range c.calm {
		if !is(b, calm) {
			return false
		}
	}
	return true
}

// goOn lets everybody ask again.
func (c *crowd) goOn() { c.locked(func() { c.paused = false }) }

// begin begins to note what is felt.
func (c *crowd) begin() { c.locked(func() { c.felt, c.first, c.took = Felt{}, nil, c.took[:0] }) }

// settled waits until every bystander has had an answer to a request that it sent after now. It
// reports false when that takes longer than the crowd's patience.
func (c *crowd) settled(ctx context.Context) bool {
	c.locked(func() {
		c.since = time.Now()
		for b := range c.calm {
			c.calm[b] = false
		}
	})
	for until := time.Now().Add(c.patience); ; {
		if c.all(func(_ *bystander, calm bool) bool { return calm }) {
			return true
		}
		if time.Now().After(until) || !pause(ctx, askEvery/4) {
			return false
		}
	}
}

// so returns what was felt since begin.
func (c *crowd) so() Felt {
	c.mu.Lock()
	defer c.mu.Unlock()
	felt := c.felt
	for _, since := range c.asking {
		felt.Worst = max(felt.Worst, time.Since(since).Seconds())
	}
	if len(c.took) > 0 {
		slices.Sort(c.took)
		felt.Median = c.took[len(c.took)/2]
	}
	return felt
}

// failure returns the first failure since begin; nil: there was none.
func (c *crowd) failure() (first error) {
	c.locked(func() { first = c.first })
	return first
}

// live asks until ctx ends.
func (b *bystander) live(ctx context.Context) {
	defer b.hangUp()
	stop := context.AfterFunc(ctx, func() {
		b.crowd.mu.Lock()
		defer b.crowd.mu.Unlock()
		if b.nc != nil {
			_ = b.nc.SetDeadline(time.Unix(1, 0)) // fails only if it is closed
		}
	})
	defer stop()
	for pause(ctx, time.Duration(b.random.Int64N(2*int64(askEvery)))) {
		began, paused := time.Now(), false
		b.crowd.locked(func() {
			if paused = b.crowd.paused; !paused {
				b.crowd.asking[b] = began
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
		if b.newcomer || err != nil {
			b.hangUp()
		}
		b.crowd.answered(b, began, err)
	}
}

func (b *bystander) hangUp() {
	var nc net.Conn
	b.crowd.locked(func() { nc, b.nc = b.nc, nil })
	if nc != nil {
		nc.Close()
	}
}

// ask sends a request and reads its answer.
func (b *bystander) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.crowd.patience)
	defer cancel()
	if b.nc != nil && b.client.closing {
		b.hangUp() // the server has announced that it closes
	}
	if b.nc == nil {
		nc, err := b.crowd.target.Dial(ctx)
		if err != nil {
			return &refused{err}
		}
		b.crowd.locked(func() { b.nc, b.client = nc, b.crowd.target.client() })
	}
	deadline, _ := ctx.Deadline()
	err := b.nc.SetDeadline(deadline)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		_, err = b.nc.Write(b.client.request(nil))
	}
	if err != nil {
		return err
	}
	got, err := b.client.read(b.nc)
	if err != nil {
		return err
	}
	return b.crowd.judge(b.client.known(), got)
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

// refused is the error of a newcomer without a connection.
type refused struct{ error }

func (r *refused) Unwrap() error { return r.error }

// answered notes how a request ended.
func (c *crowd) answered(b *bystander, began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := time.Since(began).Seconds()
	delete(c.asking, b)
	c.felt.Worst = max(c.felt.Worst, took)
	dialled := new(refused)
	switch {
	case err == nil:
		c.took = append(c.took, took)
		c.calm[b] = c.calm[b] || began.After(c.since)
		return
	case errors.Is(err, errWrongAnswer):
		c.felt.Wrong++
	case isTimeout(err):
		c.felt.Silent++
	case b.newcomer || errors.As(err, &dialled):
		c.felt.Refused++
	default:
		c.felt.Lost++
	}
	if c.first == nil {
		c.first, c.felt.First = err, plain(err)
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
