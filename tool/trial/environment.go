package trial

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/record"
)

// environment describes everything but the program that the server's figures depend on.
func (s *serverSide) environment(target codec.Target) record.Environment {
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
// machine and the network path to the target, if there is one.
func Environment(target codec.Target) record.Environment {
	facts := machine.Read()
	if target != nil {
		facts.Strict["topology"] = Topology(target)
	}
	return record.Environment{Strict: facts.Strict, Soft: facts.Soft}
}

// Topology returns how the load reaches the server: "loopback", "unix" or "network".
func Topology(target codec.Target) string {
	topology, _, _ := place(target)
	return topology
}

// Elsewhere reports whether a target's address is one of another machine. A name may be either's.
func Elsewhere(target codec.Target) bool {
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
func Listeners(target codec.Target) []int {
	topology, port, _ := place(target)
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && topology == "loopback" {
		return machine.Listeners(uint16(n))
	}
	return nil
}

// place returns the topology, and the port and host of a TCP address.
func place(target codec.Target) (topology, port, host string) {
	to, _ := target.Prepare(codec.Load{}) // what is wrong with it is said when it is loaded
	if to.Network == "unix" {
		return "unix", "", ""
	}
	host, port, err := net.SplitHostPort(to.Address)
	if err != nil {
		host = to.Address
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "loopback", port, host
	}
	return "network", port, host
}
