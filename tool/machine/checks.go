package machine

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Check is what was found of one thing that can spoil a measurement.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"` // empty: nothing is known
	// Want ends in the value that Fix sets, where there is a Fix.
	Want string `json:"want"`
	Why  string `json:"why"`
	// Fix is the command to type, with sudo where it needs root and this process
	// is not. It lasts until the next boot at most; only that for Go itself stays.
	// Empty: nothing has to be done, or no command does it and Why says what does.
	// It may name folders of this machine.
	Fix string `json:"fix"`
}

// State is how a Check came out.
type State string

// The states.
const (
	OK      State = "ok"
	Warn    State = "warn"    // figures may differ by it
	Bad     State = "bad"     // figures will be wrong by it
	Unknown State = "unknown" // cannot be seen here
)

// sampleTime is how long Checks watches what others do.
const sampleTime = time.Second

// Checks looks at everything that is known to spoil measurements. For one second
// of it, it watches what others do.
func Checks() []Check { return thisHost().checks(sampleTime) }

// QuickChecks is Checks without that second: what needs it is Unknown.
func QuickChecks() []Check { return thisHost().checks(0) }

// checks makes all of them, in the order in which people should read them.
func (h *host) checks(sample time.Duration) []Check {
	var first, later Usage
	if sample > 0 {
		first = h.measure()
		h.wait(sample)
		later = h.measure()
	}
	meanwhile := first.Between(later)
	all := []Check{
		h.checkCPUs(), h.checkLimit(),
		h.checkOthers(meanwhile, first.busiest(later, 3)), h.checkSteal(meanwhile), h.checkVirtual(),
		h.checkGovernor(), h.checkTurbo(), h.checkSMT(), h.checkPower(), h.checkClock(),
		h.checkMemory(), h.checkSwap(), h.checkHugePages(),
		h.checkDescriptors(), h.checkPorts(), h.checkBacklog(), h.checkHandshakes(), h.checkTracking(),
		h.checkGo(), h.checkProfiles(),
	}
	for i := range all {
		h.finish(&all[i])
	}
	return all
}

// finish makes a check say nothing that does not follow from its state.
func (h *host) finish(c *Check) {
	if c.State == OK || c.State == Unknown {
		c.Fix = ""
	}
	if h.superuser {
		c.Fix = strings.Replace(c.Fix, "sudo ", "", 1)
	}
}

// setSysctl is the command that sets one.
func setSysctl(name, value string) string {
	if strings.Contains(value, " ") {
		value = `"` + value + `"`
	}
	return "sudo sysctl -w " + name + "=" + value
}

// setFiles is the command that writes to the files of a pattern.
func setFiles(value, pattern string) string {
	return "echo " + value + " | sudo tee /" + pattern
}

// setFile is the same for one file, whose name somebody else has chosen.
func setFile(value, name string) string {
	quoted := "/" + name
	if strings.Trim(quoted, plainLetters) != "" {
		quoted = "'" + strings.ReplaceAll(quoted, "'", `'\''`) + "'"
	}
	return "echo " + value + " | sudo tee " + quoted
}

// plainLetters mean nothing to a shell.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-,:@%+="

const (
	manyConns       = 10_000        // what a measurement should be able to have
	wantDescriptors = 2 * manyConns // a server of hone's takes half of what it may
	leastFiles      = 1024          // below it, not even small measurements work
)

func (h *host) checkDescriptors() Check {
	l := h.descriptors()
	c := Check{
		Name: "descriptors", State: OK, Found: l.String(), Want: "at least " + strconv.Itoa(wantDescriptors),
		Why: "every connection is a descriptor, and a server takes half of what it may open: " +
			"with fewer there are no " + strconv.Itoa(manyConns) + " connections",
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

// usualPorts is how many ports for connections outwards Linux has by itself.
const usualPorts = 28_232

func (h *host) checkPorts() Check {
	const name = "net.ipv4.ip_local_port_range"
	c := Check{
		Name: "ports", State: Unknown, Found: h.sysctl(name), Want: "at least " + strconv.Itoa(usualPorts),
		Why: "a client has one port for each connection to the same address, and a closed connection keeps its port for a minute",
	}
	var from, to int
	if n, _ := fmt.Sscan(c.Found, &from, &to); n != 2 || from > to {
		c.Found = ""
		return c
	}
	count := to - from + 1
	if c.State = OK; count < usualPorts {
		c.State, c.Want, c.Fix = Warn, "10240 65535", setSysctl(name, "10240 65535")
	}
	c.Found = fmt.Sprintf("%d (%d-%d)", count, from, to)
	return c
}

// atLeast judges a number by the least that it should be.
func (c Check) atLeast(want int) Check {
	n, err := strconv.Atoi(c.Found)
	switch {
	case err != nil:
		c.State = Unknown
	case n >= want:
		c.State = OK
	default:
		c.State = Warn
	}
	return c
}

const wantBacklog = 4096 // what Linux has by itself since 5.4

func (h *host) checkBacklog() Check {
	const name = "net.core.somaxconn"
	want := strconv.Itoa(wantBacklog)
	return Check{
		Name: "backlog", Found: h.sysctl(name), Want: "at least " + want,
		Why: "connections that arrive together and find the queue full are dropped, and try again a second later",
		Fix: setSysctl(name, want),
	}.atLeast(wantBacklog)
}

// checkHandshakes looks at connections that are half open: with cookies the
// kernel does not drop them for want of room.
func (h *host) checkHandshakes() Check {
	const backlog, cookies = "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_syncookies"
	found, mode := h.sysctl(backlog), h.sysctl(cookies)
	want := strconv.Itoa(wantBacklog)
	c := Check{
		Name: "handshakes", Found: found, Want: "cookies, or at least " + want,
		Why: "without cookies, a burst of new connections beyond this is dropped, and tries again a second later",
		Fix: setSysctl(backlog, want),
	}.atLeast(wantBacklog)
	switch mode {
	case "0":
		c.Found += ", no cookies"
	case "1":
		c.Found, c.State = strings.TrimPrefix(found+", cookies", ", "), OK
	case "2":
		c.Found, c.State = "cookies always", Warn
		c.Want, c.Fix = "tcp_syncookies=1", setSysctl(cookies, "1")
		c.Why = "with cookies for every connection, TCP does without some of its options"
	default:
		c.State = Unknown
	}
	return c
}

const wantTracked = 262_144

// checkTracking looks at the firewall's table of connections, where there is one.
func (h *host) checkTracking() Check {
	const name = "net.netfilter.nf_conntrack_max"
	want := strconv.Itoa(wantTracked)
	c := Check{
		Name: "conntrack", Found: h.sysctl(name), Want: "at least " + want,
		Why: "the firewall keeps every connection in a table, closed ones for two minutes; when it is full, packets are dropped",
		Fix: setSysctl(name, want),
	}.atLeast(wantTracked)
	if c.Found == "" && h.exists("proc/sys/net/core") {
		c.State, c.Found = OK, "not in use"
	}
	return c
}

func (h *host) checkProfiles() Check {
	const name = "kernel.perf_event_paranoid"
	c := Check{
		Name: "perf", Found: h.sysctl(name), Want: "at most 1",
		Why: "perf does not show where the kernel spends its time; Go's own profiles are not concerned",
		Fix: setSysctl(name, "1"),
	}
	n, err := strconv.Atoi(c.Found)
	switch {
	case err != nil:
		c.State = Unknown
	case n <= 1:
		c.State = OK
	case h.superuser:
		c.State, c.Found = OK, c.Found+", but not for root"
	default:
		c.State = Warn
	}
	return c
}

// Go 1.26 came in February 2026, and every half year brings the next; two of them
// get corrections.
const (
	knownGo      = 26
	knownGoMonth = 2026*12 + 1
)

func (h *host) checkGo() Check {
	newest := knownGo + max(0, h.today.Year()*12+int(h.today.Month())-1-knownGoMonth)/6
	want := fmt.Sprintf("go1.%d", newest-1)
	c := Check{
		Name: "go", State: Unknown, Found: h.release, Want: "at least " + want,
		Why: "a release comes every half year and only the last two get corrections; this hone was built with " + h.release,
		Fix: "go env -w GOTOOLCHAIN=" + want + ".0+auto",
	}
	rest, found := strings.CutPrefix(h.release, "go1.")
	minor, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(minor); found && err == nil {
		if c.State = OK; n < newest-1 {
			c.State = Warn
		}
	}
	return c
}
