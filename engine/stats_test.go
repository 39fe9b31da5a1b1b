package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
)

// The reasons are a closed set: each has a unique label, valid for a metric, and all
// values beyond them share one.
func TestReasons(t *testing.T) {
	seen := map[string]Reason{}
	for r := Reason(1); r < reasons; r++ {
		name := r.String()
		if before, ok := seen[name]; ok || name == "" || name == "unknown" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("reason %d is called %q (as %d: %v); want a label of lower case and underscores", r, name, before, ok)
		}
		seen[name] = r
		if text := r.Error(); text != "engine: connection ended: "+name {
			t.Errorf("%v as an error is %q", name, text)
		}
	}
	for _, r := range []Reason{0, reasons, 255} {
		if r.String() != "unknown" {
			t.Errorf("reason %d is called %q", uint8(r), r)
		}
	}
	if n := len((Stats{}).Ended); n != int(reasons) {
		t.Errorf("Stats counts %d reasons of %d", n, reasons)
	}
}

func TestStatsOfAServerThatNeverServed(t *testing.T) {
	s := &Server{Protocol: lines{}, Engine: Buffered(0)}
	if st := s.Stats(); st != (Stats{Engine: "buffered"}) {
		t.Errorf("counted %+v", st)
	}
}

func TestStats(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, 10)
		r := start(t, e, scripted(func(t *Turn, text string) error {
			switch text {
			case "later":
				replies <- t.Later()
				return nil
			case "panic":
				panic(text)
			case "bad":
				return Malformed
			}
			return echo(t, text)
		}), Limits{})
		a, b, c := r.dial(t), r.dial(t), r.dial(t)
		a.ask("hello")
		a.send(message("later"))
		a.send(message("later"))
		first, second := <-replies, <-replies
		synctest.Wait()
		limits := Limits{}.OrDefaults()
		want := Stats{Engine: e.Name(), Limits: limits, Open: 3, Accepted: 3, Requests: 3, Promised: 2, BytesIn: 21, BytesOut: 6, Owed: 2}
		if got := exact(r.Stats()); got != want {
			t.Errorf("while replies are owed:\n got %+v\nwant %+v", got, want)
		}

		first.Send([]byte("first\n"))
		second.Conn().Push([]byte("push"), []byte("ed\n"))
		second.Send([]byte("sec"), []byte("ond\n"))
		first.Send([]byte("never counted"))
		a.want("first")
		a.want("pushed")
		a.want("second")
		b.send(message("panic"))
		b.want("panicked")
		b.Close()
		c.send(message("bad"))
		c.want("malformed")
		c.Close()
		a.CloseWrite()
		a.wantEnd()
		synctest.Wait()
		want = Stats{
			Engine: e.Name(), Limits: limits, Accepted: 3, Requests: 5, Promised: 2, Late: 2, Pushes: 1, Panics: 1,
			BytesIn: 21 + 7 + 5, BytesOut: 6 + 20 + 19,
		}
		want.Ended[PeerClosed], want.Ended[Panicked], want.Ended[Malformed] = 1, 1, 1
		if got := exact(r.Stats()); got != want {
			t.Errorf("at the end:\n got %+v\nwant %+v", got, want)
		}
		if err := second.Conn().Push([]byte("x")); err != ErrClosed {
			t.Errorf("Push returned %v, want ErrClosed", err)
		}
		if got := exact(r.Stats()); got != want {
			t.Errorf("unsent output was counted: %+v", got)
		}
	})
}

// exact returns st without figures that depend on the state of the pools, or on the engine.
func exact(st Stats) Stats {
	st.Buffers, st.Lent, st.OutputMemory, st.InputMemory = 0, 0, 0, 0
	st.Helpers, st.Sleeps, st.Turns, st.Events = 0, 0, 0, 0
	return st
}

// Output for a peer that does not read is counted until it is sent or dropped.
func TestStatsOfWhatWaits(t *testing.T) {
	virtually(t, scripted(big), Limits{}, func(r *running) {
		c := r.dial(r.t)
		c.send(message("more"))
		synctest.Wait()
		if got := r.Stats().Waiting; got != 1<<20 && got != 1<<20-fakenet.Buffer {
			r.t.Errorf("%d bytes are queued, want the whole reply, or what the peer has no room for", got)
		}
		pause(time.Minute)
		if st := r.Stats(); st.Waiting != 0 || st.Open != 0 || st.Ended[WriteStall] != 1 || r.output.Held() != 0 {
			r.t.Errorf("after the stall: %+v, queued %d", st, r.output.Held())
		}
	})
}

func TestStatsAllocate0(t *testing.T) {
	s := bare(Limits{})
	s.Engine = Buffered(0)
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	for range 10 {
		if _, why := f.take(); why != 0 {
			t.Fatal(why)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Stats() }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// A counter that was read does not fall when a part of it is missed for a moment.
func TestHighest(t *testing.T) {
	s := bare(Limits{})
	s.begun.Store(true)
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	for _, step := range [][2]uint64{{758, 758}, {757, 758}, {758, 758}, {760, 760}} {
		f.counts.late.Store(step[0])
		if got := s.Stats().Late; got != step[1] {
			t.Errorf("%d gives %d, want %d", step[0], got, step[1])
		}
	}
}
