package load

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// resources are the limits of this machine for connections. A value of 0 is unknown.
type resources struct {
	descriptors uint64
	ports       int           // for connections from one address to another
	held        time.Duration // how long a port stays in use after its connection (TIME_WAIT)
}

const (
	spareDescriptors = 64
	manyConns        = 1000
	briefly          = 10 // a tenth of the churn connections of a second is assumed to be open at once
	defaultHeld      = time.Minute
	reusedHeld       = time.Second
)

// preflight fails, before a thousand connections or more are opened, if this machine cannot have
// them open at once.
func (p Plan) preflight() error {
	p.Conns, p.Idle, p.Churn = p.Partition.count(p.Conns), p.Partition.count(p.Idle), p.Churn/float64(p.Partition.of())
	if p.Conns+p.Idle < manyConns && p.Churn == 0 {
		return nil
	}
	return p.fitsInto(machineResources(p.leadsHere()))
}

// fitsInto compares what the plan needs with what is available.
func (p Plan) fitsInto(have resources) error {
	conns := p.Conns + p.Idle
	need := uint64(conns) + uint64(math.Ceil(p.Churn/briefly)) + spareDescriptors
	if have.descriptors > 0 && need > have.descriptors {
		return &Error{
			Kind: Unreachable, Err: syscall.EMFILE, Target: p.Target.String(),
			What: fmt.Sprintf("%d connections need %d descriptors, and the limit is %d", conns, need, have.descriptors),
			Try:  fmt.Sprintf("raise it with ulimit -n %d, or use fewer connections", need),
		}
	}
	if p.route.Network != "tcp" || have.ports == 0 {
		return nil
	}
	churn := p.Churn * min(have.held, p.Warmup+p.For).Seconds()
	ports := conns + int(math.Ceil(min(churn, math.MaxInt32)))
	addresses := max(p.Sources.Len(), 1)
	if ports <= addresses*have.ports {
		return nil
	}
	sources := "1 source address"
	if addresses > 1 {
		sources = fmt.Sprintf("%d source addresses", addresses)
	}
	return &Error{
		Kind: Unreachable, Err: syscall.EADDRNOTAVAIL, Target: p.Target.String(),
		What: fmt.Sprintf("the connections need %d local ports, and there are %d for each of %s%s",
			ports, have.ports, sources, p.whyPorts(have)),
		Try: p.moreSources((ports+have.ports-1)/have.ports) + ", or widen net.ipv4.ip_local_port_range",
	}
}

// whyPorts explains how the churn uses up ports.
func (p Plan) whyPorts(have resources) string {
	if p.Churn == 0 {
		return ""
	}
	return fmt.Sprintf(" (a port is not free for %v after its connection)", have.held)
}

// moreSources suggests how to get n source addresses.
func (p Plan) moreSources(n int) string {
	if p.leadsHere() && n < 1<<16 {
		return fmt.Sprintf("use --source 127.0.0.1-127.0.%d.%d", n>>8, n&0xff)
	}
	return fmt.Sprintf("use %d source addresses (--source)", n)
}

// leadsHere reports whether the target is on this machine's loopback network.
func (p Plan) leadsHere() bool {
	host, _, err := net.SplitHostPort(p.route.Address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// machineResources reads the limits from the system.
func machineResources(loopback bool) resources {
	var have resources
	if limit, known := sys.DescriptorLimit(); known {
		have.descriptors = limit
	}
	if fields := settings("ip_local_port_range"); len(fields) == 2 && fields[1] >= fields[0] {
		have.ports = fields[1] - fields[0] + 1
	}
	have.held = defaultHeld
	const everywhere, onLoopback = 1, 2
	if reuse := settings("tcp_tw_reuse"); len(reuse) == 1 && (reuse[0] == everywhere || reuse[0] == onLoopback && loopback) {
		have.held = reusedHeld
	}
	return have
}

// settings reads the numbers of one of the kernel's IP settings; none if it does not exist.
func settings(name string) (numbers []int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		return nil
	}
	for field := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}
