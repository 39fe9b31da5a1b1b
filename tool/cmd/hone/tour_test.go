package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/probe"
)

// The tour is a script that is told: its comments are a page's text, its commands
// are shown with what they said in a run that was kept. testdata/tour has the
// script and that run; docs/tour.md is made of both.
const (
	tourScript = "testdata/tour/orders.txtar"
	tourKept   = "testdata/tour/orders.kept"
	tourFolder = "testdata/tour/orders" // the service
	tourPage   = "../../../docs/tour.md"
	tourAddr   = "127.0.0.1:8080" // instead of the port that was free
)

// retell is what makes the page and the run it shows anew.
const retell = "run go test ./tool/cmd/hone -run TestTour -update, and look at what has changed"

// TestTour runs the tour. Beside the commands of other scripts there are
//
//	tell N COMMAND…    run it, expect the exit code N, or one of N,M, and show it
//	often RUN REGEXP   stdout, where the CPU profile of RUN has samples enough to
//	                   tell its first line from chance, and in what is shown
//	starts COMMAND…    start a server on $ADDR, and show that; hone bench needs $ADDR, too
//	stops              end it
//	show FILE          show a file
//	change FILE WITH   put WITH in place of FILE, and show what differs
func TestTour(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the service is started by sh")
	}
	if updates := flag.Lookup("update").Value.String() == "true"; !updates && os.Getenv("HONE_TEST_TIMING") == "" {
		t.Skip("compares measured figures, so it needs a machine to itself: make timing runs it")
	}
	told := &tour{said: map[string]saidOnce{}}
	t.Run("script", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Files: []string{tourScript},
			Setup: func(env *testscript.Env) error {
				for _, f := range tourFiles(t) {
					if err := os.WriteFile(filepath.Join(env.WorkDir, f.Name), f.Data, 0o600); err != nil {
						return err
					}
				}
				env.Setenv("GORACE", quickExit)
				env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, ".data"))
				cache, err := exec.Command("go", "env", "GOCACHE").Output()
				env.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
				return err
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"port":   port(t),
				"tell":   told.tell,
				"often":  often,
				"starts": told.starts,
				"stops":  told.stops,
				"show":   func(ts *testscript.TestScript, _ bool, args []string) { ts.ReadFile(args[0]) },
				"change": func(ts *testscript.TestScript, _ bool, args []string) {
					ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile(args[1])), 0o600))
				},
			},
		})
	})
	if t.Failed() || flag.Lookup("update").Value.String() != "true" {
		return
	}
	if err := told.keep(); err != nil {
		t.Fatal(err)
	}
}

// TestTourPage holds the page to the script: to its text and its commands, and,
// of what was kept, to what the script expects. No figure is compared.
func TestTourPage(t *testing.T) {
	script, err := txtar.ParseFile(tourScript)
	if err != nil {
		t.Fatal(err)
	}
	script.Files = append(script.Files, tourFiles(t)...)
	kept, err := txtar.ParseFile(tourKept)
	if err != nil {
		t.Fatalf("%v; %s", err, retell)
	}
	made, problems := tourOf(script, kept)
	for _, problem := range problems {
		t.Errorf("%s; %s", problem, retell)
	}
	page, err := os.ReadFile(tourPage)
	switch {
	case err == nil && string(page) == made:
	case flag.Lookup("update").Value.String() == "true":
		if err := os.WriteFile(tourPage, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/tour.md is not what its script says (%v); %s", err, retell)
	}
}

// tourFiles returns the files of the service, which a reader copies.
func tourFiles(t *testing.T) (files []txtar.File) {
	names, err := filepath.Glob(tourFolder + "/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: filepath.Base(name), Data: data})
	}
	return files
}

// tour is a run of the script.
type tour struct {
	order  []string // the commands, by their text in the script
	said   map[string]saidOnce
	server *exec.Cmd
}

// saidOnce is what a command said.
type saidOnce struct{ stdout, stderr string }

// tell runs a command and keeps what it says.
func (r *tour) tell(ts *testscript.TestScript, neg bool, args []string) {
	code(ts, neg, args)
	clean := strings.NewReplacer(ts.Getenv("ADDR"), tourAddr, ts.Getenv("WORK")+"/", "").Replace
	key := strings.ReplaceAll(strings.Join(args[1:], " "), ts.Getenv("ADDR"), tourAddr)
	r.order = append(r.order, key)
	r.said[key] = saidOnce{clean(ts.ReadFile("stdout")), clean(ts.ReadFile("stderr"))}
}

// enoughSamples of a CPU profile put a function that is half of all first.
const enoughSamples = 60

// often is stdout for what a profile of few samples does not show.
func often(ts *testscript.TestScript, _ bool, args []string) {
	said := ts.ReadFile("stdout")
	if n := profileSamples(ts, args[0]); n < enoughSamples {
		ts.Logf("the profile of %s has only %d samples: the machine is busy", args[0], n)
		return
	}
	if !regexp.MustCompile("(?m)" + args[1]).MatchString(said) {
		ts.Fatalf("no match for %s in\n%s", args[1], said)
	}
}

// profileSamples is how many samples a run's CPU profile has: the least that a
// function has is one.
func profileSamples(ts *testscript.TestScript, name string) int {
	if ts.Exec("hone", "profile", name, "--kind", "cpu", "--top", "0", "--json") != nil {
		return 0 // it is empty
	}
	var report probe.Report
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &report))
	least, sum := 0.0, 0.0
	for _, l := range report.Lines {
		if sum += l.Flat; l.Flat > 0 && (least == 0 || l.Flat < least) {
			least = l.Flat
		}
	}
	if least == 0 {
		return 0
	}
	return int(sum/least + 0.5)
}

// starts starts a server and waits until it listens.
func (r *tour) starts(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(ts.MkAbs(args[0]), args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(cmd.Environ(), "ADDR="+ts.Getenv("ADDR"))
	ts.Check(cmd.Start())
	r.server = cmd
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); time.Now().Before(until); <-tick.C {
		if nc, err := net.Dial("tcp", ts.Getenv("ADDR")); err == nil {
			nc.Close()
			return
		}
	}
	ts.Fatalf("nobody listens on %s after %v", ts.Getenv("ADDR"), patience)
}

// stops ends it.
func (r *tour) stops(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(r.server.Process.Kill())
	r.server.Wait() // killed: its exit code says nothing
}

// keep writes the run, for the page.
func (r *tour) keep() error {
	facts := machine.Read()
	about := "A run on " + cmp.Or(facts.Strict["cpu"], facts.Strict["cpu model"], runtime.GOARCH) + ", " +
		strconv.Itoa(runtime.NumCPU()) + " CPUs, " + runtime.GOOS + ", " + runtime.Version() + ".\n"
	kept := &txtar.Archive{Comment: []byte(about)}
	for _, key := range r.order {
		kept.Files = append(kept.Files,
			txtar.File{Name: key, Data: []byte(r.said[key].stdout)},
			txtar.File{Name: "stderr of " + key, Data: []byte(r.said[key].stderr)})
	}
	return os.WriteFile(tourKept, txtar.Format(kept), 0o644)
}

// step is what a line of the script adds to the page.
type step struct {
	kept  map[string]string
	files map[string]string
	used  map[string]bool
	last  saidOnce // the command that the lines below it are about

	page     strings.Builder
	prose    []string
	problems []string
}

// tourOf makes the page, and says where the script and the kept run disagree.
func tourOf(script, kept *txtar.Archive) (page string, problems []string) {
	s := &step{kept: map[string]string{}, files: map[string]string{}, used: map[string]bool{}}
	for _, f := range kept.Files {
		s.kept[f.Name] = string(f.Data)
	}
	for _, f := range script.Files {
		s.files[f.Name] = string(f.Data)
	}
	for line := range strings.Lines(string(script.Comment)) {
		s.line(strings.TrimSpace(line))
	}
	s.endProse()
	fmt.Fprintf(&s.page, "%s", strings.TrimSpace(
		"---\n\n"+strings.TrimSpace(string(kept.Comment))+
			" This page is made of\n[a script](../tool/cmd/hone/"+tourScript+") that runs as a test.")+"\n")
	for _, f := range kept.Files {
		if name, _ := strings.CutPrefix(f.Name, "stderr of "); !s.used[name] {
			s.problem("%q was kept and is no command of the script", name)
		}
	}
	return s.page.String(), s.problems
}

func (s *step) problem(format string, args ...any) {
	if said := fmt.Sprintf(format, args...); !slices.Contains(s.problems, said) {
		s.problems = append(s.problems, said)
	}
}

// line takes the script's next line.
func (s *step) line(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "#", "":
		s.prose = append(s.prose, rest)
		return
	case "##":
		s.prose = append(s.prose, "", line, "")
		return
	}
	s.endProse()
	switch verb {
	case "tell":
		_, command, _ := strings.Cut(rest, " ")
		s.command(command)
	case "starts":
		fmt.Fprintf(&s.page, "```\n$ export ADDR=%s\n$ ./%s &\n```\n\n", tourAddr, rest)
	case "stops":
		s.page.WriteString("```\n$ kill %1\n```\n\n")
	case "show":
		text, known := s.files[rest]
		if !known {
			s.problem("there is no file %s to show", rest)
		}
		fmt.Fprintf(&s.page, "```%s\n%s```\n\n", strings.TrimPrefix(filepath.Ext(rest), "."), text)
	case "change":
		name, with, _ := strings.Cut(rest, " ")
		s.page.WriteString("```diff\n" + differing(s.files[name], s.files[with]) + "```\n\n")
		s.files[name] = s.files[with]
	case "stdout":
		s.expect(rest, s.last.stdout)
	case "often":
		_, pattern, _ := strings.Cut(rest, " ")
		s.expect(pattern, s.last.stdout)
	case "stderr":
		s.expect(rest, s.last.stderr)
	}
}

// command shows one with what it said.
func (s *step) command(line string) {
	line = strings.NewReplacer("${URL}", "http://"+tourAddr+"/", "$ADDR", tourAddr).Replace(line)
	key := strings.ReplaceAll(line, "'", "")
	stdout, known := s.kept[key]
	if !known {
		s.problem("%q is a command of the script and was not kept", key)
	}
	s.used[key] = true
	s.last = saidOnce{stdout, s.kept["stderr of "+key]}
	fmt.Fprintf(&s.page, "```\n$ %s\n%s%s```\n\n", line, s.last.stdout, s.last.stderr)
}

// expect holds what was kept to what the script expects of every run.
func (s *step) expect(quoted, said string) {
	pattern, err := regexp.Compile("(?m)" + strings.Trim(quoted, "'"))
	if err != nil || !pattern.MatchString(said) {
		s.problem("what was kept does not match %s (%v)", quoted, err)
	}
}

// endProse writes the paragraphs that have gathered.
func (s *step) endProse() {
	if text := strings.TrimSpace(strings.Join(s.prose, "\n")); text != "" {
		text = regexp.MustCompile(`\n{3,}`).ReplaceAllString(text, "\n\n")
		s.page.WriteString(text + "\n\n")
	}
	s.prose = nil
}

// differing is what a diff shows of two texts, without its head.
func differing(old, now string) string {
	_, hunks, _ := strings.Cut(string(diff.Diff("old", []byte(old), "now", []byte(now))), "\n+++ now\n")
	return regexp.MustCompile(`(?m)^@@ .* @@$`).ReplaceAllString(hunks, "@@")
}
