package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/testrun"
)

// exit is how one client's connection ended: when, counted from the start of the drain, and what
// the server said last.
type exit struct {
	at  time.Duration
	why string
}

// spreads serves p in fake time, to clients of which every other one asks something every few seconds, and
// drains it. It returns how the connections of the busy and of the idle clients ended.
func spreads(t *testing.T, e Engine, p Protocol, l Limits, conns int, patience time.Duration) (busy, idle []exit, got Drained, err error) {
	ln, s := fakenet.Listen(), &Server{Protocol: p, Engine: e, Limits: l}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	var clients, writers sync.WaitGroup
	var mu sync.Mutex
	var began time.Time
	for i := range conns {
		nc, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		asks := i%2 == 0
		nc.Write(message("hello"))
		gone := make(chan struct{})
		clients.Go(func() {
			defer nc.Close()
			defer close(gone)
			last := ""
			for in := bufio.NewReaderSize(nc, 16); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					break
				}
				last = strings.TrimSpace(line)
			}
			mu.Lock()
			defer mu.Unlock()
			if end := (exit{time.Since(began), last}); asks {
				busy = append(busy, end)
			} else {
				idle = append(idle, end)
			}
		})
		if asks {
			writers.Go(func() {
				for {
					select {
					case <-gone:
						return
					case <-time.After(rand.N(4 * time.Second)):
						whole := message("hello")
						nc.Write(whole[:3]) // so that it also waits for the rest of one
						pause(time.Millisecond)
						nc.Write(whole[3:])
					}
				}
			})
		}
	}
	pause(10 * time.Second)
	mu.Lock()
	began = time.Now()
	mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = s.Shutdown(ctx)
	clients.Wait()
	writers.Wait()
	if err := <-served; err != ErrServerClosed {
		t.Errorf("Serve returned %v", err)
	}
	return busy, idle, s.Stats().Drained, err
}

// even checks that in every second of the time from first to end as many connections ended, give or take a half.
func even(t *testing.T, exits []exit, first, end time.Duration, all int) {
	t.Helper()
	counts := map[int]int{}
	for _, x := range exits {
		counts[int(x.at/time.Second)]++
	}
	want := float64(all) / end.Seconds()
	for i := int(first / time.Second); i < int(end/time.Second); i++ {
		if n := float64(counts[i]); n < want/2 || n > want*3/2 {
			t.Errorf("%v ended in second %d, want %v, give or take a half", n, i, want)
		}
	}
	if n := len(exits); n != all {
		t.Errorf("%d ended, want %d", n, all)
	}
}

func onBoth(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Parallel()
	for _, e := range All() {
		t.Run(e.Name(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, e) }) })
	}
}

// Of 15,000 connections 500 end in every second, and each message that was served is answered. An ordinary run has
// fewer.
func TestSpread(t *testing.T) {
	const whole = 30 * time.Second
	conns := testrun.Sized(3_000, 15_000)
	onBoth(t, func(t *testing.T, e Engine) {
		var served atomic.Int64
		busy, idle, got, err := spreads(t, e, scripted(func(turn *Turn, message string) error {
			served.Add(1)
			return echo(turn, message)
		}), Limits{SpreadTime: whole, Conns: conns}, conns, time.Minute)
		if err != nil || got != (Drained{Clean: conns}) {
			t.Errorf("Shutdown: %+v, %v", got, err)
		}
		all := append(busy, idle...)
		even(t, all, 0, whole, conns)
		even(t, busy, 0, whole, conns/2) // the order is not that of the clients
		for _, x := range all {
			if x.why != ShuttingDown.String() {
				t.Fatalf("the last line is %q", x.why)
			}
			if most := whole - lastWord + 2*spreadStep; x.at > most {
				t.Fatalf("one has ended after %v, of at most %v: it had no time to ask once more", x.at, most)
			}
		}
		if served.Load() < int64(conns+conns/2*10) {
			t.Errorf("only %d messages were served", served.Load())
		}
	})
}

// lasting is a protocol whose answers say that they are the last.
type lasting struct{ scripted }

func (lasting) SaysLast() bool { return true }

// The connections of a Parter end with an answer, and those that ask nothing at the end.
func TestSpreadOfAParter(t *testing.T) {
	const conns, whole = 4_000, 20 * time.Second
	onBoth(t, func(t *testing.T, e Engine) {
		busy, idle, got, err := spreads(t, e, lasting{func(turn *Turn, message string) error {
			turn.Out = fmt.Appendf(turn.Out, "%s\n", message)
			if turn.Conn().Leaving() {
				return ClosedHere
			}
			return nil
		}}, Limits{SpreadTime: whole}, conns, time.Minute)
		if err != nil || got.Clean != conns || got.Forced > 0 || got.Idle < conns/2 || got.Idle > conns/2+conns/20 {
			t.Errorf("Shutdown: %+v, %v", got, err)
		}
		even(t, busy, 3*time.Second, whole, conns/2)
		for _, x := range idle {
			if x.at < whole || x.at > whole+time.Second || x.why != ShuttingDown.String() {
				t.Fatalf("an idle one ended after %v: %q", x.at, x.why)
			}
		}
		answered := 0
		for _, x := range busy {
			if x.why == ClosedHere.String() {
				answered++
			}
		}
		if got.Idle+answered < conns {
			t.Errorf("%d ended with an answer, and %d without", answered, got.Idle)
		}
	})
}

// A spread ends with Shutdown's context.
func TestSpreadIsCutShort(t *testing.T) {
	onBoth(t, func(t *testing.T, e Engine) {
		began := time.Now()
		_, _, got, err := spreads(t, e, scripted(echo), Limits{SpreadTime: time.Hour, IdleTime: -1}, 100, 30*time.Minute)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 31*time.Minute || got.Forced < 40 || got.Clean < 40 {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
	})
}

// Who has left by himself is not waited for.
func TestSpreadWithoutConnections(t *testing.T) {
	onBoth(t, func(t *testing.T, e Engine) {
		r := start(t, e, scripted(echo), Limits{SpreadTime: time.Hour})
		c := r.dial(t)
		c.ask("hello")
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- r.Shutdown(t.Context()) }()
		pause(time.Second)
		c.ask("still here")
		c.Close()
		if err := <-done; err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Beyond Limits.AcceptRate newcomers are refused, and told the longer to stay away the more there are.
func TestAcceptRate(t *testing.T) {
	virtually(t, scripted(echo), Limits{AcceptRate: 20}, func(r *running) {
		come := func(n int) (served int) {
			for range n {
				c := r.dial(r.t)
				c.Write(message("hello"))
				switch line, err := c.r.ReadString('\n'); line {
				case "hello\n":
					served++
				case TooManyAtOnce.String() + "\n":
				default:
					r.t.Errorf("read %q and %v", line, err)
				}
				c.Close()
			}
			return served
		}
		if n := come(50); n != 5 {
			r.t.Errorf("%d were served at once, want a quarter of 20", n)
		}
		if d := r.ComeAgain(); d != time.Second+45*time.Second/20 {
			r.t.Errorf("45 are to come again within %v", d)
		}
		pause(time.Second / 10)
		if n := come(5); n != 2 {
			r.t.Errorf("%d were served after a tenth of a second, want 2", n)
		}
		if n := r.Stats().Ended[TooManyAtOnce]; n != 48 {
			r.t.Errorf("%d were refused, want 48", n)
		}
	})
}
