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
	"sync"
)

// shortestToken makes guessing hopeless: nothing here limits the rate of guesses.
const shortestToken = 16

// Guard is the access control of an Admin, and of any other page of this kind: see the
// package. Fill in the fields before its first use; the zero value allows requests from this
// machine only.
type Guard struct {
	// Token gives access to what is protected: see Admin.Token. A browser asks its user for
	// it as a password. Zero: none is needed, and only this machine is served.
	Token string
	// Hosts are additional names that requests may use for this machine: see Admin.Hosts.
	// Zero: none.
	Hosts []string
	// MaxConns is how many connections the server made by Server may have: see
	// Admin.MaxConns.
	MaxConns int

	free  func(r *http.Request) bool // requests that need no token; nil: none
	mu    sync.Mutex
	bound []string // names passed to Listen
}

// MayServe returns an error if addr must not be served.
func (g *Guard) MayServe(addr net.Addr) error {
	switch {
	case strings.ContainsFunc(g.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("observe: the token contains blanks, line ends or other characters that a header cannot carry; " +
			"strip them, or make one with: openssl rand -hex 16")
	case thisMachine(addr) || len(g.Token) >= shortestToken:
		return nil
	}
	return fmt.Errorf("observe: not listening on %v: %w", addr, ErrNoToken)
}

// thisMachine reports whether a local address can be reached only from this machine.
func thisMachine(local net.Addr) bool {
	switch local := local.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return local.IP.IsLoopback()
	}
	return false
}

// localAddr is the local address of the request's connection, or nil if the server does not
// provide it.
func localAddr(r *http.Request) net.Addr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr
}

// Handler passes allowed requests on to next. It sets the strictest security headers; next may
// relax them.
func (g *Guard) Handler(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case !g.knowsHost(r):
			http.Error(w, fmt.Sprintf("host name %q is not allowed here; use the address or the name that it listens on, or allow the name: hone serve --admin-host, in a program observe.Admin.Hosts", r.Host),
				http.StatusForbidden)
		case cross.Check(r) != nil:
			http.Error(w, "requests from pages of another origin are not allowed", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		case r.URL.Query().Has("token"):
			http.Error(w, "a token in a URL ends up in logs; send it as Authorization: Bearer TOKEN, and replace the exposed token", http.StatusBadRequest)
		case g.free != nil && g.free(r) || g.admits(w, r):
			next.ServeHTTP(w, r)
		}
	})
}

// open reports whether an Admin answers a request without a token. /healthz is for load
// balancers, which are proxies themselves; for the rest, a proxy would make it public.
func open(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz":
		return true
	case "/metrics", "/stats":
		return proxySign(r) == ""
	}
	return false
}

// admits reports whether r may access what is protected, and answers if not.
func (g *Guard) admits(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case g.Token != "" && g.hasToken(r):
		return true
	case g.Token != "" && !g.hasPassword(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="hone admin"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="hone admin, the token is the password"`)
		http.Error(w, "send the admin token as Authorization: Bearer TOKEN, or as the password with any user name", http.StatusUnauthorized)
	case g.Token == "" && !thisMachine(localAddr(r)):
		http.Error(w, "without a token, only loopback and unix sockets are allowed", http.StatusForbidden)
	case g.Token == "" && proxySign(r) != "":
		http.Error(w, "this request came through a proxy ("+proxySign(r)+"), so it may come from anywhere; "+
			"connect without the proxy, or start with a token (--admin-token-file, --ui-token-file) and send it", http.StatusForbidden)
	case g.Token == "" && !g.isLocalName(r): // one of Hosts: a proxy that adds no header passes such names on
		http.Error(w, fmt.Sprintf("without a token, the host must be localhost, a loopback address or the listen address, not %q; "+
			"start with a token (--admin-token-file, --ui-token-file) and send it", r.Host), http.StatusForbidden)
	case fromElsewhere(r): // a browser adds a saved password to requests from any site
		http.Error(w, "requests from another site's page are not allowed; open this address directly", http.StatusForbidden)
	default:
		return true
	}
	return false
}

// proxyHeaders are headers that proxies add to requests, in addition to X-Forwarded-….
var proxyHeaders = [...]string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"Fastly-Client-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Proxyuser-Ip",
}

// proxySign returns what shows that r came through a proxy, or "". A proxy on this machine
// makes requests from anywhere look like loopback. HTTP/1.0 is a sign because nginx speaks it
// by default, without any header.
func proxySign(r *http.Request) string {
	if !r.ProtoAtLeast(1, 1) {
		return r.Proto
	}
	for _, name := range proxyHeaders {
		if _, found := r.Header[name]; found {
			return name
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return name
		}
	}
	return ""
}

// hasToken reports whether the request carries the token as a bearer token.
func (g *Guard) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return g.isToken(token) && strings.EqualFold(scheme, "Bearer")
}

// hasPassword reports whether the request carries the token as a password.
func (g *Guard) hasPassword(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	return g.isToken(password)
}

// isToken compares in constant time, whatever the lengths.
func (g *Guard) isToken(text string) bool {
	got, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(g.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// fromElsewhere reports whether the browser says that a page of another site sent the request.
// Such a page cannot read the response, but the request alone would start a profile, and
// http.CrossOriginProtection allows GET.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return true
}

// knowsHost reports whether the request's host is one of this server's names. A name that
// somebody else's DNS points here is not.
func (g *Guard) knowsHost(r *http.Request) bool {
	return g.isLocalName(r) || isOneOf(hostName(r.Host), g.Hosts)
}

// isLocalName reports whether the host names this machine, or is the name listened on.
// Browsers do not reach unix sockets.
func (g *Guard) isLocalName(r *http.Request) bool {
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
	g.mu.Lock()
	defer g.mu.Unlock()
	return isOneOf(host, g.bound)
}

// isOneOf reports whether host, normalised by hostName, is one of names.
func isOneOf(host string, names []string) bool {
	return host != "" && slices.ContainsFunc(names, func(name string) bool { return hostName(name) == host })
}

// hostName is a Host header without its port, normalised.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// Listen listens on addr, HOST:PORT or unix:PATH. Without a Token it refuses an address that
// other machines can reach with ErrNoToken. A socket file is accessible to this user only
// (mode 0600), and replaces one on which nobody listens any more.
func (g *Guard) Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	host, _, err := net.SplitHostPort(addr)
	var tcp *net.TCPAddr
	if err == nil {
		tcp, err = net.ResolveTCPAddr("tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("observe: admin address %q is not HOST:PORT or unix:PATH: %w", addr, err)
	}
	if err := g.MayServe(tcp); err != nil {
		return nil, err
	}
	ln, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if _, err := netip.ParseAddr(host); err != nil { // a name; an address is known from the connection
		g.mu.Lock()
		g.bound = append(g.bound, host)
		g.mu.Unlock()
	}
	return ln, nil
}
