package observe_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/hone-go/hone/observe"
)

// TestPage mounts a page below /live/, behind the same guard as profiles; only its capture accepts
// POST.
func TestPage(t *testing.T) {
	path := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.URL.Path) })
	for _, c := range []struct {
		token, method, path, password, site, mode string
		want                                      int
		says                                      string
	}{
		{method: "GET", path: "/live/", want: 200, says: "GET /"},
		{method: "GET", path: "/live/main.js", want: 200, says: "GET /main.js"},
		{method: "GET", path: "/live", want: 307},
		{method: "POST", path: "/live/capture", want: 200, says: "POST /capture"},
		{method: "POST", path: "/live/capture", site: "same-origin", want: 200},
		{method: "POST", path: "/live/capture", site: "cross-site", want: 403},
		{method: "POST", path: "/live/", want: 405},
		{method: "POST", path: "/debug/pprof/heap", want: 405},
		{method: "DELETE", path: "/live/capture", want: 405},
		{method: "GET", path: "/live/", site: "cross-site", mode: "navigate", want: 403},
		{method: "GET", path: "/debug/pprof/heap", site: "cross-site", mode: "navigate", want: 403},
		{token: secret, method: "GET", path: "/live/", want: 401},
		{token: secret, method: "GET", path: "/live/", password: "another", want: 401},
		{token: secret, method: "GET", path: "/live/", password: secret, want: 200},
		{token: secret, method: "GET", path: "/debug/pprof/heap", password: secret, want: 200},
		{token: secret, method: "GET", path: "/debug/pprof/heap", password: secret, site: "cross-site", mode: "navigate", want: 403},
		{token: secret, method: "POST", path: "/live/capture", password: secret, site: "cross-site", want: 403},
	} {
		s := start(t, &observe.Admin{Stats: nothing, Token: c.token, Page: path})
		r := s.request(c.path)
		r.Method = c.method
		if c.password != "" {
			r.SetBasicAuth("anybody", c.password)
		}
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		a, err := s.try(r)
		if err != nil || a.status != c.want || c.says != "" && a.body != c.says {
			t.Errorf("%+v: %d %q, %v", c, a.status, a.body, err)
		}
	}
}
