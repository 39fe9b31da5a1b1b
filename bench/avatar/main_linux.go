// Avatar measures what a request for a cached avatar costs a server: hone's
// service, with its access log and without, and the same bytes served by others.
// Each server is a process of its own on one CPU; they take turns, round by round.
//
//	go run ./bench/avatar
//	go run ./bench/avatar -abuse -c 8 -lap 5s -rounds 8
//
// It prints the median of the rounds in µs of server CPU for a request, the
// least and the most, the median of each round's ratio to hone's, and how busy
// other processes kept the machine meanwhile. With -abuse it says how long healthy
// clients of hone's service wait beside strangers who are none.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/tool/child"
)

// settings are how long and how often is measured.
type settings struct {
	only          string
	rounds, conns int
	warm, lap     time.Duration
}

func main() {
	serveName := flag.String("serve", "", "be the server of this `name`, until standard input ends")
	var s settings
	flag.StringVar(&s.only, "only", "", "measure hone and these, as `a,b`; empty: all")
	flag.IntVar(&s.rounds, "rounds", 25, "how often each server is measured")
	flag.IntVar(&s.conns, "c", 32, "connections")
	flag.DurationVar(&s.warm, "warm", 100*time.Millisecond, "before each lap")
	flag.DurationVar(&s.lap, "lap", 400*time.Millisecond, "how long a lap is")
	strangers := flag.Bool("abuse", false, "measure healthy clients beside -c strangers instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	measure := measure
	if *strangers {
		measure = abuse
	}
	var err error
	if *serveName != "" {
		err = serve(*serveName)
	} else {
		err = measure(ctx, s)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "avatar:", err)
		os.Exit(1)
	}
}

// contender is a server that runs.
type contender struct {
	name  string
	child *child.Child
	addr  string
	costs []float64 // µs of CPU for a request, a round each
	rates []float64 // requests a second
}

// ready is what a server says when it listens.
type ready struct {
	Addr string `json:"addr"`
}

func measure(ctx context.Context, s settings) error {
	cpus, err := fleet.CPUs()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	want, err := images()
	if err != nil {
		return err
	}
	var all []*contender
	for i, name := range names() {
		if i > 0 && s.only != "" && !slices.Contains(strings.Split(s.only, ","), name) {
			continue
		}
		c, err := fleet.Spawn(ctx, cpus[0], []string{"GOMAXPROCS=1"}, program, "-serve", name)
		if err != nil {
			return err
		}
		defer c.Stop()
		var r ready
		if err := c.Answer(ctx, 20*time.Second, &r); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, c.Said())
		}
		if err := verify(r.Addr, want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, &contender{name: name, child: c, addr: r.Addr})
	}
	idleBefore, n, err := fleet.IdleCPU()
	if err != nil {
		return err
	}
	began, ours := time.Now(), ownCPU(all)
	for round := range s.rounds {
		for i := range all { // the order turns, so that nobody is always first
			if err := lap(ctx, all[(i+round)%len(all)], s); err != nil {
				return err
			}
		}
	}
	idleAfter, _, err := fleet.IdleCPU()
	if err != nil {
		return err
	}
	others := time.Since(began)*time.Duration(n) - (idleAfter - idleBefore) - (ownCPU(all) - ours)
	print(all, s, others.Seconds()/time.Since(began).Seconds())
	return nil
}

// ownCPU is what this process and the servers have used.
func ownCPU(all []*contender) time.Duration {
	sum, _ := fleet.ProcessCPU(os.Getpid())
	for _, c := range all {
		used, _ := fleet.ProcessCPU(c.child.PID)
		sum += used
	}
	return sum
}

// lap measures one server once.
func lap(ctx context.Context, c *contender, s settings) error {
	if _, err := drive(ctx, c.addr, s.conns, s.warm); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	before, err := fleet.ProcessCPU(c.child.PID)
	if err != nil {
		return err
	}
	began := time.Now()
	n, err := drive(ctx, c.addr, s.conns, s.lap)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	took := time.Since(began)
	after, err := fleet.ProcessCPU(c.child.PID)
	if err != nil {
		return err
	}
	c.costs = append(c.costs, float64((after-before).Nanoseconds())/1e3/float64(n))
	c.rates = append(c.rates, float64(n)/took.Seconds())
	return nil
}

func print(all []*contender, s settings, others float64) {
	fmt.Printf("%d connections, %d rounds of %v, others used %.2f CPUs meanwhile\n\n", s.conns, s.rounds, s.lap, others)
	fmt.Println("| server | µs CPU/request | to hone | requests/s |")
	fmt.Println("|---|---|---|---|")
	for _, c := range all {
		ratios := make([]float64, len(c.costs))
		for round, cost := range c.costs {
			ratios[round] = cost / all[0].costs[round]
		}
		fmt.Printf("| %s | %.2f (%.2f–%.2f) | %.3f | %.0f |\n", c.name,
			median(c.costs), slices.Min(c.costs), slices.Max(c.costs), median(ratios), median(c.rates))
	}
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// say prints the line that makes a server ready.
func say(addr string) error {
	return json.NewEncoder(os.Stdout).Encode(ready{addr})
}
