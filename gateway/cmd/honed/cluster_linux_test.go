package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
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

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
)

var clusterMessages = flag.Int("cluster", 0, "messages of TestCluster; 0 skips it")

// TestCluster runs two gateways that share a log in a cluster of three nats-servers, all of them
// processes. Under load it kills each of the five with kill -9, and stops each for some seconds. Two readers get
// everything meanwhile. It takes 2 minutes: go test ./cmd/honed -run TestCluster -cluster 2000000.
func TestCluster(t *testing.T) {
	if *clusterMessages == 0 {
		t.Skip("takes minutes; run it with -cluster 2000000")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	servers, urls := natsServers(t)
	gateways := make([]*daemon, 2)
	for i := range gateways {
		gateways[i] = &daemon{name: fmt.Sprintf("honed %d", i), binary: os.Args[0], args: []string{
			"serve", "--json", "--until-eof", "--admin", "off", "--data", filepath.Join(t.TempDir(), "mark"),
			"--log", urls, "--create-stream", "--listen", testrun.FreeAddr(t),
		}}
		gateways[i].begin(t)
	}
	var acked, failed atomic.Uint64
	var stalls stalls
	done := func(_ uint64, err error) {
		if err != nil {
			failed.Add(1)
			return
		}
		acked.Add(1)
		stalls.ack()
	}
	const senders = 8
	each, pause := *clusterMessages/senders, disturbTime*time.Duration(2+len(servers))
	data := func(seq uint64) []byte { return bytes.Repeat(binary.BigEndian.AppendUint64(nil, seq), 16) }
	var feeding sync.WaitGroup
	clients := make([]*gateway.Client, senders)
	for i := range clients {
		addrs := []string{gateways[i%2].listen(), gateways[1-i%2].listen()}
		clients[i] = &gateway.Client{Addrs: addrs, ID: fmt.Sprint("client-", i), Level: gateway.Quorum, DialTime: 5 * time.Second, StallTime: 3 * time.Second, Heartbeat: time.Second}
		feeding.Go(func() {
			began := time.Now()
			for n := range each {
				if n%64 == 0 { // evenly, over all disturbances
					select {
					case <-time.After(time.Duration(float64(pause)*float64(n)/float64(each)) - time.Since(began)):
					case <-ctx.Done():
					}
				}
				if _, err := clients[i].SubmitAsync(ctx, data(uint64(n)+1), done); err != nil {
					t.Error(err)
				}
			}
			reports(t, clients[i].Close(ctx))
		})
	}
	var reading sync.WaitGroup
	for i := range 2 {
		r := &gateway.Reader{
			Addrs: []string{gateways[i].listen(), gateways[1-i].listen()}, Name: fmt.Sprint("r", i), Start: gateway.FromFirst,
			DialTime: 5 * time.Second, StallTime: 3 * time.Second, Heartbeat: time.Second,
		}
		reading.Go(func() { readEach(ctx, t, r, each*senders) })
	}
	fed := make(chan struct{})
	go func() { feeding.Wait(); close(fed) }()
	disturbed := disturb(ctx, t, append(gateways, servers...), fed)
	<-fed
	reading.Wait()
	log, err := cluster.Open(ctx, urls, cluster.Options{})
	must(t, err)
	defer log.Close()
	checked, err := gateway.Check(ctx, log, func(r journal.Record) error { // once, and in order
		if !bytes.Equal(r.Data, data(r.Seq)) {
			return fmt.Errorf("record %d of %s has other data", r.Seq, r.Client)
		}
		return nil
	})
	must(t, err)
	for _, c := range clients {
		t.Logf("connected %d times, %d resent", c.Stats().Connected, c.Stats().Resent)
	}
	t.Logf("%d acknowledged, %d disturbances, longest stall %v, %+v", acked.Load(), disturbed, stalls.longest, checked)
	if failed.Load()+checked.LeftOut+checked.Lost > 0 || checked.Records != acked.Load() || acked.Load() != uint64(each*senders) {
		t.Errorf("%+v, %d acknowledged, %d failed", checked, acked.Load(), failed.Load())
	}
	if disturbed < 2*(len(gateways)+len(servers)) {
		t.Error("the load ended before every process was killed and stopped")
	}
	if stalls.longest > 12*time.Second {
		t.Errorf("nothing was acknowledged for %v", stalls.longest)
	}
}

// readEach reads n messages and checks that nothing of a client is left out.
func readEach(ctx context.Context, t *testing.T, r *gateway.Reader, n int) {
	defer r.Close()
	last, all := map[string]uint64{}, 0
	for had := 0; had < n; {
		b, err := r.Next(ctx)
		if err != nil || b.Gap != nil {
			t.Errorf("%s has %d of %d messages: %v, %v", r.Name, had, n, b.Gap, err)
			return
		}
		for _, m := range b.Messages {
			all++
			switch before := last[m.Client]; {
			case m.Seq == before+1:
				last[m.Client] = m.Seq
				had++
			case m.Seq > before:
				t.Errorf("%s: client %s: %d comes after %d", r.Name, m.Client, m.Seq, before)
				return
			}
		}
		r.Ack(b.Position)
	}
	t.Logf("%s: %d messages, %d of them again", r.Name, n, all-n)
}

// TestProveUnsynced is TestCluster's control: one replica, whose server does not fsync. A power cut
// reverts the disk to an earlier state. Acknowledged records are lost, and the gateway refuses to
// continue.
func TestProveUnsynced(t *testing.T) {
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	store, addr := filepath.Join(dir, "store"), testrun.FreeAddr(t)
	config := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q }\n", addr, store)
	must(t, os.WriteFile(config, []byte(text), 0o600))
	binary := natstest.Binary(t)
	server := &daemon{name: "nats-server", binary: binary, args: []string{"-c", config}}
	server.begin(t)
	data, more := filepath.Join(dir, "mark"), []string{"--log", "nats://" + addr, "--replicas", "1"}
	g := startGateway(t, data, testrun.FreeAddr(t), append(more, "--create-stream")...)
	load := begin(t, g.addr)
	load.reach(200)
	server.signal(syscall.SIGSTOP)
	must(t, os.CopyFS(filepath.Join(dir, "disk"), os.DirFS(store)))
	server.signal(syscall.SIGCONT)
	load.reach(load.acked.Load() + 1000)
	server.end()
	must(t, os.RemoveAll(store))
	must(t, os.Rename(filepath.Join(dir, "disk"), store))
	again := &daemon{name: "nats-server", binary: binary, args: server.args}
	again.begin(t)
	if code := g.wait(); code != commandline.Failed || !strings.Contains(g.lastLine(), "has reached") {
		t.Errorf("honed ended with %d: %s", code, g.lastLine())
	}
	code, out, errs := honed(t, append([]string{"verify", "--data", data}, more...)...)
	if code != commandline.Failed || !strings.Contains(errs, "acknowledged messages are missing") {
		t.Errorf("honed verify ended with %d: %s%s", code, out, errs)
	}
	acked := load.acked.Load()
	log, err := cluster.Open(t.Context(), "nats://"+addr, cluster.Options{Replicas: 1})
	must(t, err)
	defer log.Close()
	checked, err := gateway.Check(t.Context(), log, nil)
	if err != nil || checked.Records >= acked {
		t.Errorf("%d acknowledged and %d stored: nothing was lost, so this test proves nothing (%v)", acked, checked.Records, err)
	}
	t.Logf("%d acknowledged, %d of them lost", acked, acked-checked.Records)
}

// stalls finds the longest time without an acknowledgement.
type stalls struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (s *stalls) ack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
}

// begin begins anew, and returns the longest time so far.
func (s *stalls) begin() time.Duration {
	s.ack()
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := s.longest
	s.longest = 0
	return longest
}

// disturbTime is how long disturb takes for one daemon, plus a second.
const disturbTime = 16 * time.Second

// disturb kills and stops each daemon in turn, and returns early when the load has ended.
func disturb(ctx context.Context, t *testing.T, all []*daemon, fed <-chan struct{}) (n int) {
	wait := func(d time.Duration) bool {
		select {
		case <-fed:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for _, d := range all {
		if !wait(4 * time.Second) {
			return n
		}
		t.Log("kill -9", d.name)
		d.signal(syscall.SIGKILL) // begin's goroutine restarts it
		n++
		if !wait(6 * time.Second) {
			return n
		}
		t.Log("stop", d.name)
		d.signal(syscall.SIGSTOP)
		wait(5 * time.Second)
		d.signal(syscall.SIGCONT)
		n++
	}
	return n
}

// daemon is a process that is restarted whenever it ends.
type daemon struct {
	name, binary string
	args         []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.Closer
	ended  bool
	times  int // that it has ended by itself, or was killed
	keeper sync.WaitGroup
}

// ends is how often the daemon has ended.
func (d *daemon) ends() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times
}

// listen is the daemon's address.
func (d *daemon) listen() string { return d.args[len(d.args)-1] }

// begin starts the daemon, and stops it at the end of the test.
func (d *daemon) begin(t testing.TB) {
	t.Helper()
	d.keeper.Go(func() {
		for {
			said, more := d.run(t)
			if !more {
				return
			}
			t.Logf("%s ended: %.300s", d.name, said)
		}
	})
	t.Cleanup(d.end)
}

func (d *daemon) run(t testing.TB) (said []byte, more bool) {
	var errs bytes.Buffer
	d.mu.Lock()
	if d.ended {
		d.mu.Unlock()
		return nil, false
	}
	d.cmd = exec.Command(d.binary, d.args...)
	d.cmd.Stderr = &errs
	var err error
	if d.stdin, err = d.cmd.StdinPipe(); err == nil {
		err = d.cmd.Start()
	}
	cmd := d.cmd
	d.mu.Unlock()
	if err != nil {
		t.Error(err)
		return nil, false
	}
	cmd.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times++
	lines := bytes.Split(bytes.TrimSpace(errs.Bytes()), []byte("\n"))
	return lines[len(lines)-1], !d.ended
}

func (d *daemon) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cmd.Process.Signal(s)
}

func (d *daemon) end() {
	d.mu.Lock()
	d.ended = true
	if d.cmd != nil && d.cmd.Process != nil {
		d.cmd.Process.Kill()
	}
	d.mu.Unlock()
	d.keeper.Wait()
}

// natsServers starts a cluster of three nats-servers.
func natsServers(t testing.TB) (all []*daemon, urls string) {
	t.Helper()
	dir, binary := t.TempDir(), natstest.Binary(t)
	var routes, clients []string
	for range 3 {
		routes, clients = append(routes, testrun.FreeAddr(t)), append(clients, testrun.FreeAddr(t))
	}
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprintf("n%d", i))
		text := fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q, sync_interval: always }\n"+
			"cluster { name: proof, listen: %q, routes: [nats://%s] }\n", i, clients[i], name, routes[i], strings.Join(routes, ", nats://"))
		must(t, os.WriteFile(name+".conf", []byte(text), 0o600))
		d := &daemon{name: fmt.Sprintf("nats-server %d", i), binary: binary, args: []string{"-c", name + ".conf"}}
		d.begin(t)
		all = append(all, d)
	}
	return all, "nats://" + strings.Join(clients, ",nats://")
}

// meter is a proxy that counts what a server sends.
type meter struct {
	addr string
	sent atomic.Int64
}

func newMeter(t *testing.T, to string) *meter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &meter{addr: ln.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { ln.Close(); running.Wait() })
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				return
			}
			running.Go(func() { defer server.Close(); io.Copy(server, client) })
			running.Go(func() { defer client.Close(); io.Copy(io.MultiWriter(client, m), server) })
		}
	})
	return m
}

func (m *meter) Write(b []byte) (int, error) {
	m.sent.Add(int64(len(b)))
	return len(b), nil
}

// TestClusterStart: a start on a stream reads what follows its newest checkpoint, not the stream.
func TestClusterStart(t *testing.T) {
	t.Parallel()
	l := newLone(t, natstest.Binary(t))
	l.configure("", "")
	l.start()
	g := l.gateway("--checkpoint-bytes", "1048576")
	g.ready()
	load := begin(t, g.addr)
	size := testrun.Sized(8<<20, 100<<20)
	load.reach(uint64(size / loadSize))
	load.end()
	g.kill() // no checkpoint at the end
	m := newMeter(t, l.addr)
	g = l.gateway("--verify-rate", "0", "--log", "nats://"+m.addr)
	g.ready()
	got := m.sent.Load()
	if t.Logf("a start on a stream of %d bytes receives %d", size, got); got > 4<<20 {
		t.Errorf("the start has received %d bytes", got)
	}
	g.kill()
}
