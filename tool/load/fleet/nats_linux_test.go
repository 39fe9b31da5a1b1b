package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
)

const testToken = "0123456789abcdef0123456789abcdef"

func testNATS(url string) *NATS { return &NATS{URL: url, Token: testToken} }

// natsServer starts a real NATS server, and returns its address and its process.
func natsServer(t *testing.T, settings string) (address string, pid int) {
	t.Helper()
	url, pid := natstest.Run(t, settings)
	return strings.TrimPrefix(url, "nats://"), pid
}

// natsAgent starts an agent in a process of its own, to be ended with the test.
func natsAgent(t *testing.T, name, address string, more ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=nats", "HONE_TEST_NAME="+name, "HONE_TEST_URL=nats://"+address)
	cmd.Env = append(cmd.Env, more...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// proxy is between an agent and its NATS server, until it is cut, or passes nothing more.
type proxy struct {
	ln      net.Listener
	blocked atomic.Bool
	slow    atomic.Bool // 4 KiB each 5 ms
	mu      sync.Mutex
	conns   []net.Conn
	over    chan struct{}
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, over: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, a, b)
			p.mu.Unlock()
			all.Go(func() { p.pass(a, b) })
			all.Go(func() { p.pass(b, a) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		close(p.over)
		p.cut()
		all.Wait()
	})
	return p
}

func (p *proxy) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 4<<10)
	each := time.NewTicker(5 * time.Millisecond)
	defer each.Stop()
	for {
		n, err := from.Read(buffer)
		if p.slow.Load() {
			<-each.C
		}
		if p.blocked.Load() {
			<-p.over // and both ends take it for a slow network
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// Whatever happens to agents, or to what is between, is found within 3 s, named and not valid.
func TestFleetOverNATS(t *testing.T) {
	t.Parallel()
	if !testrun.All() && testing.Short() {
		t.Skip("builds a NATS server; HONE_TEST_ALL=1 runs it")
	}
	for name, c := range map[string]struct {
		settings string
		hurt     func(server, agent int, between, own *proxy) // the agent's proxy and the coordinator's
		want     string                                       // empty: valid
	}{
		"good":             {"", nil, ""},
		"small messages":   {"max_payload: 2048", nil, ""},
		"stopped":          {"", func(_, agent int, _, _ *proxy) { _ = syscall.Kill(agent, syscall.SIGSTOP) }, "agent b has been silent for 2.5s"},
		"killed":           {"", func(_, agent int, _, _ *proxy) { _ = syscall.Kill(agent, syscall.SIGKILL) }, "agent b has been silent for 2.5s"},
		"blocked":          {"", func(_, _ int, b, _ *proxy) { b.blocked.Store(true) }, "agent b has been silent for 2.5s"},
		"cut":              {"", func(_, _ int, b, _ *proxy) { b.cut() }, "agent b has been silent for 2.5s"},
		"blocked for us":   {"", func(_, _ int, _, own *proxy) { own.blocked.Store(true) }, "agent a has been silent for 2.5s"},
		"cut off from us":  {"", func(_, _ int, _, own *proxy) { own.cut() }, "agent a is lost: the connection to NATS is lost"},
		"server killed":    {"", func(server, _ int, _, _ *proxy) { _ = syscall.Kill(server, syscall.SIGKILL) }, "agent a is lost: the connection to NATS is lost"},
		"server's stopped": {"", func(server, _ int, _, _ *proxy) { _ = syscall.Kill(server, syscall.SIGSTOP) }, "agent a has been silent for 2.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(name, "stopped") && !testrun.All() {
				t.Skip("a stopped process is as silent as a blocked connection; HONE_TEST_ALL=1 runs it")
			}
			s := serve(t, nil)
			address, server := natsServer(t, c.settings)
			between, own := newProxy(t, address), newProxy(t, address)
			var agent int
			for _, one := range []string{"a", "b", "c"} {
				if one == "b" {
					agent = natsAgent(t, one, between.ln.Addr().String())
				} else {
					natsAgent(t, one, address)
				}
			}
			j := testJob{Address: s.ln.Addr().String(), Conns: 6, Rate: 150, Poisson: true, For: 20 * time.Second, Warmup: -1, MaxLag: time.Minute}
			if c.want == "" {
				j.For = 2 * time.Second
			}
			from := testNATS("nats://" + own.ln.Addr().String())
			from.Count, from.Wait = 3, patience
			f := fleetOf(t, j, from)
			var hurt time.Time
			f.Told = func(all []Now) {
				if c.hurt != nil && hurt.IsZero() && measured(all, 3) {
					hurt = time.Now()
					c.hurt(server, agent, between, own)
				}
			}
			r, err := f.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if !onlyBusy(r) || r.Requests < 250 || len(r.Agents) != 3 || r.Agents[1].Name != "b" {
					t.Errorf("%q: %+v", r.InvalidReasons, r.Agents)
				}
				checkWhole(t, r)
				return
			}
			took := time.Since(hurt)
			t.Logf("the run ended %v after that: %q", took.Round(time.Millisecond), r.InvalidReasons)
			if r.Valid || !strings.HasPrefix(strings.Join(r.InvalidReasons, "\n"), c.want) || r.Requests == 0 {
				t.Errorf("valid %v: %q", r.Valid, r.InvalidReasons)
			}
			if took > 2*slower*(3*time.Second+lastWords) {
				t.Errorf("the run ended %v after that", took)
			}
		})
	}
	t.Run("slow network", func(t *testing.T) {
		t.Parallel()
		address, _ := natsServer(t, "")
		between := newProxy(t, address)
		between.slow.Store(true)
		natsAgent(t, "a", between.ln.Addr().String())
		from := testNATS("nats://" + address)
		from.Count, from.Wait = 1, patience
		s := serve(t, nil)
		j := testJob{Address: s.ln.Addr().String(), Conns: 2, Rate: 200, For: time.Second, Warmup: -1, MaxLag: time.Minute, Padding: strings.Repeat("x", 2<<20)}
		if r, err := fleetOf(t, j, from).Run(t.Context()); err != nil || r.Requests != 200 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		refusedByNATS(t)
	})
	t.Run("strangers", func(t *testing.T) {
		t.Parallel()
		strangersOverNATS(t)
	})
	t.Run("orphans", func(t *testing.T) {
		t.Parallel()
		orphansOverNATS(t)
	})
}

// What cannot work says what to do.
func refusedByNATS(t *testing.T) {
	address, _ := natsServer(t, "max_payload: 512\nauthorization { }")
	closed, _ := natsServer(t, "authorization { user: a, password: b }")
	s := serve(t, nil)
	j := testJob{Address: s.ln.Addr().String(), Conns: 2}
	free, _ := natsServer(t, "")
	for want, n := range map[string]*NATS{
		"raise its max_payload":                                     testNATS("nats://" + address),
		"Authorization Violation; start":                            testNATS("nats://" + closed),
		"start a NATS server there":                                 testNATS("nats://127.0.0.1:1"),
		"is not a NATS URL; write":                                  testNATS("http://127.0.0.1:1"),
		"which others can read; use a":                              testNATS("nats://a:b@127.0.0.1:1"),
		"the token has 5 bytes; use 16":                             {URL: "nats://" + free, Token: "short"},
		"only 0 of 1 agents have joined within ":                    {URL: "nats://" + free, Token: testToken, Wait: time.Second / 5},
		"start one on each machine with: hone agent nats://" + free: {URL: "nats://" + free, Token: testToken, Wait: time.Second / 5},
		"only 0 of 2 agents have joined within 200ms; ":             {URL: "nats://" + free, Token: testToken, Wait: time.Second / 5, Count: 2},
	} {
		if _, err := fleetOf(t, j, n).Run(t.Context()); !strings.Contains(textOf(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := testAgent("").NATS(t.Context(), testNATS("nats://"+closed), true); !strings.Contains(textOf(err), "Authorization Violation") {
		t.Errorf("the agent: %v", err)
	}
}

// Who does not have the token can neither steer an agent nor read what it does, whatever
// is sent on the subjects, and does not disturb.
func strangersOverNATS(t *testing.T) {
	address, _ := natsServer(t, "")
	stranger, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	var mu sync.Mutex
	var heard [][]byte
	subjects := make(map[string]bool)
	if _, err := stranger.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		heard = append(heard, slices.Clone(m.Data))
		again := !subjects[m.Subject] && len(subjects) < 100
		subjects[m.Subject] = true
		mu.Unlock()
		if again {
			for _, said := range []string{"", "x", `{"Stop":true}`, `{"Job":{"Of":1}}`, `{"Run":"00000000000000000000000000000000"}`} {
				_ = stranger.Publish(m.Subject, []byte(said)) // it is heard again, once
			}
			_ = stranger.Publish(m.Subject, m.Data) // a replay
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	natsAgent(t, "a", address)
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		n := testNATS("nats://" + address)
		n.Token = "another token, which is as long"
		a := testAgent("")
		a.Prepare = func([]byte) (load.Plan, error) {
			t.Error("an agent of another token has been given a part")
			return load.Plan{}, nil
		}
		_ = a.NATS(ctx, n, true) // it is interrupted
	})
	defer other.Wait()
	defer cancel()
	s := serve(t, nil)
	from := testNATS("nats://" + address)
	from.Count, from.Wait = 1, patience
	f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 2, Rate: 500, For: time.Second, Warmup: -1, MaxLag: time.Minute}, from)
	r, err := f.Run(t.Context())
	if err != nil || !onlyBusy(r) || r.Requests != 500 {
		t.Errorf("%+v, %v", r, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(heard) < 10 {
		t.Errorf("the stranger has heard %d messages only", len(heard))
	}
	for _, text := range heard {
		if bytes.Contains(text, []byte(s.ln.Addr().String())) || bytes.Contains(text, []byte("Hello\":")) {
			t.Errorf("a stranger can read %q", text)
		}
	}
}

// An agent's load ends soon after its coordinator, and the agent waits for the next.
func orphansOverNATS(t *testing.T) {
	address, _ := natsServer(t, "")
	s := serve(t, nil)
	said := make(chan string, 16)
	ctx, cancel := context.WithCancel(t.Context())
	a := testAgent("")
	a.Said = func(line string) { said <- line }
	var agent sync.WaitGroup
	agent.Go(func() { _ = a.NATS(ctx, testNATS("nats://"+address), false) }) // it is interrupted
	defer agent.Wait()
	defer cancel()
	through := newProxy(t, address)
	from := testNATS("nats://" + through.ln.Addr().String())
	from.Count, from.Wait = 1, patience
	f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 2, Rate: 500, For: 20 * time.Second, Warmup: -1, MaxLag: time.Minute}, from)
	var cut time.Time
	f.Told = func(all []Now) {
		if len(all) == 1 && all[0].Phase == load.Measuring && cut.IsZero() {
			cut = time.Now()
			through.blocked.Store(true)
		}
	}
	if r, err := f.Run(t.Context()); err != nil || r.Valid {
		t.Errorf("%+v, %v", r, err)
	}
	for {
		select {
		case line := <-said:
			if strings.HasPrefix(line, "a run has ended early: the coordinator has been silent for 2.5s") {
				if took := time.Since(cut); took > slower*3*time.Second {
					t.Errorf("it has taken %v", took)
				}
				again := testNATS("nats://" + address)
				again.Count, again.Wait = 1, patience
				f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 2, Rate: 500, For: time.Second / 2, Warmup: -1, MaxLag: time.Minute}, again)
				if r, err := f.Run(t.Context()); err != nil || r.Requests != 250 {
					t.Errorf("the next run: %+v, %v", r, err)
				}
				return
			}
		case <-time.After(patience):
			t.Fatal("the load goes on without its coordinator")
		}
	}
}

// Letters are whole, in order and of this run, or they end.
func TestLetters(t *testing.T) {
	sealed, err := newSeal(testToken)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{seal: sealed, inbox: make(map[string]*letters)}
	chunk := func(subject string, number uint64, last byte, text string) []byte {
		return sealed.close(subject, append(append(binary.BigEndian.AppendUint64(nil, number), last), text...))
	}
	l := s.letters("up", "down")
	for _, sent := range [][]byte{
		nil, []byte("hello"), chunk("other", 0, 1, "of another run"), sealed.close("down", []byte("short")),
		chunk("down", 0, 0, "one "), chunk("down", 0, 0, "one "), chunk("down", 1, 1, "message"), chunk("down", 1, 1, "message"), chunk("down", 2, 1, "two"),
		chunk("down", 4, 1, "four"),
	} {
		l.put(sent)
	}
	for _, want := range []string{"one message", "two"} {
		if text, err := l.Receive(); err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
	if text, err := l.Receive(); !strings.Contains(textOf(err), "1 messages were lost") {
		t.Errorf("%q, %v", text, err)
	}
	l = s.letters("up", "down")
	for range 5 * mostQueued {
		l.put([]byte("a stranger's"))
	}
	l.put(chunk("down", 0, 1, "hello"))
	if text, err := l.Receive(); err != nil || string(text) != "hello" {
		t.Errorf("strangers disturb: %q, %v", text, err)
	}
	for number := range uint64(5 * mostQueued) { // nobody reads
		l.put(chunk("down", 1+number, 1, "x"))
	}
	err = nil
	for range 5 * mostQueued {
		if _, err = l.Receive(); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("what was lost is not noticed")
	}
	other, err := newSeal(testToken + "x")
	if err != nil || other.group == sealed.group {
		t.Errorf("two tokens have the group %s, %v", other.group, err)
	}
	if _, err := other.open("down", chunk("down", 0, 1, "x")); !errors.Is(err, errSeal) {
		t.Errorf("another token opens it: %v", err)
	}
}
