package http1

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Forwarded says which reverse proxies stand in front of a server, and in which header they
// pass on the client's address. Request.RemoteAddr is then that address, with port 0 if the
// header has none: the right-most one that is not a proxy's, since what is to the left of it
// may be made up by the client. Where the header is missing or malformed, and for connections
// from other addresses, RemoteAddr stays the peer's.
type Forwarded struct {
	// Header is X-Forwarded-For or Forwarded (RFC 7239), whichever the proxies set. They must
	// not pass on the other one as their own. Zero: the proxies set none.
	Header string
	// Proxies are the addresses of the proxies. Limits.ConnsPerAddress does not count them.
	Proxies []netip.Prefix
}

// handler returns h with the clients' addresses in its requests.
func (f *Forwarded) handler(h http.Handler) http.Handler {
	name := http.CanonicalHeaderKey(f.Header)
	hops := func(field string) []string { return strings.Split(field, ",") }
	if name == "Forwarded" {
		hops = forwardedFor
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if values := r.Header[name]; len(values) > 0 {
			if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && f.trusts(peer.Addr()) {
				if client, ok := f.client(hops(strings.Join(values, ","))); ok {
					r.RemoteAddr = client.String()
				}
			}
		}
		h.ServeHTTP(w, r)
	})
}

func (f *Forwarded) trusts(a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(f.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client returns the right-most hop that is not a proxy, or the left-most one if all are.
func (f *Forwarded) client(hops []string) (client netip.AddrPort, ok bool) {
	for _, hop := range slices.Backward(hops) {
		a, good := parseHop(strings.Trim(hop, " \t"))
		if !good {
			return netip.AddrPort{}, false
		}
		if client = a; !f.trusts(a.Addr()) {
			break
		}
	}
	return client, client.IsValid()
}

// parseHop parses an address with or without a port, IPv6 in brackets or not.
func parseHop(s string) (a netip.AddrPort, ok bool) {
	if bare, found := strings.CutPrefix(s, "["); found {
		if bare, found = strings.CutSuffix(bare, "]"); found {
			s = bare
		}
	}
	addr, err := netip.ParseAddr(s)
	if err == nil {
		a = netip.AddrPortFrom(addr, 0)
	} else if a, err = netip.ParseAddrPort(s); err != nil {
		return a, false
	}
	if a.Addr().Zone() != "" {
		return a, false // a zone means something on its own machine only
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), true
}

// forwardedFor returns the for parameters of a Forwarded field, one for each hop: "" where
// there is none, and nothing if the field is malformed.
func forwardedFor(field string) (hops []string) {
	hop, found := "", false
	for {
		field = strings.TrimLeft(field, " \t")
		name, rest, ok := strings.Cut(field, "=")
		value, rest, good := parameterValue(rest)
		if !ok || !good || !isToken(name) {
			return nil
		}
		if strings.EqualFold(name, "for") {
			if found {
				return nil // twice in one hop
			}
			hop, found = value, true
		}
		if field = strings.TrimLeft(rest, " \t"); field == "" {
			return append(hops, hop)
		}
		switch field[0] {
		case ',':
			hops = append(hops, hop)
			hop, found = "", false
		case ';':
		default:
			return nil
		}
		field = field[1:]
	}
}

// parameterValue parses a token or a quoted string at the front of s.
func parameterValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		n := 0
		for n < len(s) && bytesOf[s[n]]&tokenByte != 0 {
			n++
		}
		return s[:n], s[n:], n > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
