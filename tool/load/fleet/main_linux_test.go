package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/wire"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

const version = "test"

// TestMain runs the tests, or plays an agent in a process of its own.
func TestMain(m *testing.M) {
	role := os.Getenv("HONE_TEST_ROLE")
	if role == "" {
		testrun.SideBySide(12)
		goleak.VerifyTestMain(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := play(ctx, role)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context, role string) error {
	switch role {
	case "nats":
		a := testAgent(os.Getenv("HONE_TEST_CLOCK"))
		a.Name = os.Getenv("HONE_TEST_NAME")
		return a.NATS(ctx, testNATS(os.Getenv("HONE_TEST_URL")), false)
	}
	return errors.New("there is no role " + role)
}

// testJob is what the plans of these tests are made of.
type testJob struct {
	Address  string
	Conns    int
	Rate     float64
	Poisson  bool
	Requests int64
	For      time.Duration
	Warmup   time.Duration
	Sizes    string
	MaxLag   time.Duration
	Padding  string
}

func (j testJob) text() []byte {
	text, _ := json.Marshal(j)
	return text
}

func prepare(text []byte) (load.Plan, error) {
	var j testJob
	if err := json.Unmarshal(text, &j); err != nil {
		return load.Plan{}, err
	}
	p := load.Plan{
		Target: codec.Frames{Address: j.Address}, Conns: j.Conns, Rate: j.Rate, Requests: j.Requests, For: j.For, Warmup: j.Warmup,
		Echo: true, Seed: 5, MaxLag: j.MaxLag,
	}
	if j.Poisson {
		p.Arrivals = load.Poisson
	}
	if j.Sizes != "" {
		if err := p.Sizes.UnmarshalText([]byte(j.Sizes)); err != nil {
			return p, err
		}
	}
	return p, nil
}

// testAgent is an agent whose clock runs at some rate.
func testAgent(rate string) *Agent {
	a := &Agent{Version: version, Prepare: prepare}
	if rate, err := strconv.ParseFloat(rate, 64); err == nil {
		base := time.Now()
		a.clock = func() time.Time { return base.Add(time.Hour + time.Duration(rate*float64(time.Since(base)))) }
	}
	return a
}

// agentsOf starts a NATS server and agents 1, 2, …; that of number slow has a slow clock.
func agentsOf(t *testing.T, count, slow int) (from *NATS, pids []int) {
	t.Helper()
	address, _ := natsServer(t, "")
	for i := range count {
		clock := ""
		if i == slow {
			clock = "0.97"
		}
		pids = append(pids, natsAgent(t, strconv.Itoa(i+1), address, "HONE_TEST_CLOCK="+clock))
	}
	from = testNATS("nats://" + address)
	from.Count, from.Wait = count, patience
	return from, pids
}

// fleetOf is a fleet for a job.
func fleetOf(t *testing.T, j testJob, from *NATS) *Fleet {
	t.Helper()
	plan, err := prepare(j.text())
	if err != nil {
		t.Fatal(err)
	}
	return &Fleet{Plan: plan, Job: j.text(), Version: version, From: from}
}

// target answers frames, and knows what it was asked: by connection number of the load.
type target struct {
	ln     net.Listener
	before func()

	mu    sync.Mutex
	sizes map[int][]int // by connection number
}

// serve starts one.
func serve(t *testing.T, before func()) *target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &target{ln: ln, before: before, sizes: make(map[int][]int)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.answer(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		all.Wait()
	})
	return s
}

func (s *target) answer(nc net.Conn) {
	defer nc.Close()
	in, held := make([]byte, 256<<10), 0
	for {
		n, err := nc.Read(in[held:])
		if err != nil {
			return
		}
		held += n
		if s.before != nil {
			s.before()
		}
		var out []byte
		rest := in[:held]
		for len(rest) > 0 {
			payload, need, err := wire.Frame(rest, len(in))
			if err != nil {
				return
			}
			if need > 0 {
				break
			}
			p, err := wire.Parse(payload)
			if err != nil {
				return
			}
			s.note(p)
			out = wire.Append(out, wire.Packet{Command: wire.SubmitAck, ID: p.ID, Content: p.Content})
			rest = rest[wire.HeaderSize+len(payload):]
		}
		held = copy(in, rest)
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

func (s *target) note(p wire.Packet) {
	if s.before != nil {
		return // nobody asks
	}
	number := int(p.ID >> 16 & 0xffff)
	s.mu.Lock()
	s.sizes[number] = append(s.sizes[number], len(p.Content))
	s.mu.Unlock()
}

// asked are the sizes of the requests by their number.
func (s *target) asked(conns int) map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[int]int)
	for number, sizes := range s.sizes {
		for i, size := range sizes {
			all[i*conns+number] = size
		}
	}
	return all
}

// onlyBusy reports whether a result is valid, or not for lack of a quiet machine alone.
func onlyBusy(r *load.Result) bool {
	for _, reason := range r.InvalidReasons {
		if !strings.Contains(reason, "give it CPUs of its own") && !strings.Contains(reason, "give it more CPUs") && !strings.Contains(reason, "answered in time") &&
			!strings.Contains(reason, "has a clock offset that is known only to within") {
			return false
		}
	}
	return true
}

func sizesOf(t *testing.T, text string) (s offer.Sizes) {
	t.Helper()
	if err := s.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

// measured reports whether so many agents have told of what they measured.
func measured(all []Now, count int) bool {
	return len(all) == count && !slices.ContainsFunc(all, func(a Now) bool { return a.P50 == nil })
}

// textOf is an error's wording, which these tests are about; empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
