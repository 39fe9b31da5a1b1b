package torture

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/trial"
)

// quick are limits for servers whose own limits are those of the planted one.
var quick = Limits{Conns: 300, Few: 8, Bytes: 64 << 20, Wait: 5 * time.Second, Answer: time.Second, Gone: 2 * time.Second, Stop: 8 * time.Second}

// plan attacks a server with a planted fault, which it owns.
func plan(t *testing.T, fault string, only ...string) Plan {
	t.Helper()
	at := heldAddress(t)
	var length codec.Framing
	if err := length.UnmarshalText([]byte("len32be")); err != nil {
		t.Fatal(err)
	}
	p := Plan{
		Server: trial.Server{Command: os.Args[0], Env: []string{plantedAt + "=" + at, plantedFault + "=" + fault, "GORACE=atexit_sleep_ms=0"}, StopWithin: 10 * time.Second},
		Load:   load.Plan{Target: codec.Messages{Address: at, Framing: length}}, Limits: quick, Seed: 1, Baseline: time.Second,
	}
	if path, web := webFaults[fault]; web {
		p.Load.Target = codec.HTTP{URL: "http://" + at + "/" + path}
	}
	if fault == noMask {
		p.Load.Target = codec.WebSocket{URL: "ws://" + at + "/"}
	}
	for _, s := range Scenarios() {
		if slices.Contains(only, s.Name) {
			p.Scenarios = append(p.Scenarios, s)
		}
	}
	return p
}

func attack(t *testing.T, p Plan) map[string]Result {
	t.Helper()
	report, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	const most = 256 << 20 // with all tests beside this one
	if report.Own > most && !testrun.Race {
		t.Errorf("hone itself took %d MiB of memory", report.Own>>20)
	}
	t.Logf("hone itself took %d MiB of memory", report.Own>>20)
	all := map[string]Result{}
	for _, r := range report.Results {
		if r.Verdict != NotApplicable {
			t.Logf("%-13v %-24s %s %v", r.Verdict, r.Name, r.Words, r.Notes)
		}
		all[r.Name] = r
	}
	return all
}

type planting struct {
	fault, scenario string
	verdict         Verdict
	says            string
}

const panicked = "the process ends"

// plantings are the faults, where each is found, and words that name it. The first fifteen were planted by
// somebody who had not read this package.
var plantings = []planting{
	{sharesBuffer, "request-flood", Fell, "another answer than before"},
	{noMask, "bad-frames", Fell, "an unmasked text (RFC 6455 §5.1): goes on, and answers the ping behind it"},
	{panicsOnReset, "reset-at-each-byte", Fell, panicked},
	{bodyAsRequest, "request-smuggling", Fell, "a GET with a body (RFC 9110 §9.3.1): gives 3 answers"},
	{firstLength, "request-smuggling", Fell, "the lengths 0 and n (RFC 9112 §6.3): gives 3 answers where at most 2 are right"},
	{webServer, "request-smuggling", Fell, "a length, then chunked (RFC 9112 §6.1): gives 3 answers where it must close after the first"},
	{lineFeeds, "request-smuggling", Fell, "a size that ends in LF alone (RFC 9112 §7.1): gives 2 answers where it must close after the first"},
	{withoutTurns, "storm", Fell, ""}, // of its clients and the bystanders, either may wait for too long
	{hundredSlots, "connection-flood", Fell, "beside 299 silent connections"},
	{lockedWhileWrites, "never-reads", Fell, "bystander"},
	{losesOnHalfClose, "half-close", Fell, "the end of the sending side"},
	{endsWithoutFiles, "descriptors", Fell, "does not serve again"},
	{leaksDescriptors, "churn", Fell, "descriptors are still open"},
	{unboundedHead, "endless-heads", Fell, "MiB each of"},
	{noBodyLimit, "slow-bodies", NotFoundOut, "bodies that trickle are still open"},
	{leaksResets, "reset-with-answers-due", Fell, "for each connection that was reset"},

	{noHeadTimeout, "half-request", NotFoundOut, "no limit up to then"},
	{unboundedBuffer, "never-reads", Fell, "for one client"},
	{leaksMemory, "churn", Fell, "for each connection"},
	{leaksTimeouts, "time-outs", Fell, "for each connection that timed out"},
	{stallsAtEnd, "sigterm-under-load", Fell, "SIGTERM"},
	{losesUnsent, "half-close", Fell, "the end of the sending side"},
	{crashesOnLength, "impossible-length", Fell, panicked},
	{keepsTargets, "many-targets", Fell, "for each request with a path or a query of its own"},
	{quadraticHeads, "large-heads", Fell, "a complete head of"},
	{cutsAtEnd, "sigterm-under-load", Fell, "8 of 8 requests in flight were cut"},
	{wrongAfterReset, "reset-at-each-byte", Fell, "wrong answers"},
	{spinsOnReset, "reset-at-each-byte", Fell, "of a CPU after all have left"},

	{panicsOnWindow, "h2-made-you-reset", Fell, panicked},
	{panicsOnTable, "h2-table-size", Fell, panicked},
	{largeLists, "h2-header-bomb", Fell, "3 clients sent"},
	{keepsResets, "h2-rapid-reset", Fell, "of memory"},
	{slowSettings, "h2-settings-churn", Fell, "bystander"},
	{slowPings, "h2-ping-flood", Fell, "bystander"},
	{largeLists, "h2-trailers", Fell, "of memory"},
	{waitsForBodies, "h2-half-bodies", NotFoundOut, "no limit up to then"},
}

// Each planted fault is found where it is, with words that name it. It runs before the tests whose attacks
// take all processors.
func TestPlantedFaults(t *testing.T) {
	for _, p := range plantings {
		if !p.alone() {
			t.Run(p.fault+" in "+p.scenario, func(t *testing.T) {
				t.Parallel()
				p.test(t)
			})
		}
	}
}

// The same for those that are not found out beside servers that spin.
func TestPlantedFaultsAlone(t *testing.T) {
	for _, p := range plantings {
		if p.alone() {
			t.Run(p.fault+" in "+p.scenario, p.test)
		}
	}
}

// alone reports whether it takes 500 requests in 2.5 s to find the fault, or how long others waited.
func (p planting) alone() bool {
	return p.fault == keepsTargets || strings.HasPrefix(p.fault, secondVersion) && p.says != panicked
}

func (p planting) test(t *testing.T) {
	quickest := []string{sharesBuffer, noMask, panicsOnReset, bodyAsRequest, firstLength, webServer, lineFeeds, hundredSlots, losesOnHalfClose, endsWithoutFiles, unboundedHead, leaksResets,
		crashesOnLength, wrongAfterReset, keepsTargets, quadraticHeads, cutsAtEnd, panicsOnWindow, panicsOnTable}
	if !testrun.All() && !slices.Contains(quickest, p.fault) {
		t.Skip("takes 10 s of waiting; HONE_TEST_ALL=1 runs it")
	}
	plan := plan(t, p.fault, p.scenario)
	if p.fault == leaksTimeouts {
		plan.Limits.Wait *= 3 // it is for three rounds
	}
	if strings.HasPrefix(p.fault, secondVersion) {
		plan.Limits.Answer, plan.Limits.Within = 3*time.Second, 20*time.Second
	}
	found := attack(t, plan)[p.scenario]
	said := strings.Join(found.Notes, " ")
	switch {
	case found.Verdict == Slower && (p.fault == cutsAtEnd || p.fault == losesUnsent) && strings.Contains(said, p.says):
		return // a busy machine delays the end of one of two tries until everything has come, or was sent
	case found.Verdict == Slower && p.fault == withoutTurns:
		return // a machine that has few clients come back at once has fewer wait
	case found.Verdict == Slower && p.says == "bystander" && found.Bystanders.Lag > 0.1:
		return // it may have been the machine
	}
	if told := found.Words + "\n" + strings.Join(found.Inputs, "\n"); found.Verdict != p.verdict || !strings.Contains(told, p.says) {
		t.Errorf("%v, %q; want %v with %q", found.Verdict, told, p.verdict, p.says)
	}
}

// Sound servers survive everything, and have no descriptors left, for which hone would wait.
func TestSoundServers(t *testing.T) {
	t.Parallel()
	for i, only := range [][]string{
		{"half-close", "reset-at-each-byte", "impossible-length", "kill-under-load"},
		{"large-heads", "many-targets", "sigterm-under-load"},
		{"segmentation", "half-request", "trickle"},
	} {
		fault := []string{sound, webServer, sound}[i]
		if testrun.All() && i == 2 {
			continue // the first has all
		}
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			if testrun.All() {
				only = nil
			}
			p := plan(t, fault, only...)
			p.Limits.Within = time.Minute // other programs may have most of the CPUs
			for name, found := range attack(t, p) {
				if strings.HasSuffix(found.Words, "too few to judge its memory") {
					continue // as before
				}
				keeps := fault == webServer && (name == "malformed-requests" || name == "request-smuggling") // behind a length beside chunks
				if fell := found.Verdict == Fell; fell != keeps || found.Verdict == NotFoundOut {
					t.Errorf("%s: %v, %s %v", name, found.Verdict, found.Words, found.Notes)
				}
				if found.Used != nil && found.Used.Left > fewLeft {
					t.Errorf("%s: %d descriptors are left", name, found.Used.Left)
				}
			}
		})
	}
}

// Descriptors that are left over are a fall if they are more than newcomers have.
func TestDescriptorsLeft(t *testing.T) {
	r := new(run)
	for left := range 2 * fewLeft {
		fell := r.overused(&Used{Left: left}, Scenario{})
		if want := left > fewLeft; (len(fell) == 1) != want {
			t.Errorf("%d are left: %q", left, fell)
		}
	}
}

// An address that is not private is refused after its name is resolved, at the dial.
func TestOnlyPrivateAddresses(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"127.0.0.1:80": true, "10.1.2.3:80": true, "192.168.1.1:80": true, "[::1]:80": true, "[fd00::1]:80": true, "[::ffff:10.0.0.1]:80": true, "[fe80::1%lo]:80": true,
		"8.8.8.8:80": false, "172.32.0.1:80": false, "[2001:4860::1]:80": false, "[::ffff:8.8.8.8]:80": false, "0.0.0.0:80": false,
	} {
		if err := onlyPrivate("tcp", address, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	_, err := Run(t.Context(), Plan{Load: load.Plan{Target: codec.HTTP{URL: "http://192.0.2.1/"}}, Limits: quick})
	if !errors.Is(err, errPublic) {
		t.Errorf("a run against a public address: %v", err)
	}
}

func TestCompare(t *testing.T) {
	before := &Report{Results: []Result{{Name: "a", Verdict: Survived}, {Name: "b", Verdict: Fell}, {Name: "gone", Verdict: Survived}, {Name: "d", Verdict: NotApplicable}}}
	now := &Report{Results: []Result{{Name: "a", Verdict: Fell}, {Name: "b", Verdict: Slower}, {Name: "new", Verdict: Survived}, {Name: "d", Verdict: NotApplicable}}}
	now.Compare(before)
	if len(now.Against.Worse) != 1 || now.Against.Worse[0].String() != "a: fell, before survived" {
		t.Errorf("worse: %v", now.Against.Worse)
	}
	var others []string
	for _, c := range now.Against.Other {
		others = append(others, c.String())
	}
	if want := []string{"b: slower, before fell", "new is new: survived", "gone was not tried: survived before"}; !slices.Equal(others, want) {
		t.Errorf("others: %q, want %q", others, want)
	}
}
