package trial

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/record"
)

// environment describes everything but the program that the server's figures depend on.
func (s *subject) environment(target load.Target) record.Environment {
	e := Environment(target)
	noteVariables(e, append(os.Environ(), s.Env...))
	e.Soft["command"] = digest(s.Command)
	if s.Build != "" {
		e.Soft["build"] = digest(s.Build)
	}
	return e
}

// noteVariables adds the variables that the Go runtime reads.
func noteVariables(e record.Environment, variables []string) {
	for name, to := range map[string]map[string]string{"GOMAXPROCS": e.Strict, "GOGC": e.Soft, "GOMEMLIMIT": e.Soft, "GODEBUG": e.Soft} {
		for _, v := range variables { // the last one wins
			if value, ok := strings.CutPrefix(v, name+"="); ok && value != "" {
				to[name] = value
			}
		}
	}
}

// digest makes commands comparable without storing them: runs are shared, and commands
// may contain passwords.
func digest(command string) string {
	return fmt.Sprintf("sha256 %.12x", sha256.Sum256([]byte(command)))
}

// Environment describes what is known without access to the server: the load generator's
// machine and the network path to the target.
func Environment(target load.Target) record.Environment {
	facts := machine.Read()
	facts.Strict["topology"] = Topology(target)
	return record.Environment{Strict: facts.Strict, Soft: facts.Soft}
}

// Topology returns how the load reaches the server: "loopback", "unix" or "network".
func Topology(target load.Target) string {
	topology, _, _ := place(target)
	return topology
}

// Elsewhere reports whether a target's address is one of another machine. A name may be either's.
func Elsewhere(target load.Target) bool {
	topology, _, host := place(target)
	ip := net.ParseIP(strings.Trim(host, "[]"))
	addresses, err := net.InterfaceAddrs()
	return topology == "network" && ip != nil && err == nil && !slices.ContainsFunc(addresses, func(a net.Addr) bool {
		one, ok := a.(*net.IPNet)
		return ok && one.IP.Equal(ip)
	})
}

// Listeners returns the processes of this machine that serve a target at a loopback address, as far
// as they can be seen.
func Listeners(target load.Target) []int {
	topology, port, _ := place(target)
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && topology == "loopback" {
		return machine.Listeners(uint16(n))
	}
	return nil
}

// place returns the topology, and the port and host of a TCP address.
func place(target load.Target) (topology, port, host string) {
	text := target.String()
	switch t := target.(type) { // by the address connected to, whatever the URL says
	case load.HTTP:
		text = cmp.Or(t.Address, text)
	case load.WebSocket:
		text = cmp.Or(t.Address, text)
	}
	if strings.HasPrefix(text, "unix") {
		return "unix", "", ""
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		rest = text
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = rest, map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[scheme]
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "loopback", port, host
	}
	return "network", port, host
}
