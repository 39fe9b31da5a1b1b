package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/serving"
	"github.com/hone-go/hone/websocket"
)

// storms skips tests that need a quiet machine and minutes, and returns how many clients are wanted.
func storms(t *testing.T) int {
	t.Helper()
	clients, err := strconv.Atoi(os.Getenv("HONE_TEST_STORM"))
	if err != nil {
		t.Skip("15,000 clients, or a server and its clients on a CPU each, need a quiet machine and 20,000 descriptors (ulimit -n); HONE_TEST_STORM=15000 runs them")
	}
	return clients
}

const (
	stormHalves = 2 // processes with clients
	stormAsks   = 4 * time.Second
	comeBack    = time.Second // the hint of framed; WebSocket has none, and its clients take the same
)

// TestStorm replaces a server with 15,000 clients by another one, with a spread of 30 s and all at once.
func TestStorm(t *testing.T) {
	clients := storms(t)
	if files, known := sys.DescriptorLimit(); !known || files < uint64(clients+2000) {
		t.Fatalf("the limit of descriptors is %d; raise it (ulimit -n)", files)
	}
	for _, service := range []string{"upper", serving.SocketService} {
		for _, secure := range []bool{false, true} {
			for _, spread := range []time.Duration{30 * time.Second, 0} {
				t.Run(fmt.Sprintf("%s/tls=%v/spread=%v", service, secure, spread), func(t *testing.T) { stormUpgrade(t, clients, service, secure, spread) })
			}
		}
	}
}

func stormUpgrade(t *testing.T, clients int, service string, secure bool, spread time.Duration) {
	flags := []string{"--service", service, "--limit", "conns=16000"}
	if spread > 0 {
		flags = append(flags, "--limit", "spread-time="+spread.String())
	}
	u := newUpgraded(t, secure, flags...)
	old, ready, err := u.start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { old.Process.Kill() }()
	var halves [stormHalves]*stormHalf
	for i := range halves {
		halves[i] = startHalf(t, "storm-clients", service, ready.Addr, strconv.FormatBool(secure), strconv.Itoa(clients/stormHalves), fmt.Sprintf("127.0.0.%d", 2+i))
	}
	for _, h := range halves {
		h.until(t, "connected\n")
	}
	next, _, err := u.start()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Process.Kill()
	if err := old.Wait(); err != nil {
		t.Errorf("the old server ended: %v", err)
	}
	<-time.After(2*comeBack + time.Second) // the last come back
	var all stormed
	for _, h := range halves {
		var part stormed
		h.end(t, &part)
		all.add(&part)
	}
	text, err := os.ReadFile(u.log.(*os.File).Name())
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`time=(\S+) level=INFO msg=draining`).FindSubmatch(text)
	drained := regexp.MustCompile(`msg=drained.*`).Find(text)
	if line == nil {
		t.Fatalf("no drain: %s", text)
	}
	began, err := time.Parse(time.RFC3339Nano, string(line[1]))
	if err != nil {
		t.Fatal(err)
	}
	ends, comes := inSeconds(all.Ends, began), inSeconds(all.Handshakes, began)
	t.Logf("%s", drained)
	t.Logf("closes in each second: %v", ends[:min(len(ends), int(spread/time.Second)+2)]) // and not those of the test's end
	t.Logf("handshakes in each second: %v (most: %d)", comes, slices.Max(comes))
	t.Logf("%d answered, %d wrong, %d failed, %d crossed their connection's end and were asked again, %d tries to connect failed", all.Answered, all.Wrong, all.Failed, all.Crossed, all.Refused)
	if spread == 0 { // shown beside it: the new server cannot serve all of them at once
		return
	}
	if all.Wrong+all.Failed+all.Refused > 0 || !regexp.MustCompile(fmt.Sprintf("clean=%d forced=0 ", clients)).Match(drained) {
		t.Error("something was lost")
	}
	if sum(comes) != clients {
		t.Errorf("%d came back", sum(comes))
	}
	share := int(float64(clients) / spread.Seconds())
	for i := range int(spread.Seconds()) {
		if n := ends[i]; n < share/2 || n > share*3/2 {
			t.Errorf("%d closed in second %d, want %d, give or take a half", n, i, share)
		}
	}
	if most := slices.Max(comes); most > share*3/2 {
		t.Errorf("%d came in a second, want %d, and half more at most", most, share)
	}
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// inSeconds counts moments in each second since.
func inSeconds(moments []int64, since time.Time) []int {
	counts := map[int]int{}
	for _, at := range moments {
		if d := time.UnixMilli(at).Sub(since); d >= 0 {
			counts[int(d/time.Second)]++
		}
	}
	all := make([]int, 1+slices.Max(append(slices.Collect(maps.Keys(counts)), 0)))
	for second, n := range counts {
		all[second] = n
	}
	return all
}

// newUpgraded returns a server with a folder of its own.
func newUpgraded(t *testing.T, secure bool, flags ...string) *upgraded {
	t.Helper()
	folder := testrun.SocketFolder(t)
	if secure {
		if err := writeCertificate(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--cert", "cert.pem", "--key", "key.pem")
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return &upgraded{
		flags: append([]string{"serve", "--json", "--addr", "127.0.0.1:0", "--admin", "off", "--upgrade", "unix:" + filepath.Join(folder, "upgrade")}, flags...),
		log:   log, dir: folder,
	}
}

// stormHalf is a process with clients.
type stormHalf struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startHalf runs this binary as one of its parts.
func startHalf(t *testing.T, args ...string) *stormHalf {
	t.Helper()
	h := &stormHalf{Cmd: exec.Command(args[0], args[1:]...)}
	h.Stderr = os.Stderr
	in, err := h.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Process.Kill()
		h.Wait()
	})
	h.in, h.out = in, bufio.NewReader(out)
	return h
}

// until waits for a line.
func (h *stormHalf) until(t *testing.T, line string) {
	t.Helper()
	if said, err := h.out.ReadString('\n'); said != line {
		t.Fatalf("%q, %v", said, err)
	}
}

// end makes it say what it has seen.
func (h *stormHalf) end(t *testing.T, seen any) {
	t.Helper()
	h.in.Close()
	if err := json.NewDecoder(h.out).Decode(seen); err != nil {
		t.Fatal(err)
	}
}

// untilStopped returns a context that ends with standard input.
func untilStopped() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return ctx
}

// stormed is what clients saw, in milliseconds since 1970.
type stormed struct {
	mu                                        sync.Mutex
	Ends, Handshakes                          []int64
	Answered, Wrong, Failed, Crossed, Refused int
}

func (s *stormed) add(other *stormed) {
	s.Ends, s.Handshakes = append(s.Ends, other.Ends...), append(s.Handshakes, other.Handshakes...)
	s.Answered, s.Wrong, s.Failed = s.Answered+other.Answered, s.Wrong+other.Wrong, s.Failed+other.Failed
	s.Crossed, s.Refused = s.Crossed+other.Crossed, s.Refused+other.Refused
}

func (s *stormed) note(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// noted is a connection that notes when it ends.
type noted struct {
	net.Conn
	once sync.Once
	end  func()
}

func (n *noted) Read(p []byte) (int, error) {
	got, err := n.Conn.Read(p)
	if err != nil {
		n.once.Do(n.end)
	}
	return got, err
}

// Close is called first where a client has been told to leave.
func (n *noted) Close() error {
	n.once.Do(n.end)
	return n.Conn.Close()
}

// stormCrowd is the clients of a process.
type stormCrowd struct {
	stormed
	addr    string
	secure  bool
	source  net.Addr
	until   context.Context
	at      chan struct{} // bounds how many connect at first
	arrived atomic.Int64
}

// playStormClients connects clients, which ask now and then and come back when their server leaves.
func playStormClients() {
	service, n := os.Args[1], 0
	fmt.Sscan(os.Args[4], &n)
	c := &stormCrowd{addr: os.Args[2], secure: os.Args[3] == "true", source: &net.TCPAddr{IP: net.ParseIP(os.Args[5])}, until: untilStopped(), at: make(chan struct{}, 64)}
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			if service == "upper" {
				c.callFrames()
			} else {
				c.callSocket()
			}
		})
	}
	for c.arrived.Load() < int64(n) && c.until.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	<-time.After(stormAsks)
	fmt.Println("connected")
	<-c.until.Done()
	clients.Wait()
	json.NewEncoder(os.Stdout).Encode(&c.stormed)
}

// dial connects, with a handshake.
func (c *stormCrowd) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: c.source}
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err == nil && c.secure {
		secured := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
		if err = secured.HandshakeContext(ctx); err != nil {
			nc.Close()
		}
		nc = secured
	}
	now := time.Now().UnixMilli()
	if err != nil {
		c.note(func() { c.Refused++ })
		return nil, err
	}
	c.note(func() { c.Handshakes = append(c.Handshakes, now) })
	return &noted{Conn: nc, end: func() {
		now := time.Now().UnixMilli()
		c.note(func() { c.Ends = append(c.Ends, now) })
	}}, nil
}

// first bounds how many connect at the same time at first.
func (c *stormCrowd) first(connect func() error) {
	c.at <- struct{}{}
	defer func() { <-c.at }()
	if err := connect(); err != nil {
		log.Fatal(err)
	}
	c.arrived.Add(1)
}

// rest waits for a random part of twice d, and reports whether clients go on.
func (c *stormCrowd) rest(d time.Duration) bool {
	select {
	case <-time.After(rand.N(2 * d)):
	case <-c.until.Done():
	}
	return c.until.Err() == nil
}

func (c *stormCrowd) callFrames() {
	m := &framed.Mux{Dial: c.dial, DialTime: patience}
	defer m.Close()
	c.first(func() error { return m.Open(context.Background()) })
	for c.rest(stormAsks) {
		reply, err := m.Call(context.Background(), nil, []byte("storm"))
		c.note(func() {
			switch {
			case err != nil:
				log.Print(err)
				c.Failed++
			case string(reply) != "STORM":
				c.Wrong++
			default:
				c.Answered++
			}
		})
	}
}

func (c *stormCrowd) callSocket() {
	var ws *websocket.Client
	connect := func() (err error) {
		ws, err = websocket.Dial(context.Background(), "ws://"+c.addr+"/echo", websocket.Options{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		})
		return err
	}
	c.first(connect)
	for c.until.Err() == nil {
		answers := make(chan string)
		go func() {
			defer close(answers)
			for {
				_, answer, err := ws.Read(context.Background(), nil)
				if err != nil {
					return
				}
				answers <- string(answer)
			}
		}()
		for open := true; open; {
			select {
			case <-time.After(rand.N(2 * stormAsks)):
			case _, open = <-answers:
				continue
			case <-c.until.Done():
				ws.Close(websocket.NormalClosure, "")
				for range answers {
				}
				return
			}
			ws.Write(context.Background(), websocket.Text, []byte("storm"))
			answer, answered := <-answers
			c.note(func() {
				switch {
				case !answered:
					c.Crossed++
				case answer != "storm":
					c.Wrong++
				default:
					c.Answered++
				}
			})
			open = answered
		}
		for again := true; again && c.rest(comeBack/2); {
			again = connect() != nil
		}
	}
}

const (
	busyClients = 100
	busyPause   = 20 * time.Millisecond
	shakesEvery = 2 * time.Millisecond
	busyTime    = 8 * time.Second
)

// beside is what busy clients saw before and while others made handshakes, in microseconds.
type beside struct {
	Quiet50, Quiet99, Storm50, Storm99, Handshake99 int64
	Asked, Lost, Made, Dropped                      int
}

// TestCallsBesideHandshakes compares how long 100 busy clients wait beside 500 handshakes a second: on hone serve and
// on net/http, the server and all clients on a CPU each.
func TestCallsBesideHandshakes(t *testing.T) {
	storms(t)
	folder := testrun.SocketFolder(t)
	if err := writeCertificate(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")); err != nil {
		t.Fatal(err)
	}
	servers := map[string][]string{
		"hone http":   {"hone", "serve", "--json", "--service", "http"},
		"hone frames": {"hone", "serve", "--json", "--service", "upper"},
		"net/http":    {"net-http"},
	}
	ratios := map[string][]float64{}
	for round := range 3 {
		worst := map[string]beside{}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			cmd := exec.Command("taskset", append([]string{"-c", "0"}, append(servers[name], "--addr", "127.0.0.1:0", "--admin", "off", "--cert", "cert.pem", "--key", "key.pem")...)...)
			cmd.Dir, cmd.Stderr = folder, io.Discard
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ready serving.Ready
			err = json.NewDecoder(out).Decode(&ready)
			var seen beside
			if err == nil {
				h := startHalf(t, "taskset", "-c", "1", "storm-calls", ready.Addr, name)
				h.end(t, &seen)
			}
			cmd.Process.Kill()
			cmd.Wait()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("round %d, %s: %+v", round+1, name, seen)
			if seen.Lost+seen.Dropped > 0 {
				t.Errorf("%s: %d calls and %d handshakes were lost", name, seen.Lost, seen.Dropped)
			}
			worst[name] = seen
		}
		for _, name := range []string{"hone http", "hone frames"} {
			ratios[name] = append(ratios[name], float64(worst[name].Storm99)/float64(worst["net/http"].Storm99))
		}
	}
	for name, all := range ratios {
		slices.Sort(all)
		t.Logf("%s: p99 beside handshakes is %.2f of net/http's (%.2f to %.2f)", name, all[1], all[0], all[2])
		if all[1] > 2 {
			t.Errorf("%s: more than twice", name)
		}
	}
}

// playNetHTTP serves what hone serve --service http does, with net/http.
func playNetHTTP() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(os.Stdout).Encode(serving.Ready{Addr: ln.Addr().String()})
	log.Fatal(http.ServeTLS(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello, World!\n") }), "cert.pem", "key.pem"))
}

// playStormCalls asks on busy connections, first alone and then beside handshakes.
func playStormCalls() {
	addr, frames := os.Args[1], os.Args[2] == "hone frames"
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	var seen beside
	var mu sync.Mutex
	var phase atomic.Int32
	var times [3][]int64
	var shakes []int64
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range busyClients {
		nc, err := tls.Dial("tcp", addr, config)
		if err != nil {
			log.Fatal(err)
		}
		ask := askHTTP(nc)
		if frames {
			c := framed.NewClient(nc, framed.ClientOptions{})
			ask = func() error {
				_, err := c.Call(context.Background(), nil, []byte("storm"))
				return err
			}
		}
		all.Go(func() {
			for ctx.Err() == nil {
				<-time.After(rand.N(2 * busyPause))
				began := time.Now()
				err := ask()
				took := time.Since(began).Microseconds()
				mu.Lock()
				times[phase.Load()] = append(times[phase.Load()], took)
				seen.Asked++
				if err != nil {
					seen.Lost++
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	<-time.After(busyTime / 4)
	phase.Store(1)
	<-time.After(busyTime)
	phase.Store(0)
	pace := time.NewTicker(shakesEvery)
	began := time.Now()
	for n := 0; time.Since(began) < busyTime*5/4; <-pace.C {
		if time.Since(began) > busyTime/4 {
			phase.Store(2)
		}
		for ; n < int(time.Since(began)/shakesEvery); n++ { // late ones at once
			all.Go(func() {
				began := time.Now()
				nc, err := tls.Dial("tcp", addr, config)
				took := time.Since(began).Microseconds()
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					seen.Dropped++
					return
				}
				seen.Made++
				shakes = append(shakes, took)
				nc.Close()
			})
		}
	}
	pace.Stop()
	phase.Store(0)
	stop()
	all.Wait()
	seen.Quiet50, seen.Quiet99 = part(times[1], 50), part(times[1], 99)
	seen.Storm50, seen.Storm99 = part(times[2], 50), part(times[2], 99)
	seen.Handshake99 = part(shakes, 99)
	json.NewEncoder(os.Stdout).Encode(seen)
}

func part(all []int64, percent int) int64 {
	slices.Sort(all)
	return all[len(all)*percent/100]
}

func askHTTP(nc net.Conn) func() error {
	in := bufio.NewReader(nc)
	return func() error {
		if _, err := io.WriteString(nc, "GET /hello HTTP/1.1\r\nHost: server\r\n\r\n"); err != nil {
			return err
		}
		answer, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		return err
	}
}
