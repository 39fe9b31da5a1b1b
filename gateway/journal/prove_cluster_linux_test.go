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
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/natstest"
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
	nc, err := nats.Connect(urls, nats.Timeout(connectTime))
	must(t, err)
	defer nc.Close()
	asked, err := newStream(nc, stream)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		info, err := asked.state(ctx)
		if err == nil {
			return info
		}
		if err := pause(ctx, retryEvery); err != nil {
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
		if err := pause(ctx, retryEvery); err != nil {
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

// TestTwoWriters: two processes share a stream; each learns what the other has appended.
func TestTwoWriters(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	open := func() *Cluster {
		log, err := OpenCluster(t.Context(), urls, ClusterOptions{Replicas: 1, Create: true})
		must(t, err)
		t.Cleanup(func() { log.Close() })
		return log
	}
	a, b := open(), open()
	appended(t, a, sample("a", 1, 1), 1)
	appended(t, a, sample("a", 2, 1), 2)
	for range 2 {
		if _, err := b.Append(t.Context(), sample("b", 1, 1)); !errors.Is(err, ErrConflict) {
			t.Fatalf("the one that has not read: %v", err)
		}
	}
	must(t, b.Verify(t.Context(), 0, nil))
	if all := contents(t, b, 1); len(all) != 2 {
		t.Fatalf("%d envelopes", len(all))
	}
	if _, err := b.Append(t.Context(), sample("b", 1, 1)); !errors.Is(err, ErrConflict) {
		t.Fatalf("Verify and Read do not count: %v", err)
	}
	must(t, b.Follow(t.Context(), 1, func(uint64, []byte) error { return nil }))
	appended(t, b, sample("b", 1, 1), 3)
}

// TestLostReply: an envelope that was stored, and whose acknowledgement was lost, is recognised.
func TestLostReply(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	log, err := OpenCluster(t.Context(), urls, ClusterOptions{Replicas: 1, Create: true})
	must(t, err)
	defer log.Close()
	envelope := sample("a", 1, 1)
	if err := log.stream.publish(t.Context(), envelope, 1, log.writer+"-1"); err != nil {
		t.Fatal(err) // the attempt whose reply is lost
	}
	if pos, err := log.place(t.Context(), envelope, log.writer+"-1", true); err != nil || pos != 1 {
		t.Fatalf("position %d, %v", pos, err)
	}
	log.count = 1
	appended(t, log, sample("a", 2, 1), 2)
	if all := contents(t, log, 0); len(all) != 2 {
		t.Errorf("%d envelopes, want 2", len(all))
	}
	// JetStream stores the second one twice.
	must(t, log.stream.publish(t.Context(), sample("a", 2, 1), 3, log.writer+"-2"))
	for _, from := range []uint64{1, 3} {
		all := contents(t, log, from)
		if e, err := Decode(all[len(all)-1]); err != nil || e.Count != 0 {
			t.Errorf("from %d: the double has %d records (%v)", from, e.Count, err)
		}
	}
	// It stores another one behind a foreign envelope, which the caller has not seen.
	foreign, late := sample("b", 1, 1), sample("a", 3, 1)
	for i, b := range [][]byte{foreign, late} {
		must(t, log.stream.publish(t.Context(), b, 4+uint64(i), []string{"other-1", log.writer + "-3"}[i]))
	}
	if _, err := log.place(t.Context(), late, log.writer+"-3", true); !errors.Is(err, ErrBroken) {
		t.Errorf("stored behind another writer: %v", err)
	}
}

// TestClusterRefusals: a stream that is gone, shorter than the mark, or made for something else.
func TestClusterRefusals(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refuses := func(what string, o ClusterOptions) {
		t.Helper()
		o.Replicas = 1
		log, err := OpenCluster(ctx, urls, o)
		if err == nil {
			log.Close()
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Repair == "" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	refuses("no stream", ClusterOptions{})
	dir := t.TempDir()
	log, err := OpenCluster(ctx, urls, ClusterOptions{Replicas: 1, Create: true, Dir: dir})
	must(t, err)
	appended(t, log, sample("a", 1, 1), 1)
	refuses("the folder is in use", ClusterOptions{Dir: dir})
	log.Close()

	nc, err := nats.Connect(urls)
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, js.DeleteStream(ctx, defaultStream))
	refuses("the stream is gone", ClusterOptions{Dir: dir, Create: true})
	config := (&ClusterOptions{Stream: defaultStream, Replicas: 1}).config()
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	refuses("the stream is empty", ClusterOptions{Dir: dir})
	config.Name, config.Subjects, config.Discard = "OTHER", []string{"other"}, jetstream.DiscardOld
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	refuses("discards old messages", ClusterOptions{Stream: "OTHER"})
}
