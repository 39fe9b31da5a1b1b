package journal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
)

// node is one nats-server process.
type node struct {
	url, config, store, binary string
	cmd                        *exec.Cmd
}

// freePorts returns ports of 127.0.0.1 that nobody listens on now.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer ln.Close() // after all are chosen, so that they differ
		ports[i] = ln.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// cluster starts n nats-server processes and returns them with the URLs of all.
func cluster(t *testing.T, n int) ([]*node, string) {
	t.Helper()
	dir := t.TempDir()
	binary := natstest.Binary(t)
	ports := freePorts(t, 2*n)
	var routes, urls []string
	for _, p := range ports[n:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	nodes := make([]*node, n)
	for i := range nodes {
		name := filepath.Join(dir, fmt.Sprintf("n%d", i))
		nodes[i] = &node{binary: binary, url: fmt.Sprintf("nats://127.0.0.1:%d", ports[i]), config: name + ".conf", store: name}
		urls = append(urls, nodes[i].url)
		text := fmt.Sprintf("server_name: n%d\nlisten: \"127.0.0.1:%d\"\njetstream { store_dir: %q, sync_interval: always }\n",
			i, ports[i], nodes[i].store)
		text += fmt.Sprintf("cluster { name: proof, listen: \"127.0.0.1:%d\", routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
		must(t, os.WriteFile(nodes[i].config, []byte(text), 0o600))
	}
	for _, n := range nodes {
		n.start(t)
		t.Cleanup(func() { n.kill() })
	}
	return nodes, strings.Join(urls, ",")
}

func (n *node) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.Command(n.binary, "-c", n.config)
	must(t, n.cmd.Start())
}

func (n *node) kill() {
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

// leader returns the node that leads the stream, which is the only one to answer for it.
func leader(t *testing.T, nodes []*node, urls, stream string) *node {
	t.Helper()
	i := 0
	info := streamInfo(t, urls, stream)
	if info.Cluster != nil {
		if _, err := fmt.Sscanf(info.Cluster.Leader, "n%d", &i); err != nil {
			t.Fatalf("leader %q: %v", info.Cluster.Leader, err)
		}
	}
	return nodes[i]
}

func streamInfo(t *testing.T, urls, stream string) *jetstream.StreamInfo {
	t.Helper()
	nc, err := nats.Connect(urls, nats.Timeout(2*time.Second))
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		found, err := js.Stream(attempt, stream)
		cancel()
		if err == nil {
			if c := found.CachedInfo().Cluster; c == nil || c.Name == "" || c.Leader != "" {
				return found.CachedInfo()
			}
		}
		if err := writer.Pause(ctx, retryPause); err != nil {
			t.Fatalf("no leader of %s: %v", stream, err)
		}
	}
}

// caughtUp waits until every replica has everything, so that the next fault is the only one.
func caughtUp(t *testing.T, urls, stream string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		info, current := streamInfo(t, urls, stream), 0
		if info.Cluster != nil && info.Cluster.Leader != "" {
			for _, r := range info.Cluster.Replicas {
				if r.Current && !r.Offline {
					current++
				}
			}
		}
		if current == 2 {
			return
		}
		if err := writer.Pause(ctx, retryPause); err != nil {
			t.Fatalf("the replicas do not catch up: %+v", info.Cluster)
		}
	}
}

// TestProveCluster kills and stops each of three servers in turn, under load: nothing that a
// majority acknowledged is lost or doubled. The control has one replica, and loses.
func TestProveCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nats-servers")
	}
	t.Parallel() // it waits for elections most of the time
	nodes, urls := cluster(t, 3)
	each := 0
	if !*full {
		each = testrun.Sized(5, 0)
	}
	p := newProof(t, task{Kind: "cluster", Dir: urls, Stream: "PROOF", Each: each})
	c := p.start()
	c.acks(20)
	rounds, between := 1, testrun.Sized(50, 100)
	faults := []string{"kill the leader"}
	if *full {
		rounds, between = 2, 300
		faults = []string{"kill 0", "stop 0", "kill 1", "stop 1", "kill 2", "stop 2", "kill the leader", "stop the leader"}
	}
	for range rounds {
		for _, fault := range faults {
			p.stall = 0
			n := leader(t, nodes, urls, "PROOF")
			how, which, _ := strings.Cut(fault, " ")
			if which != "the leader" {
				n = nodes[which[0]-'0']
			}
			if how == "kill" {
				n.kill()
			} else if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			during := c.acks(between)
			if during < between {
				c.kill()
				t.Fatalf("%s: the log ended: %s", fault, p.failed)
			}
			if how == "kill" {
				n.start(t)
			} else if err := n.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			c.acks(between)
			t.Logf("%s: longest stall %v", fault, p.stall.Round(time.Millisecond))
			// The load pauses, so that the replica catches up before the next fault.
			c.kill()
			caughtUp(t, urls, "PROOF")
			c = p.start()
			c.acks(5)
		}
	}
	if *full {
		for p.total < 2_000_000 && c.acks(100) == 100 {
		}
	}
	c.kill()
	p.check()
	t.Logf("%d records acknowledged, %d lost, 0 stored twice", p.total, p.lost)
	if p.lost > 0 {
		t.Error("acknowledged records are lost")
	}
}

// TestProveClusterControl: a machine is lost with its disk. With three replicas nothing is lost;
// the control has one, and loses.
func TestProveClusterControl(t *testing.T) {
	if !*full {
		t.Skip("runs with -full alone: make prove")
	}
	for _, replicas := range []int{1, 3} {
		nodes, urls := cluster(t, 3)
		p := newProof(t, task{Kind: "cluster", Dir: urls, Stream: "PROOF", Replicas: replicas})
		c := p.start()
		c.acks(50)
		c.kill()
		n := leader(t, nodes, urls, "PROOF")
		n.kill()
		must(t, os.RemoveAll(n.store))
		n.start(t)
		p.check()
		t.Logf("%d replicas: %d of %d acknowledged records are lost", replicas, p.lost, p.total)
		if replicas == 1 != (p.lost > 0) {
			t.Errorf("%d replicas, one machine and its disk gone: %d records lost", replicas, p.lost)
		}
	}
}

// TestTurns: two writers that always have something to append get on, and seldom lose a race to an envelope that they cannot
// read yet.
func TestTurns(t *testing.T) {
	t.Parallel() // it waits for nats-servers
	_, url := cluster(t, 3)
	log, err := OpenCluster(t.Context(), url, "", 3, "")
	must(t, err)
	must(t, log.Close())
	const all = 1000
	var stored, nothing atomic.Int64
	var appending sync.WaitGroup
	for range 2 {
		l, err := OpenCluster(t.Context(), url, "", 3, "")
		must(t, err)
		defer l.Close()
		appending.Go(func() {
			for next := uint64(1); stored.Add(1) <= all; {
				pos, err := l.Append(context.Background(), sample("a", 1, 1))
				for before := next; errors.Is(err, ErrConflict); before = next {
					if err := l.Follow(context.Background(), next, func(pos uint64, _ []byte) error { next = pos + 1; return nil }); err != nil {
						t.Error(err)
						return
					}
					if next == before {
						nothing.Add(1)
					}
					pos, err = l.Append(context.Background(), sample("a", 1, 1))
				}
				if next = pos + 1; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	appending.Wait()
	t.Logf("%d times nothing for %d envelopes", nothing.Load(), all)
	if nothing.Load() > all/10 {
		t.Error("the writers lose too many races")
	}
}
