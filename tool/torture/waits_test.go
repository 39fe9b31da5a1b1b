package torture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// piped is a server that echoes messages, without a network. A client that says "starve" lets everybody
// wait as long as it is connected, and one that says "late" does so for a while after it has left.
type piped struct {
	codec.Messages
	mixes    atomic.Int32 // answers, of every twentieth mark: they are another client's
	marks    atomic.Int32
	starving atomic.Int32
	live     sync.WaitGroup
}

const (
	starves = "starve"
	late    = "late"
)

func newPiped(t *testing.T) *piped {
	var framing codec.Framing
	if err := framing.UnmarshalText([]byte("len32be")); err != nil {
		t.Fatal(err)
	}
	return &piped{Messages: codec.Messages{Address: "127.0.0.1:1", Framing: framing}}
}

func (p *piped) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.live.Go(func() { p.serve(theirs) })
	return ours, nil
}

func (p *piped) serve(nc net.Conn) {
	defer nc.Close()
	for {
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			return
		}
		content := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(nc, content); err != nil {
			return
		}
		switch string(content) {
		case starves:
			p.starving.Add(1)
			io.Copy(io.Discard, nc)
			p.starving.Add(-1)
			return
		case late:
			io.Copy(io.Discard, nc)
			p.starving.Add(1)
			<-time.After(2 * time.Second)
			p.starving.Add(-1)
			return
		}
		if len(content) == len(unmarked) && string(content) != unmarked && p.marks.Add(1)%20 == 0 && p.mixes.Add(-1) >= 0 {
			content = bytes.Repeat([]byte("A"), len(unmarked))
		}
		for p.starving.Load() > 0 {
			<-time.After(10 * time.Millisecond)
		}
		if _, err := nc.Write(slices.Concat(head[:], content)); err != nil {
			return
		}
	}
}

// Scenarios that wait share their waits: of seven that were tried twice one after another, 15 waits. What
// a fall ends early takes next to none.
func TestWaitsOverlap(t *testing.T) {
	t.Parallel()
	const all = 7
	for _, c := range []struct {
		name string
		says map[int]string
		most float64 // waits
	}{
		{"nothing falls", nil, 1},
		{"all fall", map[int]string{0: starves, 1: starves, 2: starves, 3: starves, 4: starves, 5: starves, 6: starves}, 1},
		{"one falls", map[int]string{4: starves}, 3},
		{"two fall", map[int]string{2: starves, 5: starves}, 4},
		{"one falls after its wait", map[int]string{4: late}, 2 + all},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newPiped(t)
				// Bystanders ask meanwhile, which is what this test costs; what comes besides takes up to 16 s.
				wait := time.Duration(testrun.Sized(20, 75)) * time.Second
				if c.most > 1 && c.most <= all {
					wait = time.Duration(testrun.Sized(40, 75)) * time.Second
				}
				p := Plan{Load: load.Plan{Target: server}, Limits: Limits{Wait: wait}, Anywhere: true}
				for i := range all {
					p.Scenarios = append(p.Scenarios, Scenario{Name: fmt.Sprint(i), Kinds: Messages, Waits: true, Attack: func(ctx context.Context, a *Arena) Finding {
						nc, err := a.Open(ctx, (*target).Dial)
						if err != nil {
							return unknown("%v", err)
						}
						nc.content = []byte(c.says[i])
						nc.Write(nc.Request(nil))
						pause(ctx, a.Wait)
						return survives("waited")
					}})
				}
				report, err := Run(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				server.live.Wait()
				for i, made := range report.Results {
					if want := c.says[i] != ""; made.Name != fmt.Sprint(i) || (made.Verdict == Fell) != want || want && made.Tries != 2 && len(c.says) <= sameFalls {
						t.Errorf("%+v", made)
					}
				}
				const besides = 0.5 // the falls that end early, and the bystanders
				waited := report.Took / wait.Seconds()
				if waited > c.most+besides {
					t.Errorf("%.1f waits, want %.0f and a little", waited, c.most)
				}
			})
		})
	}
}

// Answers that belong to other clients are a fall before any attack, and nothing is attacked then. Once
// is chance.
func TestMixedUpBeforeAnyAttack(t *testing.T) {
	for _, c := range []struct {
		mixed   int32
		want    Verdict
		other   Verdict
		evident string
	}{
		{math.MaxInt32, Fell, NotFoundOut, "answers are wrong before any attack (it lacks what this client sent, and may be another client's)"},
		{1, Slower, Survived, "the first of two tries: bystanders: 1 of"},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newPiped(t)
			server.mixes.Store(c.mixed)
			attacked := false
			report, err := Run(t.Context(), Plan{
				Load: load.Plan{Target: server, Content: []byte(unmarked)}, Anywhere: true,
				Scenarios: []Scenario{{Name: "other", Kinds: Messages, Attack: func(context.Context, *Arena) Finding {
					attacked = true
					return survives("anything")
				}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			server.live.Wait()
			if len(report.Results) != 2 {
				t.Fatalf("%d answers of others: %+v", c.mixed, report.Results)
			}
			before, other := report.Results[0], report.Results[1]
			if before.Name != Baseline || before.Verdict != c.want || !strings.Contains(before.Words+strings.Join(before.Notes, ""), c.evident) {
				t.Errorf("%d answers of others: %+v", c.mixed, before)
			}
			if other.Name != "other" || other.Verdict != c.other || attacked != (c.other == Survived) {
				t.Errorf("%d answers of others, the scenario: %+v", c.mixed, other)
			}
		})
	}
}

// A scenario that is interrupted, in its first try or in its second, has no verdict. Those before keep theirs.
func TestInterrupted(t *testing.T) {
	for interrupted := 1; interrupted <= 2; interrupted++ {
		synctest.Test(t, func(t *testing.T) {
			server := newPiped(t)
			ctx, interrupt := context.WithCancel(t.Context())
			tries := 0
			report, err := Run(ctx, Plan{
				Load: load.Plan{Target: server}, Anywhere: true,
				Scenarios: []Scenario{
					{Name: "before", Kinds: Messages, Attack: func(context.Context, *Arena) Finding { return survives("anything") }},
					{Name: "during", Kinds: Messages, Attack: func(ctx context.Context, _ *Arena) Finding {
						if tries++; tries == interrupted {
							interrupt()
							<-ctx.Done()
						}
						return falls("an answer is wrong")
					}},
					{Name: "after", Kinds: Messages, Attack: func(context.Context, *Arena) Finding { return survives("anything") }},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			server.live.Wait()
			if tries != interrupted || len(report.Results) != 1 || report.Results[0].Name != "before" || report.Results[0].Verdict != Survived {
				t.Errorf("interrupted in try %d of %d: %+v", interrupted, tries, report.Results)
			}
			if report.Valid || !strings.HasPrefix(strings.Join(report.InvalidReasons, ""), "interrupted") {
				t.Errorf("valid: %v, %v", report.Valid, report.InvalidReasons)
			}
		})
	}
}
