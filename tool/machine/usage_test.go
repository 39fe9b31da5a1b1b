package machine

import (
	"bufio"
	"embed"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// between returns two snapshots of one CPU's counters, a second apart.
func between(busy float64, before, now map[int]process) (u, later Usage) {
	u = Usage{cpus: 1, self: 1, processes: before, cpu: cpuTicks{busy: 1000, idle: 1000}}
	later = Usage{cpus: 1, self: 1, processes: now, cpu: cpuTicks{busy: 1000 + busy, idle: 1100 - busy}}
	return u, later
}

// TestOthers checks what counts as others' use when processes start, end, and reuse ids.
func TestOthers(t *testing.T) {
	self := process{name: "self", since: "5", own: 10}
	busySelf := process{name: "self", since: "5", own: 30}
	for name, c := range map[string]struct {
		busy        float64
		before, now map[int]process
		own         []int
		want        float64 // NaN: not available
	}{
		"nobody is known":      {50, nil, nil, nil, math.NaN()},
		"all is others'":       {50, map[int]process{1: self}, map[int]process{1: self}, nil, 0.5},
		"this one is no other": {50, map[int]process{1: self}, map[int]process{1: busySelf}, nil, 0.3},
		"named twice":          {50, map[int]process{1: self}, map[int]process{1: busySelf}, []int{1, 1}, 0.3},
		"one's own server": {
			50, map[int]process{1: self, 7: {since: "6", own: 5}},
			map[int]process{1: busySelf, 7: {since: "6", own: 20}}, []int{7}, 0.15,
		},
		"a server that has begun": {
			50, map[int]process{1: self},
			map[int]process{1: busySelf, 7: {since: "6", own: 15}}, []int{7}, 0.15,
		},
		"a child that has ended and was waited for": {
			50, map[int]process{1: self, 7: {parent: 1, since: "6", own: 5}},
			map[int]process{1: {since: "5", own: 30, ended: 20}}, []int{7}, 0.15,
		},
		"somebody's child that has ended": {
			50, map[int]process{1: self, 7: {parent: 2, since: "6", own: 5}},
			map[int]process{1: busySelf}, []int{7}, math.NaN(),
		},
		"another under the number of one that has ended": {
			50, map[int]process{1: self, 7: {parent: 1, since: "6", own: 900}},
			map[int]process{1: {name: "self", since: "5", own: 10, ended: 900}, 7: {parent: 1, since: "8", own: 10}}, []int{7}, 0.4,
		},
		"nobody has this number":   {50, map[int]process{1: self}, map[int]process{1: busySelf}, []int{99}, 0.3},
		"more than all is no debt": {10, map[int]process{1: self}, map[int]process{1: busySelf}, nil, 0},
	} {
		u, later := between(c.busy, c.before, c.now)
		got := u.Between(later, c.own...).Others
		switch {
		case math.IsNaN(c.want) && got != nil:
			t.Errorf("%s: %v, want none", name, *got)
		case !math.IsNaN(c.want) && (got == nil || math.Abs(*got-c.want) > 1e-9):
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRivals checks whose use counts against the server's.
func TestRivals(t *testing.T) {
	at := func(own float64) process { return process{since: "5", own: own} }
	before := map[int]process{1: at(0), 2: at(0)}
	for _, c := range []struct {
		busy float64
		now  map[int]process
		want float64 // NaN: not available
	}{
		{50, map[int]process{1: at(20), 2: at(30)}, 0},
		{50, map[int]process{1: at(20), 2: at(24)}, 0.2},
		{50, map[int]process{1: at(20), 2: at(0)}, 1},
		{50, map[int]process{1: at(50), 2: at(0)}, math.NaN()},
		{50, nil, math.NaN()},
	} {
		u, later := between(c.busy, before, c.now)
		got := u.Between(later, 2).Rivals
		if (got == nil) != math.IsNaN(c.want) || got != nil && math.Abs(*got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBusiest checks the names reported. A compiler may live for less than a second, but
// its parent exists before and after.
func TestBusiest(t *testing.T) {
	u, later := between(50, map[int]process{
		1: {name: "self", since: "1"},
		2: {name: "make", since: "2", own: 5, ended: 1000},
		3: {name: "cc", parent: 2, since: "3", own: 40},
		4: {name: "idle", since: "4", own: 9},
		5: {name: "worker", since: "5", own: 10},
		6: {name: "worker", since: "6", own: 10},
		9: {name: "orphan", parent: 8, since: "9", own: 10},
	}, map[int]process{
		1: {name: "self", since: "1", own: 20},
		2: {name: "make", since: "2", own: 6, ended: 1060},
		4: {name: "idle", since: "4", own: 9},
		5: {name: "worker", since: "5", own: 13},
		6: {name: "worker", since: "6", own: 12},
		7: {name: "fresh", since: "7", own: 2},
	})
	for n, want := range map[int][]string{
		0: nil,
		2: {"make 21 %", "worker 5.0 %"},
		9: {"make 21 %", "worker 5.0 %", "fresh 2.0 %"},
	} {
		if got := u.busiest(later, n); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := u.busiest(later, 1, 2); !slices.Equal(got, []string{"worker 5.0 %"}) {
		t.Errorf("except the server: %q", got)
	}
	if m := u.Between(later, 2, 7); m.Busiest != "worker 5.0 %" {
		t.Errorf("named are %q", m.Busiest)
	}
}

// TestHeirs checks that a living ancestor is charged for what the ended ones did meanwhile, not for what they
// had done before, and that nobody has more than the machine.
func TestHeirs(t *testing.T) {
	before := map[int]process{
		1: {name: "self", since: "1"},
		2: {name: "bash", since: "2"},
		3: {name: "run.sh", parent: 2, since: "3", own: 5},
		4: {name: "burn", parent: 3, since: "4", own: 700},
		5: {name: "burn", parent: 4, since: "5", own: 95, ended: 3},
	}
	after := map[int]process{1: {name: "self", since: "1"}, 2: {name: "bash", since: "2", own: 1, ended: 800 + 22}}
	u, later := between(50, before, after)
	if got := u.busiest(later, 9); !slices.Equal(got, []string{"bash 20 %"}) { // 1 + 822 − 803
		t.Errorf("%q", got)
	}
	if m := u.Between(later, 2); m.Others == nil || math.Abs(*m.Others-0.3) > 1e-9 {
		t.Errorf("as the server's it leaves %v, want 0.3", m.Others)
	}
	after[2] = process{name: "bash", since: "2", ended: 5000} // of processes that nobody has seen
	u, later = between(50, before, after)
	if got := u.busiest(later, 9); !slices.Equal(got, []string{"bash 50 %"}) {
		t.Errorf("%q, and the CPUs were in use for half of the time", got)
	}
}

// TestNoTime checks that there is no difference from a snapshot to itself, or to an
// earlier one.
func TestNoTime(t *testing.T) {
	u, later := between(50, map[int]process{1: {}}, map[int]process{1: {}})
	for name, m := range map[string]Meanwhile{"itself": u.Between(u), "an earlier one": later.Between(Usage{}), "backwards": Usage{}.Between(u)} {
		if m != (Meanwhile{}) {
			t.Errorf("%s: %s", name, meanwhileText(m))
		}
	}
}

func TestParseProcess(t *testing.T) {
	const good = "77 (a (b) c) S 3 1 1 0 -1 4194560 1 1 1 1 10 20 5 6 20 0 1 0 9000 1 1 1"
	p, ok := parseProcess(good)
	if want := (process{"a (b) c", 3, "9000", 30, 11}); !ok || p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, bad := range []string{"", "77", "77 (", "77 )(", "77 (a) S 3", good[:40], "77 (a) S 3 1 1 0 -1 4194560 1 1 1 1 x 20 5 6 20 0 1 0 9000 1"} {
		if p, ok := parseProcess(bad); ok {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
}

// burned is how much CPU time the child of TestOwnProcess uses.
const burned = 300 * time.Millisecond

// burn is that child: it uses CPU time, reports it, and ends with its standard input.
func burn() {
	h := thisHost()
	for u := h.measure(); h.measure().processes[h.pid].own-u.processes[h.pid].own < float64(burned/tickLength); {
	}
	os.Stdout.WriteString("burned\n")
	io.Copy(io.Discard, os.Stdin)
}

// TestOwnProcess measures with a real child: if it is listed in own, its time does not
// count as others', while it runs and after it is reaped.
func TestOwnProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are counted on Linux only")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=burn")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	u := Measure()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Errorf("it says %q: %v", line, err)
	}
	alive := Measure()
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	ended := Measure()
	if _, known := alive.ours(ended, []int{pid}); !known {
		t.Error("the child was waited for, and what it used is not known")
	}
	least := float64(burned / tickLength)
	without, known := u.ours(alive, nil)
	with, also := u.ours(alive, []int{pid})
	if !known || !also || with-without < least {
		t.Errorf("%v ticks of the child's, %v without it; it used %v", with, without, least)
	}
	if after, known := u.ours(ended, []int{pid}); !known || after < with {
		t.Errorf("%v ticks once it was waited for, %v before", after, with)
	}
	m := u.Between(ended, pid)
	for name, part := range map[string]*float64{"others": m.Others, "steal": m.Steal} {
		if part == nil || *part < 0 || *part > 1 {
			t.Errorf("%s: %v", name, part)
		}
	}
	if names := u.busiest(ended, 1); len(names) > 1 {
		t.Errorf("of one name there are %q", names)
	}
}

func BenchmarkMeasure(b *testing.B) {
	processes := 0
	for b.Loop() {
		processes = len(Measure().processes)
	}
	b.ReportMetric(float64(processes), "processes")
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		Read()
	}
}

func TestVitals(t *testing.T) {
	at := func(stat, retransmits string) Vitals {
		h := &host{root: fstest.MapFS{
			"proc/stat":     {Data: []byte("cpu  " + stat + " 0 0\ncpu0 1 2\n")},
			"proc/net/snmp": {Data: []byte("Ip: Forwarding RetransSegs\nIp: 1 7\nTcp: RtoMin RetransSegs InErrs\nTcp: 200 " + retransmits + " 0\nUdp: RetransSegs\nUdp: 9\n")},
		}}
		return h.vitals()
	}
	first, later := at("100 0 100 700 50 20 20 10", "40"), at("110 5 115 750 60 25 25 10", "43")
	busy, interrupts, steal, retransmits := later.Since(first)
	if busy != 0.4 || interrupts != 0.1 || steal != 0 || retransmits != 3 {
		t.Error(busy, interrupts, steal, retransmits)
	}
	if busy, _, steal, retransmits := later.Since(Vitals{}); !math.IsNaN(busy+steal) || !math.IsNaN(retransmits) {
		t.Error("the first reading has a before:", busy, steal, retransmits)
	}
	nothing := (&host{root: embed.FS{}}).vitals()
	if busy, _, _, retransmits := nothing.Since(nothing); !math.IsNaN(busy) || !math.IsNaN(retransmits) {
		t.Error("a machine without files:", busy, retransmits)
	}
}
