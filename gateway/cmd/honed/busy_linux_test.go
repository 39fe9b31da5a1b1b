package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// crew are clients of one gateway, which they do not leave.
type crew struct {
	clients []*gateway.Client
	acked   []atomic.Uint64
	all     atomic.Uint64
	feeding sync.WaitGroup
	stalls  stalls
}

// newCrew has n clients, whose IDs begin with name, submit records of some size until ctx ends.
func newCrew(ctx context.Context, t testing.TB, of *daemon, name string, n, window, size int) *crew {
	c := &crew{acked: make([]atomic.Uint64, n)}
	for i := range n {
		client := &gateway.Client{Addrs: []string{of.listen()}, ID: fmt.Sprintf("%s-%d", name, i), Window: window, Level: gateway.Quorum, Heartbeat: time.Second}
		c.clients = append(c.clients, client)
		done := func(_ uint64, err error) {
			if err == nil {
				c.acked[i].Add(1)
				c.all.Add(1)
				c.stalls.ack()
			}
		}
		c.feeding.Go(func() {
			for ctx.Err() == nil {
				client.SubmitAsync(ctx, make([]byte, size), done)
			}
			end, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			reports(t, client.Close(end))
		})
	}
	return c
}

// least is how much each client has had acknowledged at least.
func (c *crew) least() uint64 {
	least := c.acked[0].Load()
	for i := range c.acked {
		least = min(least, c.acked[i].Load())
	}
	return least
}

// busyGateways starts gateways on one cluster.
func busyGateways(t testing.TB, urls string, n int, more ...string) []*daemon {
	all := make([]*daemon, n)
	for i := range all {
		args := []string{"serve", "--json", "--until-eof", "--admin", "off", "--data", filepath.Join(t.TempDir(), "mark"), "--log", urls, "--create-stream"}
		all[i] = &daemon{name: fmt.Sprint("honed-", i), binary: os.Args[0], args: append(append(args, more...), "--listen", testrun.FreeAddr(t))}
		all[i].begin(t)
	}
	return all
}

// TestBusyGateways: two of three gateways on one cluster have load that stays where it is, and one of the three nats-servers is
// killed and started again. No gateway ends, each stores its share, nothing that was acknowledged is lost or doubled, and a
// gateway that stands still for ten seconds holds the other up for less than two.
func TestBusyGateways(t *testing.T) {
	t.Parallel() // it waits for disks
	servers, urls := natsServers(t)
	gateways := busyGateways(t, urls, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	crews := []*crew{newCrew(ctx, t, gateways[0], gateways[0].name, 4, 64, 128), newCrew(ctx, t, gateways[1], gateways[1].name, 4, 64, 128)}
	sum := func() uint64 { return crews[0].all.Load() + crews[1].all.Load() }
	eventually(t, "both", func() bool { return crews[0].all.Load() > 0 && crews[1].all.Load() > 0 })
	from := []uint64{crews[0].all.Load(), crews[1].all.Load()}
	most := uint64(testrun.Sized(15_000, 400_000))
	eventually(t, "the load", func() bool { return sum() >= from[0]+from[1]+most })
	for i, c := range crews {
		if share := float64(c.all.Load()-from[i]) / float64(sum()-from[0]-from[1]); share < 0.15 {
			t.Errorf("gateway %d has stored %.2f of all records", i, share)
		}
	}
	before := sum()
	servers[0].signal(syscall.SIGKILL) // which may lead
	eventually(t, "more than waited", func() bool { return sum() > before+5_000 })
	for i, g := range gateways {
		if g.ends() > 0 {
			t.Errorf("gateway %d has ended %d times", i, g.ends())
		}
	}
	if testrun.All() {
		for i, g := range gateways[:2] {
			other := &crews[1-i].stalls
			other.begin()
			g.signal(syscall.SIGSTOP)
			<-time.After(10 * time.Second)
			g.signal(syscall.SIGCONT)
			if longest := other.begin(); longest > 2*time.Second {
				t.Errorf("while gateway %d stood still, the other did so for %v", i, longest)
			} else {
				t.Logf("while gateway %d stood still, the other did so for %v at most", i, longest)
			}
		}
		for range 5 {
			for _, g := range gateways[:2] {
				before := sum()
				g.signal(syscall.SIGKILL)
				eventually(t, "more", func() bool { return sum() > before+50_000 })
			}
		}
	}
	cancel()
	for _, c := range crews {
		c.feeding.Wait()
	}
	stored, checked := inCluster(t, urls)
	for i, c := range crews {
		for j := range c.acked {
			if name := fmt.Sprintf("%s-%d", gateways[i].name, j); stored[name] != c.acked[j].Load() {
				t.Errorf("%s: %d records stored, %d acknowledged", name, stored[name], c.acked[j].Load())
			}
		}
	}
	if checked.LeftOut > 0 {
		t.Errorf("%d records are left out", checked.LeftOut)
	}
}

// inCluster returns how many records each client has in a cluster's log, each once and in order.
func inCluster(t testing.TB, urls string) (stored map[string]uint64, checked gateway.Checked) {
	t.Helper()
	log, err := cluster.Open(t.Context(), urls, cluster.Options{ReadOnly: true})
	must(t, err)
	defer log.Close()
	stored = map[string]uint64{}
	checked, err = gateway.Check(t.Context(), log, func(r journal.Record) error { stored[r.Client]++; return nil })
	must(t, err)
	return stored, checked
}

// TestBusyCheckpoints: two busy gateways with 100,000 sessions complete checkpoints, so that a start reads at most 256 MB.
func TestBusyCheckpoints(t *testing.T) {
	if !testrun.All() {
		t.Skip("stores 400 MB; it runs with HONE_TEST_ALL=1")
	}
	t.Parallel() // it waits for disks
	_, urls := natsServers(t)
	log, err := cluster.Open(t.Context(), urls, cluster.Options{Create: true})
	must(t, err)
	const sessions, size = 100_000, 4 << 10
	var e journal.Encoder
	for n := 0; n < sessions; {
		e.Begin(0)
		must(t, e.Clock(journal.Clock{Time: time.Now().UnixMilli(), Highest: sessions}))
		for range 4000 {
			n++
			must(t, e.State(&journal.State{Client: fmt.Sprint("crowd-", n), Epoch: uint64(n), Claim: true}))
		}
		works(t)(log.Append(t.Context(), e.Bytes()))
	}
	must(t, log.Close())
	gateways := busyGateways(t, urls, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	crews := []*crew{newCrew(ctx, t, gateways[0], gateways[0].name, 8, 64, size), newCrew(ctx, t, gateways[1], gateways[1].name, 8, 64, size)}
	eventually(t, "the load", func() bool { return (crews[0].all.Load()+crews[1].all.Load())*size >= 400<<20 })
	cancel()
	for i, c := range crews {
		c.feeding.Wait()
		gateways[i].end() // without a last checkpoint
	}
	m := newMeter(t, urls[len("nats://"):][:len("127.0.0.1:00000")])
	l := busyGateways(t, "nats://"+m.addr, 1, "--verify-rate", "0")[0]
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	probe := newCrew(ctx, t, l, l.name, 1, 64, size)
	eventually(t, "a start", func() bool { return probe.all.Load() > 0 })
	cancel()
	probe.feeding.Wait()
	if got := m.sent.Load(); got > 256<<20 {
		t.Errorf("the start has received %d bytes", got)
	} else {
		t.Logf("the start has received %d bytes", got)
	}
}
