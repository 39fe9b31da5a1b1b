package http1

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// proxies are the trusted ones of the tests; requests come from the first.
var proxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")}

const fromProxy = "192.0.2.1:4000"

// seenFrom is what a handler sees.
func seenFrom(f *Forwarded, peer string, values ...string) (seen string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	r.Header[http.CanonicalHeaderKey(f.Header)] = values
	f.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.RemoteAddr })).ServeHTTP(nil, r)
	return seen
}

func TestForwarded(t *testing.T) {
	for _, c := range []struct{ header, value, want string }{
		{"X-Forwarded-For", "198.51.100.7", "198.51.100.7:0"},
		{"X-Forwarded-For", "198.51.100.7:99", "198.51.100.7:99"},
		{"X-Forwarded-For", "10.0.0.1, 198.51.100.7", "198.51.100.7:0"},
		{"X-Forwarded-For", "10.0.0.1|198.51.100.7", "198.51.100.7:0"}, // two fields
		{"X-Forwarded-For", "198.51.100.7 ,\t192.0.2.1", "198.51.100.7:0"},
		{"X-Forwarded-For", "198.51.100.7, 2001:db8::5, 192.0.2.1", "198.51.100.7:0"},
		{"X-Forwarded-For", "192.0.2.1, 2001:db8::5", "192.0.2.1:0"}, // all are proxies
		{"X-Forwarded-For", "2001:db8:1::9", "[2001:db8:1::9]:0"},
		{"X-Forwarded-For", "[2001:db8:1::9]:80", "[2001:db8:1::9]:80"},
		{"X-Forwarded-For", "[2001:db8:1::9]", "[2001:db8:1::9]:0"},
		{"X-Forwarded-For", "::ffff:198.51.100.7", "198.51.100.7:0"},
		{"X-Forwarded-For", "nonsense, 198.51.100.7", "198.51.100.7:0"},
		{"X-Forwarded-For", "198.51.100.7, nonsense", fromProxy},
		{"X-Forwarded-For", "198.51.100.7,", fromProxy},
		{"X-Forwarded-For", "fe80::1%eth0", fromProxy},
		{"X-Forwarded-For", "", fromProxy},
		{"x-forwarded-for", "198.51.100.7", "198.51.100.7:0"},
		{"Forwarded", "for=198.51.100.7", "198.51.100.7:0"},
		{"Forwarded", `For="198.51.100.7:99";proto=https;by=10.0.0.9`, "198.51.100.7:99"},
		{"Forwarded", `for=10.0.0.1, proto=http;for="[2001:db8:1::9]:80"`, "[2001:db8:1::9]:80"},
		{"Forwarded", `for="10.0.0.1, for=10.0.0.2", for=198.51.100.7, for="[2001:db8::5]"`, "198.51.100.7:0"},
		{"Forwarded", `for="198.51.100\.7"`, "198.51.100.7:0"},
		{"Forwarded", "for=unknown", fromProxy},
		{"Forwarded", "for=_hidden", fromProxy},
		{"Forwarded", "for=10.0.0.1, proto=https", fromProxy},
		{"Forwarded", "for=10.0.0.1;for=10.0.0.2", fromProxy},
		{"Forwarded", `for="10.0.0.1`, fromProxy},
		{"Forwarded", `for="x, for=198.51.100.7`, fromProxy}, // the client's quote swallows the proxy's hop
		{"Forwarded", "for=198.51.100.7;", fromProxy},
		{"Forwarded", "for = 198.51.100.7", fromProxy},
	} {
		f := &Forwarded{Header: c.header, Proxies: proxies}
		if got := seenFrom(f, fromProxy, strings.Split(c.value, "|")...); got != c.want {
			t.Errorf("%s: %s is seen as %s, want %s", c.header, c.value, got, c.want)
		}
		if got := seenFrom(f, "203.0.113.5:1", strings.Split(c.value, "|")...); got != "203.0.113.5:1" {
			t.Errorf("from another peer, %s: %s is seen as %s", c.header, c.value, got)
		}
	}
	f := &Forwarded{Header: "X-Forwarded-For", Proxies: proxies}
	if got := seenFrom(f, "@", "198.51.100.7"); got != "@" {
		t.Errorf("a unix socket's peer is seen as %s", got)
	}
}

// Whatever a client puts into the header, its address is the one that the proxy has appended, or
// the proxy's.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	d := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"10.0.0.1", "10.0.0.2:5", "[2001:db8:1::1]", "2001:db8::5", "192.0.2.1", "for=", "For=", "by=10.0.0.3", "proto=http", `"`, `\`, ",", ", ", ";", " ", "\t", "unknown", "_x", "=", "[", "]", "%", "::ffff:10.0.0.4", "a", "é", "\x00"}
	for i := range testrun.Sized(30_000, 100_000) {
		forged := ""
		for range d.IntN(12) {
			forged += parts[d.IntN(len(parts))]
		}
		for header, hop := range map[string]string{"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.7"} {
			values := []string{forged, hop} // a field of the proxy's own
			if d.IntN(2) == 0 {
				values = []string{forged + ", " + hop}
			}
			f := &Forwarded{Header: header, Proxies: proxies}
			if got := seenFrom(f, fromProxy, values...); got != "198.51.100.7:0" && (got != fromProxy || header == "X-Forwarded-For") {
				t.Fatalf("seed %d, %d: %s: %q is seen as %s", seed, i, header, values, got)
			}
		}
	}
}

// A server applies it on the fast path and to requests that net/http serves, and does not count
// the proxies' connections per address.
func TestServerBehindProxies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		s := serve(t, &Server{
			Engine: e, Limits: engine.Limits{ConnsPerAddress: 1}, Forwarded: Forwarded{"X-Forwarded-For", local},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }),
		})
		for i := range testrun.Sized(3, 30) {
			nc := s.dial(t)
			in := bufio.NewReader(nc)
			for n, version := range []string{"1.1", "1.0"} { // net/http serves the second
				client := fmt.Sprintf("198.51.100.%d", 2*i+n)
				say(t, nc, "GET / HTTP/"+version+"\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1, "+client+"\r\n\r\n")
				if got := readAnswer(t, in); got != "200 "+client+":0" {
					t.Errorf("HTTP/%s: %s is seen as %q", version, client, got)
				}
			}
		}
		if st := s.Stats(); st.Fast == 0 || st.Loans == 0 || st.Ended[engine.TooManyPerAddress] > 0 {
			t.Errorf("%d requests on the fast path, %d loans, %v", st.Fast, st.Loans, st.Ended)
		}
	})
}
