// Package source parses the local addresses that connections come from.
package source

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// Addresses are local addresses, for example
//
//	127.0.0.1-127.0.0.20          from one to another
//	10.0.0.0/28                   the hosts of a network; in IPv4 without the network and broadcast addresses
//	10.0.0.5,10.0.0.9-10.0.0.12   several of these
//
// The zero Addresses is empty: the system chooses.
type Addresses struct {
	text  string
	spans []span
	count uint64
}

// span is a range of count consecutive addresses.
type span struct {
	first netip.Addr
	count uint64
}

const most = 1 << 24

var errMany = fmt.Errorf("name %d at most", most)

// UnmarshalText parses addresses as above.
func (a *Addresses) UnmarshalText(text []byte) error {
	read := Addresses{text: string(text)}
	for word := range strings.SplitSeq(string(text), ",") {
		s, err := parse(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("load: there are no source addresses %q; %w", word, err)
		}
		read.spans = append(read.spans, s)
		if read.count += s.count; read.count > most {
			return fmt.Errorf("load: there are no source addresses %q; %w", text, errMany)
		}
	}
	*a = read
	return nil
}

func parse(word string) (span, error) {
	first, last, isRange := strings.Cut(word, "-")
	from, err := netip.ParseAddr(first)
	switch {
	case strings.Contains(word, "/"):
		return parseNetwork(word)
	case err != nil:
		return span{}, errors.New("write them as 127.0.0.1-127.0.0.20, 10.0.0.0/28, or with commas between several")
	case !isRange:
		return span{from, 1}, nil
	}
	to, err := netip.ParseAddr(last)
	if err != nil || to.BitLen() != from.BitLen() || to.Zone() != from.Zone() || to.Less(from) {
		return span{}, errors.New("end the range with a higher address of the same kind")
	}
	count := distance(from, to)
	if count >= most {
		return span{}, errMany
	}
	return span{from, count + 1}, nil
}

// parseNetwork parses a network into the range of its hosts.
func parseNetwork(word string) (span, error) {
	p, err := netip.ParsePrefix(word)
	if err != nil {
		return span{}, errors.New("write a network as in 10.0.0.0/28")
	}
	free := p.Addr().BitLen() - p.Bits()
	if free > 24 {
		return span{}, errMany
	}
	s := span{p.Masked().Addr(), 1 << free}
	if p.Addr().Is4() && free > 1 {
		s.first = s.first.Next()
		s.count -= 2
	}
	return s, nil
}

// distance returns how far b is above a; both are of the same family.
func distance(a, b netip.Addr) uint64 {
	x, y := a.As16(), b.As16()
	far := uint64(0)
	for i := range x {
		if far > math.MaxUint64>>9 {
			return math.MaxUint64
		}
		far = far<<8 + uint64(y[i]) - uint64(x[i]) // digits below 0 wrap around and the sum is still right
	}
	return far
}

// String returns the addresses as they were written; empty for none.
func (a Addresses) String() string { return a.text }

// Len returns how many addresses there are.
func (a Addresses) Len() int { return int(a.count) }

// At returns the address of connection n, round robin. It panics if there are none.
func (a Addresses) At(n uint64) netip.Addr {
	n %= a.count
	for _, s := range a.spans {
		if n < s.count {
			return s.at(n)
		}
		n -= s.count
	}
	panic("source: no addresses")
}

// at returns the n-th address of the span.
func (s span) at(n uint64) netip.Addr {
	bytes := s.first.As16()
	for i := len(bytes) - 1; i >= 0 && n > 0; i-- {
		n += uint64(bytes[i])
		bytes[i] = byte(n)
		n >>= 8
	}
	a := netip.AddrFrom16(bytes).WithZone(s.first.Zone())
	if s.first.Is4() {
		return a.Unmap()
	}
	return a
}
