package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// Check is the result of one check for a source of noise.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"` // empty: not known
	// Want ends in the value that Fix sets, if there is a Fix.
	Want string `json:"want"`
	Why  string `json:"why"`
	// Fix is the command to type, with sudo where it needs root and this process is not
	// root. It lasts until the next boot; only settings of Go itself stay. Empty: nothing
	// needs fixing, or no command does it and Why says what does. It may name folders of
	// this machine.
	Fix string `json:"fix"`
}

// State is the outcome of a Check.
type State string

// The states.
const (
	OK      State = "ok"
	Warn    State = "warn"    // figures may differ because of it
	Bad     State = "bad"     // figures will be wrong because of it
	Unknown State = "unknown" // cannot be determined here
)

// sampleTime is how long Checks watches other processes.
const sampleTime = time.Second

// Checks checks every known source of noise. It takes a second, in which it watches other
// processes.
func Checks() []Check { return thisHost().checks(sampleTime) }

// QuickChecks is Checks without that second: checks that need it are Unknown.
func QuickChecks() []Check { return thisHost().checks(0) }

// checks makes all checks, in the order of display.
func (h *host) checks(sample time.Duration) []Check {
	var first, later Usage
	if sample > 0 {
		first = h.measure()
		h.wait(sample)
		later = h.measure()
	}
	meanwhile := first.Between(later)
	usable := h.usable()
	stolen, stealing := judge(meanwhile.Steal, quietSteal, loudSteal)
	all := []Check{
		{
			Name: "cpus", State: stateOf(usable.count > 0, usable.count > 1, Bad), Found: usable.String(), Want: "at least 2",
			Why: "generator and server share the only CPU, so figures are of both; give hone more CPUs, or load from another machine",
		},
		h.checkLimit(),
		h.checkOthers(meanwhile, first.busiest(later, 3)),
		{
			Name: "steal", State: stealing, Found: stolen, Want: "at most " + percent(quietSteal),
			Why: "steal time: the host runs other machines on this one's CPUs; measure at another time, or on a dedicated machine",
		},
		Check{
			Name: "virtual", Found: h.virtual(), Want: "none",
			Why: "other machines on the same host come and go, so runs an hour apart may differ; alternate A and B, and compare them with --pairs",
		}.oneOf("none", "container"), // limits of a container have their own checks
		Check{
			Name: "governor", Found: h.each(governors), Want: "performance", Fix: setFiles("performance", governors),
			Why: "CPU frequency follows the load with a delay: a lightly loaded server looks slower than it is",
		}.oneOf("performance"),
		h.checkTurbo(), h.checkSMT(), h.checkPower(), h.checkClock(), h.checkMemory(), h.checkSwap(),
		Check{
			Name: "thp", Found: h.hugePages(), Want: "never or madvise", Fix: setFiles("madvise", "sys/kernel/mm/transparent_hugepage/enabled"),
			Why: "the kernel merges pages in the background: memory figures jump by 2 MiB, and a run is slower meanwhile",
		}.oneOf("never", "madvise"),
		h.checkDescriptors(), h.checkPorts(),
		h.atLeast("backlog", "net.core.somaxconn", wantBacklog, "connections that find the accept queue full are dropped, and retry a second later"),
	}
	for i := range all {
		h.finish(&all[i])
	}
	return all
}

// finish clears what does not apply to a check's state.
func (h *host) finish(c *Check) {
	if c.State == OK || c.State == Unknown {
		c.Fix = ""
	}
	if h.superuser {
		c.Fix = strings.Replace(c.Fix, "sudo ", "", 1)
	}
}

// stateOf returns a state: Unknown, OK or, where there is noise, that state.
func stateOf(is, quiet bool, noisy State) State {
	switch {
	case !is:
		return Unknown
	case quiet:
		return OK
	}
	return noisy
}

// oneOf judges what was found by the values that make no noise.
func (c Check) oneOf(quiet ...string) Check {
	c.State = stateOf(c.Found != "", slices.Contains(quiet, c.Found), Warn)
	return c
}

// setSysctl returns the command that sets a sysctl.
func setSysctl(name, value string) string {
	if strings.Contains(value, " ") {
		value = `"` + value + `"`
	}
	return "sudo sysctl -w " + name + "=" + value
}

// setFiles returns the command that writes to all files matching a pattern.
func setFiles(value, pattern string) string {
	return "echo " + value + " | sudo tee /" + pattern
}

// setFile does the same for one file whose name others have chosen.
func setFile(value, name string) string {
	return "echo " + value + " | sudo tee " + figure.Quoted("/"+name)
}

const (
	manyConns       = 10_000        // a measurement should be able to open
	wantDescriptors = 2 * manyConns // a hone server uses half of the limit
	leastFiles      = 1024          // with fewer, not even small measurements work
)

func (h *host) checkDescriptors() Check {
	l := h.descriptors()
	c := Check{
		Name: "descriptors", State: OK, Found: l.String(), Want: "at least " + strconv.Itoa(wantDescriptors),
		Why: "every connection needs a descriptor, and a server uses half of its limit: " +
			"with fewer it cannot open " + strconv.Itoa(manyConns) + " connections",
	}
	want := strconv.Itoa(wantDescriptors)
	switch {
	case !l.known:
		c.State = Unknown
	case l.soft >= wantDescriptors:
	case l.hard >= wantDescriptors:
		c.State, c.Fix = Warn, "ulimit -n "+want
	default:
		c.State, c.Fix = Warn, "sudo prlimit --pid $$ --nofile="+want+":"+want
	}
	if c.State == Warn && l.soft < leastFiles {
		c.State = Bad
	}
	return c
}

// defaultPorts is the number of ephemeral ports that Linux has by default.
const defaultPorts = 28_232

func (h *host) checkPorts() Check {
	const name = "net.ipv4.ip_local_port_range"
	c := Check{
		Name: "ports", State: Unknown, Found: h.sysctl(name), Want: "at least " + strconv.Itoa(defaultPorts),
		Why: "a client needs one port per connection to the same address, and a closed connection holds its port for a minute (TIME_WAIT)",
	}
	var from, to int
	if n, _ := fmt.Sscan(c.Found, &from, &to); n != 2 || from > to {
		c.Found = ""
		return c
	}
	count := to - from + 1
	if c.State = OK; count < defaultPorts {
		c.State, c.Want, c.Fix = Warn, "10240 65535", setSysctl(name, "10240 65535")
	}
	c.Found = fmt.Sprintf("%d (%d-%d)", count, from, to)
	return c
}

// atLeast checks a kernel setting against a lower limit.
func (h *host) atLeast(name, setting string, limit int, why string) Check {
	want := strconv.Itoa(limit)
	c := Check{Name: name, Found: h.sysctl(setting), Want: "at least " + want, Why: why, Fix: setSysctl(setting, want)}
	n, err := strconv.Atoi(c.Found)
	c.State = stateOf(err == nil, n >= limit, Warn)
	return c
}

const wantBacklog = 4096 // Linux's default since 5.4
