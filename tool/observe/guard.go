package observe

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// shortestToken keeps guessing hopeless: nothing here slows a guesser down.
const shortestToken = 16

// mayServe says why addr may not be served, or nil.
func (a *Admin) mayServe(addr net.Addr) error {
	switch {
	case strings.ContainsFunc(a.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("observe: the token has blanks, line ends or other characters that no header carries; " +
			"strip them, or make one with: openssl rand -hex 16")
	case thisMachine(addr) || len(a.Token) >= shortestToken:
		return nil
	}
	return fmt.Errorf("observe: not listening on %v: %w", addr, ErrNoToken)
}

// thisMachine reports whether only this machine reaches a local address.
func thisMachine(local net.Addr) bool {
	switch local := local.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return local.IP.IsLoopback()
	}
	return false
}

// localAddr is our end of the request's connection; nil where nobody says.
func localAddr(r *http.Request) net.Addr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr
}

// guard lets through to next what may be answered.
func (a *Admin) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case !a.knowsHost(r):
			http.Error(w, "this host name is not served here; use the address itself, or add the name to Admin.Hosts", http.StatusForbidden)
		case cross.Check(r) != nil:
			http.Error(w, "a page of another origin may not ask for this", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		case r.URL.Query().Has("token"):
			http.Error(w, "a token in a URL ends up in logs; send it as Authorization: Bearer TOKEN, and replace this one", http.StatusBadRequest)
		case open(r.URL.Path) || a.admits(w, r):
			next.ServeHTTP(w, r)
		}
	})
}

// open reports whether everybody who can connect may see a path.
func open(path string) bool {
	switch path {
	case "/healthz", "/metrics", "/stats":
		return true
	}
	return false
}

// admits reports whether r may see what is not open, and answers if not.
func (a *Admin) admits(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case a.Token != "" && a.hasToken(r):
		return true
	case a.Token != "":
		w.Header().Set("WWW-Authenticate", `Bearer realm="hone admin"`)
		http.Error(w, "send the admin token as Authorization: Bearer TOKEN", http.StatusUnauthorized)
	case !thisMachine(localAddr(r)):
		http.Error(w, "only over loopback or a unix socket while Admin.Token is not set", http.StatusForbidden)
	case fromElsewhere(r):
		http.Error(w, "not from another site's page; open this address by itself", http.StatusForbidden)
	default:
		return true
	}
	return false
}

// hasToken compares in constant time, whatever the lengths.
func (a *Admin) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(a.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// fromElsewhere reports whether a browser says that another site's page made
// it ask. Such a page cannot read the answer, but the asking alone would start
// a profile, and GET passes http.CrossOriginProtection.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return true
}

// knowsHost reports whether the request came under a name that is ours: one
// that another's DNS can point to us is not. Browsers do not reach unix sockets.
func (a *Admin) knowsHost(r *http.Request) bool {
	local := localAddr(r)
	if _, ok := local.(*net.UnixAddr); ok {
		return true
	}
	host := hostName(r.Host)
	if host == "localhost" {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		if ip.IsLoopback() {
			return true
		}
		if tcp, ok := local.(*net.TCPAddr); ok && tcp.AddrPort().Addr().Unmap().WithZone("") == ip {
			return true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	same := func(name string) bool { return host != "" && hostName(name) == host }
	return slices.ContainsFunc(a.Hosts, same) || slices.ContainsFunc(a.bound, same)
}

// hostName is a Host header without its port, in one spelling.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
