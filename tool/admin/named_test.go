package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestNamed reads metrics of a server that is none of hone's.
func TestNamed(t *testing.T) {
	requests := 100
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "# TYPE requests_total counter\nrequests_total{code=\"200\"} %d\nrequests_total{code=\"404\"} 7\n# TYPE open gauge\nopen 3\nplain_total 5\n# TYPE took histogram\ntook_bucket{le=\"+Inf\"} 1\ntook_sum 1\ntook_count 1\n", requests)
	}))
	defer web.Close()
	n, err := OpenNamed(t.Context(), web.URL+"/metrics open,requests_total plain_total")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"open", "requests_total per second", "plain_total per second"}; !slices.Equal(n.Titles, want) {
		t.Errorf("titles %q, want %q", n.Titles, want)
	}
	if first := n.Read(t.Context()); len(first) != 1 || first["m.0"] != 3 {
		t.Errorf("first: %v", first) // there is no rate yet
	}
	at := n.at
	requests += 50
	second := n.Read(t.Context())
	if rate := 50 / n.at.Sub(at).Seconds(); len(second) != 3 || second["m.1"] != rate || second["m.2"] != 0 {
		t.Errorf("second: %v, want a rate of %v", second, rate)
	}
	requests = 1 // it has started again
	if third := n.Read(t.Context()); len(third) != 2 {
		t.Errorf("third: %v", third)
	}
	for text, want := range map[string]string{
		"":                                "give a URL and names",
		web.URL + "/metrics":              "give a URL and names",
		"127.0.0.1:1 open":                "give a URL and names",
		web.URL + "/metrics took":         "has no counter or gauge took",
		web.URL + "/elsewhere open":       "404",
		"http://127.0.0.1:1/metrics open": "refused",
	} {
		_, err := OpenNamed(t.Context(), text)
		if said := fmt.Sprint(err); !strings.Contains(said, want) {
			t.Errorf("%q: %s, want %q", text, said, want)
		}
	}
	web.Close()
	if values := n.Read(t.Context()); values != nil {
		t.Errorf("of a server that is gone: %v", values)
	}
}
