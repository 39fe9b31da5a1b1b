// Command peers compares hone with other Go servers, load generators and routers. Each row of the comparison is
// measured by itself and stored in bench/results; a row whose servers have not changed since is left out.
//
//	go run ./bench/cmd/peers run                  every row, in up to two hours
//	go run ./bench/cmd/peers run frames http/TLS  some rows, or groups of rows
//	go run ./bench/cmd/peers run -quick -print A  a smoke test, whose figures mean nothing
//	go run ./bench/cmd/peers faults               hone torture against each server
//	go run ./bench/cmd/peers tables               makes tables and the picture from bench/results
//	go run ./bench/cmd/peers versions             writes when versions were released into bench/results/versions.json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/generators"
	"github.com/hone-go/hone/bench/race"
	"github.com/hone-go/hone/bench/routes"
	"github.com/hone-go/hone/bench/table"
)

// The exit codes that scripts may count on, as hone's own.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInvalid     = 4
	exitInterrupted = 130
)

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
}

// Error returns the line.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

func usage(err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &failure{exitUsage, err}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) { // the flags have been printed
		return
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	code := exitFailed
	if f := new(failure); errors.As(err, &f) {
		code = f.code
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "run":
		return measure(ctx, args[1:], stdout, stderr)
	case "faults":
		return attack(ctx, args[1:], stderr)
	case "tables", "versions":
		return publish(ctx, args[0], args[1:], stderr)
	case "stalls":
		return stalls(args[1:], stdin, stdout)
	}
	return usage(errors.New("say what to do: run, faults, tables or versions; run -h lists its flags"))
}

// stalls is the server of the load generators; its arguments are the period and the stall.
func stalls(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return usage(errors.New("stalls takes a period and a stall"))
	}
	period, errPeriod := time.ParseDuration(args[0])
	stall, errStall := time.ParseDuration(args[1])
	if err := errors.Join(errPeriod, errStall); err != nil {
		return usage(err)
	}
	return generators.Serve(stdin, stdout, period, stall)
}

// every row that there is.
func every() []race.Row { return append(race.Rows(), generators.Row(), routes.Row()) }

// choose returns the rows and groups of those names; all without names.
func choose(names []string) (chosen []race.Row, err error) {
	var known []string
	for _, row := range every() {
		known = append(known, row.Name)
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return row.Name == name || strings.HasPrefix(row.Name, name+"/") }) {
			chosen = append(chosen, row)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(known, func(k string) bool { return k == name || strings.HasPrefix(k, name+"/") }) {
			return nil, usage(fmt.Errorf("there is no row %q; there are %s", name, strings.Join(known, ", ")))
		}
	}
	return chosen, nil
}

// rowTime is how long a row may take.
const rowTime = 6 * time.Minute

// measure measures rows and stores each as soon as it is there.
func measure(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	g := &race.Ground{Window: time.Second, Warmup: 300 * time.Millisecond, Quiet: 6 * time.Second, Retakes: 40, Addr: "127.0.0.1:9400", Log: stderr, Say: stopwatch(stderr)}
	quick := f.Bool("quick", false, "a smoke test: one round, short, small; its figures mean nothing, and it stores nothing")
	print := f.Bool("print", false, "print the rows and store nothing")
	again := f.Bool("again", false, "also measure rows that are stored, and whose servers have not changed")
	rounds := f.Int("rounds", 0, "how often to measure each server; 0: as often as the row wants")
	servers := f.String("servers", "", "measure these servers only, with commas between")
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()), "of the order; the same seed, the same order")
	if err := f.Parse(args); err != nil {
		return usage(err)
	}
	rows, err := choose(f.Args())
	if err != nil {
		return err
	}
	if *quick {
		g.Window, g.Warmup, g.Quiet, *rounds, *print = 150*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 1, true
		if g.Addr, err = fleet.FreeAddr(); err != nil { // another program may be at the usual one
			return err
		}
	}
	module, end, err := prepare(ctx, g)
	if err != nil {
		return err
	}
	defer end()
	results := filepath.Join(module, "results")
	stored, err := table.Load(results)
	if err != nil {
		return err
	}
	var invalid []string
	machine := table.ThisMachine(ctx, module) // before a row is stored, which changes the tree
	for _, row := range rows {
		file := filepath.Join(results, filepath.FromSlash(row.Name)+".toml")
		if before, _ := os.ReadFile(file); !*again && !*print && string(before) == row.File(g) && stored.Current(ctx, row.Name, module) {
			g.Say(row.Name + " is stored, and what it measures has not changed; -again measures it")
			continue
		}
		packages, err := fleet.Packages(ctx, module, row.Servers)
		if err != nil {
			return err
		}
		if row.Servers, err = fleet.Build(ctx, module, g.Dir, fleet.Choose(row.Servers, strings.FieldsFunc(*servers, func(r rune) bool { return r == ',' })), g.Say); err != nil {
			return err
		}
		r, err := once(ctx, g, row, *rounds, *seed)
		if err != nil {
			return err
		}
		r.Machine, r.Packages = machine, packages
		if !r.Valid {
			invalid = append(invalid, row.Name+": "+r.InvalidReasons[0])
		}
		if *print {
			text, err := table.Encode(r)
			if _, errWrite := stdout.Write(text); err != nil || errWrite != nil {
				return errors.Join(err, errWrite)
			}
			continue
		}
		err = r.Write(results)
		if text := row.File(g); err == nil && text != "" {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if invalid != nil && !*quick {
		return &failure{exitInvalid, fmt.Errorf("not valid: %s", strings.Join(invalid, "; "))}
	}
	return nil
}

// once measures a row within its time.
func once(ctx context.Context, g *race.Ground, row race.Row, rounds int, seed uint64) (*table.Row, error) {
	if rounds == 0 {
		rounds = row.Rounds
	}
	limited, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	r := g.Run(limited, row, rounds, seed)
	if ctx.Err() != nil {
		return nil, &failure{exitInterrupted, fmt.Errorf("%s is not stored; begin again to go on", row.Name)}
	}
	return r, nil
}

// prepare finds the module bench and makes a folder for programs, which end removes.
func prepare(ctx context.Context, g *race.Ground) (module string, end func(), err error) {
	if module, err = fleet.Module(ctx); err != nil {
		return "", nil, err
	}
	if g.CPUs, err = fleet.CPUs(); err != nil {
		return "", nil, err
	}
	if g.Self, err = os.Executable(); err != nil {
		return "", nil, err
	}
	g.Module = module
	g.Dir, err = os.MkdirTemp("", "hone-bench-")
	return module, func() { os.RemoveAll(g.Dir) }, err
}

// stopwatch makes lines for those who watch, with the time that has passed.
func stopwatch(stderr io.Writer) func(string) {
	start := time.Now()
	return func(line string) { fmt.Fprintf(stderr, "%7.1fs %s\n", time.Since(start).Seconds(), line) }
}

// publish fills the tables of the pages that are named, or of all that have some, and draws the
// picture; or it brings the list of versions up to date.
func publish(ctx context.Context, what string, pages []string, stderr io.Writer) error {
	if slices.ContainsFunc(pages, func(page string) bool { return strings.HasPrefix(page, "-") }) || what == "versions" && len(pages) > 0 {
		return usage(fmt.Errorf("%s takes no %s", what, pages[0]))
	}
	module, err := fleet.Module(ctx)
	if err != nil {
		return err
	}
	results := filepath.Join(module, "results")
	stored, err := table.Load(results)
	if err != nil {
		return err
	}
	if what == "versions" {
		return stored.Refresh(ctx, results)
	}
	if len(pages) == 0 {
		pages = table.Pages(module)
		svg, err := stored.Picture()
		if err == nil {
			err = os.WriteFile(filepath.Join(module, "..", "docs", "img", "beside-others.svg"), []byte(svg), 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, path := range pages {
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := stored.Fill(string(before))
		if err == nil {
			err = os.WriteFile(path, []byte(after), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
