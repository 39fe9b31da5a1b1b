// Avatar measures what a request for a cached avatar costs a server: hone's service, the last
// stage of the article about such a service, and the same bytes served by others. Each server is a process of its own on one CPU, the client
// is on another; the servers take turns, round by round.
//
//	go run ./bench/avatar             what hone has to reach, and whether it does
//	go run ./bench/avatar -all        beside more servers
//	go run ./bench/avatar -flood      healthy clients beside a flood of new names
//
// It prints the median of the rounds in µs of server CPU for a request, and how many
// requests hone answers for the CPU that the other takes for one, the median of the
// rounds' ratios. When a goal is missed it ends with code 3; make timing tries three times.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/tool/child"
)

// settings are how long and how often is measured.
type settings struct {
	all           bool
	server        string // that is flooded
	rounds, conns int
	warm, lap     time.Duration
	// regress is the part of a goal below which TestTiming fails: other programs on the
	// machine move the figures. Zero: all of it.
	regress float64
}

// least is what a goal of so much must reach.
func (s settings) least(goal float64) float64 {
	if s.regress > 0 {
		return goal * s.regress
	}
	return goal
}

func main() {
	serveName := flag.String("serve", "", "be the server of this `name`, until standard input ends")
	asClient := flag.Bool("client", false, "be the client, until standard input ends")
	var s settings
	flag.BoolVar(&s.all, "all", false, "measure beside all servers")
	flag.IntVar(&s.rounds, "rounds", 15, "how often each server is measured")
	flag.IntVar(&s.conns, "c", 100, "connections")
	flag.DurationVar(&s.warm, "warm", 200*time.Millisecond, "before each lap")
	flag.DurationVar(&s.lap, "lap", 700*time.Millisecond, "how long a lap is; with -flood at most 500ms")
	flooding := flag.Bool("flood", false, "measure healthy clients beside a flood of new names instead")
	flag.StringVar(&s.server, "of", "hone", "the `server` that -flood floods")
	asFlooder := flag.Bool("flooder", false, "be the flood, until standard input ends")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	switch {
	case *serveName != "":
		err = serve(*serveName)
	case *asClient:
		err = drive.Obey(ctx, os.Stdin, os.Stdout)
	case *asFlooder:
		err = obeyFlooding(ctx, os.Stdin, os.Stdout)
	case *flooding:
		err = flood(ctx, s)
	default:
		err = measure(ctx, s)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "avatar:", err)
		os.Exit(map[bool]int{false: 1, true: 3}[errors.Is(err, errMissed)])
	}
}

// errMissed says that everything was measured, and is not as it is wanted.
var errMissed = errors.New("goals were missed")

// contender is a server that runs.
type contender struct {
	entry
	addr  string
	order drive.Order
	costs []float64 // µs of CPU for a request, a round each
}

// ready is what a server says when it listens.
type ready struct {
	Addr string `json:"addr"`
}

// say prints it.
func say(addr string) error {
	return json.NewEncoder(os.Stdout).Encode(ready{addr})
}

const patience = 20 * time.Second

// goal is a ratio that has to be reached: requests for the same CPU.
type goal struct {
	of, to string
	least  float64
}

func goals() []goal {
	return []goal{
		{"hone", "article", 1.8}, {"hone", "echo", 1.8}, {"hone", "hello", 0.75},
	}
}

// taking are the servers that take part.
func (s settings) taking() []entry {
	return slices.DeleteFunc(servers(), func(e entry) bool {
		return !s.all && !slices.ContainsFunc(goals(), func(g goal) bool { return g.of == e.name || g.to == e.name })
	})
}

func measure(ctx context.Context, s settings) error {
	cpus, err := fleet.CPUs()
	if err != nil {
		return err
	}
	want, err := images()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	asker, err := fleet.Spawn(ctx, cpus[len(cpus)-1], []string{"GOMAXPROCS=1"}, program, "-client")
	if err != nil {
		return err
	}
	defer asker.Stop()
	var all []*contender
	for _, e := range s.taking() {
		c, end, err := start(ctx, e, cpus[0])
		if err != nil {
			return err
		}
		defer end()
		c.order.Load.Conns, c.order.Load.Warmup, c.order.Load.Window = s.conns, s.warm, s.lap
		if e.path == targetOf(0) && !slices.Equal(c.order.HTTP.Body, want[nameOf(0)+".png/"+fmt.Sprint(side)].body) {
			return fmt.Errorf("%s sends another picture than hone", e.name)
		}
		all = append(all, c)
	}
	var others []float64
	for round := range s.rounds {
		for i := range all { // the order turns, so that nobody is always first
			c := all[(i+round)%len(all)]
			f, err := c.lap(ctx, asker)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.costs = append(c.costs, *f.CPU)
			others = append(others, *f.Others)
		}
	}
	return print(all, s, report.SpreadOf(others).Median)
}

// start starts a server, and makes the order to ask it for its picture.
func start(ctx context.Context, e entry, cpu int) (*contender, func(), error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	p, err := fleet.Spawn(ctx, cpu, []string{"GOMAXPROCS=1"}, program, "-serve", e.name)
	if err != nil {
		return nil, nil, err
	}
	end := func() { p.Stop() }
	var r ready
	if err := p.Answer(ctx, patience, &r); err != nil {
		end()
		return nil, nil, fmt.Errorf("%s: %w: %s", e.name, err, p.Said())
	}
	body, err := fetch("http://" + r.Addr + e.path)
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("%s: %w", e.name, err)
	}
	order := e.order(r.Addr, body)
	order.Load.PID = p.PID
	return &contender{entry: e, addr: r.Addr, order: order}, end, nil
}

// order is how a server is asked for its picture, as a browser asks.
func (e entry) order(addr string, body []byte) drive.Order {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: image/png,image/*;q=0.8\r\nAccept-Encoding: gzip\r\n\r\n", e.path, addr)
	return drive.Order{Addr: addr, HTTP: &drive.Picked{Request: request, Body: body}, Load: &drive.Load{Depth: 1}}
}

// retakes is how often a lap may be taken again because the rest of the machine has kept
// the client from it.
const retakes = 5

// lap has the client load the server once.
func (c *contender) lap(ctx context.Context, asker *child.Child) (*drive.Figure, error) {
	line, err := json.Marshal(c.order)
	if err != nil {
		return nil, err
	}
	for again := 0; ; again++ {
		var r drive.Report
		if err := asker.Ask(ctx, string(line), patience, &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, asker.Said())
		}
		switch {
		case r.Error == "" && r.Load != nil && r.Load.CPU != nil && len(r.Load.Doubts) == 0:
			return r.Load, nil
		case again == retakes:
			return nil, fmt.Errorf("no figure: %s %+v", r.Error, r.Load)
		}
	}
}

// fetch is what a URL has.
func fetch(url string) ([]byte, error) {
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

func print(all []*contender, s settings, others float64) (missed error) {
	fmt.Printf("%d connections, %d rounds of %v; what went to neither side: %.2f of a CPU (median)\n\n", s.conns, s.rounds, s.lap, others)
	fmt.Println("| server | µs CPU/request | requests of hone for one of it | of hone with its log |")
	fmt.Println("|---|---|---|---|")
	find := func(name string) *contender {
		return all[slices.IndexFunc(all, func(c *contender) bool { return c.name == name })]
	}
	for _, c := range all {
		fmt.Printf("| %s | %.2f (%.2f–%.2f) | %.2f | %.2f |\n", c.name, report.SpreadOf(c.costs).Median, slices.Min(c.costs), slices.Max(c.costs),
			ratio(c, find("hone")), ratio(c, find("hone+log")))
	}
	fmt.Println()
	for _, g := range goals() {
		got, verdict := ratio(find(g.to), find(g.of)), "reached"
		if got < g.least {
			verdict = "MISSED"
		}
		if got < s.least(g.least) {
			missed = errMissed
		}
		fmt.Printf("%s: requests for the CPU of one of %s: %.2f, at least %.2f wanted: %s\n", g.of, g.to, got, g.least, verdict)
	}
	return missed
}

// ratio is how many requests own answers for the CPU that one takes of other.
func ratio(other, own *contender) float64 {
	var all []float64
	for round := range own.costs {
		all = append(all, other.costs[round]/own.costs[round])
	}
	return report.SpreadOf(all).Median
}
