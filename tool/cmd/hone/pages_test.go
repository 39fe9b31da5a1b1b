package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/serving"
)

// manual is the folder of pages.
const manual = "../../../docs"

// TestPages holds tables of the manual to the code and to stored results.
func TestPages(t *testing.T) {
	for _, section := range []struct {
		page, name string
		made       func(*testing.T) string
	}{
		{"limits.md", "limits", limitsTable},
		{"scale.md", "scale constants", scaleConstants},
		{"scale.md", "scale examples", scaleExamples},
	} {
		name := filepath.Join(manual, section.page)
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+section.name+" -->\n", "<!-- "+section.name+" end -->"
		head, rest, hasBegin := strings.Cut(string(page), begin)
		_, tail, hasEnd := strings.Cut(rest, end)
		if !hasBegin || !hasEnd {
			t.Errorf("%s lacks %s or %s", section.page, begin, end)
			continue
		}
		made := head + begin + "\n" + section.made(t) + "\n" + end + tail
		switch {
		case made == string(page):
		case flag.Lookup("update").Value.String() == "true":
			if err := os.WriteFile(name, []byte(made), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("the section %q of docs/%s is not what the code says; run go test ./tool/cmd/hone -run TestPages -update, and look at what has changed",
				section.name, section.page)
		}
	}
}

// told is what a page says of a limit beside its name and default.
type told struct {
	field   string // of engine.Limits
	what    string
	result  string
	counter engine.Reason // 0: nobody is closed
	tests   string        // that fail without it
}

// limitsTold are the limits in the order of their names on the command line.
func limitsTold() []told {
	return []told{
		{"FrameTime", "one frame, from its first byte to its last, plus its size at `frame-rate`; also a PROXY header, and a TLS handshake, each", "8", engine.FrameTimeout, "TestTrickledFrameIsRefused"},
		{"FrameRate", "the slowest honest sender, bytes a second", "8", engine.FrameTimeout, "TestTrickledFrameIsRefused"},
		{"FrameSize", "the largest frame", "3", engine.TooLarge, "TestFrameOfExactlyTheLimitIsServed"},
		{"IdleTime", "silence, while no reply is owed; WebSocket pings after half of it", "9", engine.IdleTimeout, "TestIdleConnectionIsClosed"},
		{"AuthTime", "from the accept until a Conn is accepted", "8", engine.AuthTimeout, "TestAuthTime TestConnectMustBeAcceptedInTime"},
		{"HighWater", "output waiting for one peer; its requests are not read until half of it is gone", "–", 0, "TestFloodIsNotRead"},
		{"HardCap", "output queued for one peer behind what is being written", "none", engine.SlowReader, "TestHardCapIsForPeersThatDoNotRead"},
		{"StallTime", "a peer that takes nothing of what waits for it", "none", engine.WriteStall, "TestPeerThatReadsNothingIsCutOff"},
		{"LingerTime", "what a refused peer still sends is read, so that it sees the refusal; in a drain for 250 ms at most", "–", 0, "TestRefusedPeerIsLingeredFor TestPeersThatStayDoNotHoldAShutdownUp"},
		{"SpreadTime", "the time of a shutdown over which connections end, evenly: [upgrades](upgrades.md)", "7", engine.ShuttingDown, "TestSpread"},
		{"InFlight", "replies promised to one connection; its requests are not read until there are fewer", "–", 0, "TestInFlightPausesAndResumes"},
		{"TotalInFlight", "the same for all connections; at it, those that are answered late are not read until half are sent", "–", 0, "TestTotalInFlightPausesAndResumes TestTotalInFlightWithRepliesThatNeverCome"},
		{"TotalOutput", "memory of all output that waits; requests that may produce much wait in line, then peers that do not read are closed", "none", engine.OutputBudget, "TestOutputBudgetHolds TestPushesKeepToTheOutputBudget TestLargeRepliesTakeTurns TestFirstVisitsThatBlockHoldUpNobody"},
		{"TotalInput", "memory of all input that is not served yet; those that hold most for longest are closed first, those with at most 4 KiB never", "5, or closed", engine.InputBudget, "TestInputBudgetHolds"},
		{"Helpers", "connections with slow handlers that are served beside the event loops at once; more wait in line", "–", 0, "TestHelpersAreBounded"},
		{"Conns", "open connections; silent ones make room, and idle ones where the protocol allows it", "5", engine.TooManyConns, "TestIdleConnectionsStay TestSilentConnectionsMakeRoom"},
		{"ConnsPerAddress", "the same from one address; IPv6 addresses count by their first 64 bits", "5", engine.TooManyPerAddress, "TestConnsPerAddressCountsSockets TestConnsPerAddressCountsNetworksOfIPv6"},
		{"AcceptRate", "new connections a second; who is refused is told when to come again", "5", engine.TooManyAtOnce, "TestAcceptRate"},
	}
}

// limitsTable fails when a limit is not told, or what is told is no limit.
func limitsTable(t *testing.T) string {
	var out strings.Builder
	out.WriteString("| limit | default | what it bounds | result | counter |\n|---|---|---|---|---|\n")
	tests := ""
	for _, dir := range []string{"engine", "framed"} {
		files, _ := filepath.Glob("../../../" + dir + "/*_test.go")
		for _, name := range files {
			tests += readPage(t, filepath.Join("..", dir, filepath.Base(name)))
		}
	}
	var limits engine.Limits
	fields := reflect.TypeFor[engine.Limits]()
	flags, all := serving.LimitsOf(&limits), limitsTold()
	if fields.NumField() != len(all) || len(flags) != len(all) {
		t.Fatalf("engine.Limits has %d fields, --limit takes %d, and %d are told", fields.NumField(), len(flags), len(all))
	}
	limits = limits.OrDefaults()
	for i, told := range all {
		if name := fields.Field(i).Name; name != told.field || strings.ReplaceAll(flags[i].Name, "-", "") != strings.ToLower(name) {
			t.Errorf("field %d is %s, its flag %s, and what is told is of %s", i, name, flags[i].Name, told.field)
		}
		value := flags[i].String()
		if told.field == "Conns" {
			value = "50000" // fewer where descriptors are
		}
		counter := "–"
		switch {
		case told.counter != 0:
			counter = "`" + told.counter.String() + "`"
		case told.field == "Helpers":
			counter = "`hone_helpers`" // a gauge: nobody is closed
		case told.field == "TotalInFlight":
			counter = "`hone_connections_paused`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", flags[i].Name, value, told.what, told.result, counter)
		for name := range strings.FieldsSeq(told.tests) {
			if !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("%s: engine and framed have no %s", told.field, name)
			}
		}
	}
	return out.String()
}

// TestLimitsPageKnowsEveryReason fails when a connection can end for a reason of
// which the page says nothing.
func TestLimitsPageKnowsEveryReason(t *testing.T) {
	page := readPage(t, "limits.md")
	for i := range (engine.Stats{}).Ended {
		if why := engine.Reason(i); why != 0 && !strings.Contains(page, "`"+why.String()+"`") {
			t.Errorf("docs/limits.md says nothing of connections that end for %s", why.String())
		}
	}
}

// peerRow is what is used here of a row of bench/results.
type peerRow struct {
	Name    string `json:"name"`
	Machine struct {
		CPU    string `json:"cpu"`
		CPUs   int    `json:"cpus"`
		Kernel string `json:"kernel"`
		Go     string `json:"go"`
		Commit string `json:"commit"`
		Date   string `json:"date"`
	} `json:"machine"`
	Samples []struct {
		Server  string             `json:"server"`
		Case    string             `json:"case"`
		Figures map[string]float64 `json:"figures"`
	} `json:"samples"`
}

func readPeers(t *testing.T, name string) *peerRow {
	t.Helper()
	text, err := os.ReadFile("../../../bench/results/frames/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	r := new(peerRow)
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// medianOf is that of a server's samples: µs a request, or bytes for each of 15,000 idle connections.
func medianOf(t *testing.T, server, name string) float64 {
	t.Helper()
	var values []float64
	for _, s := range readPeers(t, name).Samples {
		v, has := s.Figures["cpu_us"]
		if s.Case == "15k" {
			v, has = s.Figures["per_conn_bytes"]
		}
		if has && s.Server == server {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		t.Fatalf("bench/results/frames/%s.json has nothing of %s", name, server)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// scaleEngines are those worth a machine of their own.
func scaleEngines() []string { return []string{"events", "buffered"} }

func scaleConstants(t *testing.T) string {
	var out strings.Builder
	out.WriteString("| engine | µs a request at 40 000/s over 100 connections | µs at the most, 100 × 1 | bytes an idle connection |\n|---|---|---|---|\n")
	for _, name := range scaleEngines() {
		server := "hone-" + name
		fmt.Fprintf(&out, "| %s | %.1f | %.1f | %s |\n", name, medianOf(t, server, "O"), medianOf(t, server, "A"), figure.Grouped(medianOf(t, server, "idle")))
	}
	m := readPeers(t, "O").Machine
	fmt.Fprintf(&out, "\nMedians of O, A and idle (15k) in [bench/results/frames](../bench/results/frames) ([what they are](../bench/figures.md#frames)):\n%s, %d CPUs, Linux %s, %s, commit %s, %s. One loop on one processor.\n",
		m.CPU, m.CPUs, m.Kernel, m.Go, m.Commit, m.Date)
	return out.String()
}

// kernelBytes is what scale.md says the kernel holds for an idle connection.
const kernelBytes = 4500

func scaleExamples(t *testing.T) string {

	if page := readPage(t, "scale.md"); !strings.Contains(page, "**4.5 KB for an idle TCP connection**") {
		t.Error("docs/scale.md says otherwise than kernelBytes what the kernel holds for a connection")
	}
	var out strings.Builder
	out.WriteString("| | connections | requests a second | handler, µs | processors (events) | memory | network | descriptors |\n|---|---|---|---|---|---|---|---|\n")
	for _, x := range []struct {
		name          string
		conns         float64
		rate          float64
		handler, size float64
	}{
		{"Devices", 1e6, 1e6/120 + 1e6/600, 20, 200},
		{"Gateway", 40_000, 2 * 40_000 * 20 / 60.0, 10, 300},
		{"Internal RPC", 500, 200_000, 5, 1000},
	} {
		cpu := x.rate * (medianOf(t, "hone-events", "O") + x.handler) / 1e6 / 0.6
		limits := engine.Limits{}.OrDefaults()
		memory := x.conns*(medianOf(t, "hone-events", "idle")+kernelBytes) + 2*float64(limits.TotalOutput+limits.TotalInput)
		network := x.rate * (x.size + 2*66) * 8
		fmt.Fprintf(&out, "| %s | %s | %s | %.0f | %.1f | %.1f GB | %.0f Mbit/s | %s |\n",
			x.name, figure.Grouped(x.conns), figure.Grouped(math.Round(x.rate)), x.handler, cpu, memory/1e9, network/1e6, figure.Grouped(2*x.conns))
	}
	return out.String()
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manual, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPagesNameMetrics fails when a page names a metric that nobody exports.
func TestPagesNameMetrics(t *testing.T) {
	known := readPage(t, "../observe/metrics.md")
	for _, folder := range []string{"gateway", "gateway/cmd/honed", "gateway/relay/cmd/honed-relay"} { // honed_
		files, _ := filepath.Glob(filepath.Join("../../..", folder, "*.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			known += string(text)
		}
	}
	pages, err := filepath.Glob(filepath.Join(manual, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	metric, found := regexp.MustCompile("`((?:honed?|go|process)_[a-z0-9_]+)[`{]"), 0
	exported := make(map[string]bool)
	for _, name := range regexp.MustCompile(`(?:honed?|go|process)_[a-z0-9_]+`).FindAllString(known, -1) {
		exported[name] = true
	}
	for _, page := range pages {
		for _, m := range metric.FindAllStringSubmatch(readPage(t, filepath.Base(page)), -1) {
			if found++; !exported[m[1]] {
				t.Errorf("%s names the metric %s, which nobody exports", filepath.Base(page), m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d metrics are found", found)
	}
}

// TestManualCommands reads every command of hone's in the manual: it must be
// there, its flags too, and their values must be such that a reader who types
// them is not told about usage. What quick ones of them do is run.
func TestManualCommands(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(manual, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, page := range append(pages, "../../../README.md", "../../../deploy/README.md") {
		for _, line := range honeLines(t, page) {
			total++
			if why := parseCommand(line); why != "" {
				t.Errorf("%s: %q: %s", filepath.Base(page), line, why)
			}
		}
	}
	if total < 40 {
		t.Errorf("only %d commands are found in the manual", total)
	}
	for _, quick := range [][]string{{"doctor", "--quick"}, {"version"}} {
		hone(t, exit.OK, quick...)
	}
}

// honeLines are the commands of hone's in a page: lines of code that begin with
// hone or go run ./tool/cmd/hone, and code of that kind within a line.
func honeLines(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.ReplaceAll(string(text), "\\\n", " ")
	block := regexp.MustCompile(`(?m)^(?:    |\s*)(?:\$ )?(?:go run \./tool/cmd/hone|hone) ([a-z].*)$`)
	span := regexp.MustCompile("`(?:go run \\./tool/cmd/hone|hone) ([a-z][^`]* -[^`]*)`")
	fenced := false
	for line := range strings.Lines(whole) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if m := block.FindStringSubmatch(line); m != nil && (fenced || strings.HasPrefix(line, "    ")) {
			lines = append(lines, m[1])
			continue
		}
		if !fenced {
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				lines = append(lines, m[1])
			}
		}
	}
	return lines
}

// parseCommand says what is wrong with a command line, or nothing. Behind it
// others may stand (&&, |), a redirection, or a comment.
func parseCommand(line string) string {
	line = regexp.MustCompile(`\$\{\{[^}]*\}\}`).ReplaceAllString(line, "X")
	line = regexp.MustCompile(`\s(#|&&|\|\||\||>).*$`).ReplaceAllString(line, "")
	line = regexp.MustCompile(`@[a-z][a-z.-]*`).ReplaceAllString(line, "@pages_test.go")             // a file that is there
	line = regexp.MustCompile(`(--data [a-z]+=)[a-z.]+`).ReplaceAllString(line, "${1}pages_test.go") // the same
	args := words(line)
	root := newRoot()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root {
		return fmt.Sprintf("there is no such command (%v)", err)
	}
	left := regexp.MustCompile(`…|\b[A-Z]{4,}\b`)
	if slices.ContainsFunc(rest, left.MatchString) {
		return "" // something is left to the reader
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return ""
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

// words splits a line as a shell does that knows quotes and nothing else.
func words(line string) (all []string) {
	var word strings.Builder
	inside, begun := rune(0), false
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, c := range line {
		switch {
		case inside != 0 && c == inside:
			inside = 0
		case inside == 0 && (c == '\'' || c == '"'):
			inside, begun = c, true
		case inside == 0 && c == ' ':
			end()
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	end()
	return all
}

// TestParseCommand tries what it finds.
func TestParseCommand(t *testing.T) {
	for line, wrong := range map[string]string{
		"load 127.0.0.1:7000 -c 100 --expect 'p99<5ms' | tee x": "",
		"doctor                # what stands in the way":        "",
		"bench -f hello.toml --revision origin/${{ github.x }}": "",
		"bench -f hello.toml --save a && hone run show a":       "",
		"lode 127.0.0.1:7000":                                   "no such command",
		"load 127.0.0.1:7000 --con 5":                           "--con",
		"load 127.0.0.1:7000 -d 5":                              "-d",
		"load 127.0.0.1:7000 --expect 'p98<5ms'":                "p98",
		"bench x":                                               "unexpected argument",
	} {
		if got := parseCommand(line); (got == "") != (wrong == "") || !strings.Contains(got, wrong) {
			t.Errorf("%s: %q, want %q", line, got, wrong)
		}
	}
	if got := words(`a 'b c' "" d"e"`); !slices.Equal(got, []string{"a", "b c", "", "de"}) {
		t.Errorf("words: %q", got)
	}
}

// TestRowFiles: the rows of bench have keys and values that hone bench takes.
func TestRowFiles(t *testing.T) {
	files, err := filepath.Glob("../../../bench/results/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files, %v", err)
	}
	for _, file := range files {
		_, said := hone(t, 2, "bench", "-f", file, "--samples", "1")
		if !strings.Contains(said, "a verdict needs at least") { // which is refused after the file's own faults
			t.Errorf("%s: %s", file, said)
		}
	}
}
