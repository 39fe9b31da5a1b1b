// Autobahn runs the Autobahn test suite for WebSocket against package websocket, and
// against gorilla and coder as controls: as evidence that was not written here.
//
//	make bench WHAT=autobahn                           run everything, store the results and the tables
//	make bench WHAT=autobahn AGENTS='hone client'      run some agents, and leave the others as stored
//	make bench WHAT=autobahn CASES='12.1.*'            run some cases, and keep others of the same commit
//	make bench WHAT=autobahn AGENTS=none               make the page of what is stored
//	go run ./bench/autobahn -agents gorilla -cases '1.*,6.4.*'    print what comes of some cases
//
// The suite is a Python 2.7 program. This command looks for a python2.7 with pip, installs
// the suite into a temporary folder, and removes it afterwards; -suite keeps it for the
// next run. Its fuzzing client tests servers, its fuzzing server tests clients; an agent takes
// some four minutes of CPU, nearly all of them for compression. The command
// fails where package websocket fails a case, passes one in a way that the suite calls
// non-strict, or does not close as the suite expects.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/hone-go/hone/bench/report"
)

// sections are those cases of the suite that are run: all of those that it has.
const sections = "1.*,2.*,3.*,4.*,5.*,6.*,7.*,9.*,10.*,12.*,13.*"

// options are the command's flags.
type options struct {
	python, suite, cases, agents, store, out string
}

func main() {
	var o options
	flag.StringVar(&o.python, "python", "", "a Python 2.7 `program` that has pip (default: python2.7 of PATH or pyenv)")
	flag.StringVar(&o.suite, "suite", "", "install the suite into this `folder`, or use it where it is there already (default: a temporary one)")
	flag.StringVar(&o.cases, "cases", sections, "run these `cases`, separated by commas")
	flag.StringVar(&o.agents, "agents", "", "run the agents whose name matches this `regexp` (default: all)")
	flag.StringVar(&o.store, "store", "", "keep results in this `file`, and show what else is in it")
	flag.StringVar(&o.out, "o", "", "write the tables to this `file`, too")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "autobahn:", err)
		os.Exit(1)
	}
}

// run runs the suite with each agent that is wanted, and prints the tables.
func run(ctx context.Context, o options) error {
	wanted, err := regexp.Compile(o.agents)
	if err != nil {
		return fmt.Errorf("-agents: %w", err)
	}
	todo := slices.DeleteFunc(agents(), func(a agent) bool { return !wanted.MatchString(a.name) })
	r, err := load(o.store)
	if err == nil && len(todo) > 0 { // else the page is made again
		err = o.test(ctx, todo, r)
	}
	if err != nil {
		return err
	}
	page := r.markdown()
	fmt.Print(page)
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(page), 0o666); err != nil {
			return err
		}
	}
	return r.judge()
}

// test has the suite test agents, and stores what it says of each.
func (o options) test(ctx context.Context, todo []agent, r *results) error {
	s, err := install(ctx, o.python, o.suite)
	if err != nil {
		return err
	}
	defer s.remove()
	machine, peers := report.ThisMachine(ctx, ".", 0), peerVersions()
	for _, a := range todo {
		of, err := a.run(ctx, s, strings.Split(o.cases, ","))
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", a.name, tallyOf(of))
		r.set(agentRun{Agent: a.name, Version: a.version(machine, peers), Suite: s.version, Outcomes: of})
		if err := r.save(o.store); err != nil {
			return err
		}
	}
	return nil
}
