// Package admission decides for which new connections a server has room: how many an address may
// have, which idle connection gives way, and how a refused one learns why.
package admission

import (
	"math"
	"net/netip"
	"slices"
)

// Addresses counts the connections of each host. The server's mutex guards it.
type Addresses struct {
	limit     int // math.MaxInt32: none
	uncounted []netip.Prefix
	hosts     map[netip.Addr]int // see Host
}

// Init sets the limit, and the addresses to which it does not apply.
func (a *Addresses) Init(limit int, uncounted []netip.Prefix) {
	a.limit, a.uncounted, a.hosts = limit, uncounted, map[netip.Addr]int{}
}

// Len returns how many hosts have connections.
func (a *Addresses) Len() int { return len(a.hosts) }

// HasPlace reports whether addr may have one more connection.
func (a *Addresses) HasPlace(addr netip.Addr) bool {
	return !a.isCounted(addr) || a.hosts[Host(addr)] < a.limit
}

// Count adds a connection to addr's count if the limit allows.
func (a *Addresses) Count(addr netip.Addr, counted *bool) bool {
	if !a.HasPlace(addr) {
		return false
	}
	if a.isCounted(addr) {
		a.hosts[Host(addr)]++
		*counted = true
	}
	return true
}

// Uncount takes a counted connection from the count.
func (a *Addresses) Uncount(addr netip.Addr) {
	host := Host(addr)
	if a.hosts[host]--; a.hosts[host] == 0 {
		delete(a.hosts, host)
	}
}

// isCounted reports whether the limit applies to addr.
func (a *Addresses) isCounted(addr netip.Addr) bool {
	return a.limit < math.MaxInt32 && addr.IsValid() && !Within(a.uncounted, addr)
}

// Host returns the key for limits per address: the address itself, or the /64 prefix of an IPv6
// address, because a host can choose the other 64 bits freely.
func Host(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(64) // drops the zone
	if err != nil {
		return addr
	}
	return network.Addr().WithZone(addr.Zone())
}

// Within reports whether one of the prefixes contains addr.
func Within(all []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(addr) })
}
