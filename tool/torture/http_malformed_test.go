package torture

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load/codec"
)

// TestMalformed sends every input to three servers. Where one is lenient or wrong is what testdata says;
// http1 is never wrong, and lenient where net/http is.
func TestMalformed(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	for _, c := range []struct {
		name  string
		start func(t *testing.T) string
	}{
		{"net-http", func(t *testing.T) string { return serveNetHTTP(t, &http.Server{Handler: http.HandlerFunc(web)}) }},
		{"http1", func(t *testing.T) string { return serveHTTP1(t, http.HandlerFunc(web), engine.Limits{}) }},
		{"nginx", startNginx},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := arena(t, codec.HTTP{URL: c.start(t) + "/page"}, Limits{})
			ctx := within(t, 2*time.Minute)
			all, err := a.malformed(ctx, httpInputs())
			if err != nil {
				t.Fatal(err)
			}
			if err := a.play(ctx, (*target).Bare, all); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, f := range all {
				if f.ruling != right {
					fmt.Fprintf(&text, "%v: %s (RFC %s): %s\n", f.ruling, f.name, f.section, f.words)
				}
			}
			found[c.name] = text.String()
			name := filepath.Join("testdata", "lenient-"+c.name+".txt")
			switch c.name {
			case "http1":
				return // below
			case "net-http":
				same(t, name, text.String())
				return
			}
			version := nginxVersion(t) + "\n"
			if known, err := os.ReadFile(name); err == nil && !strings.HasPrefix(string(known), version) {
				t.Logf("lenient is %s", text.String())
				t.Skipf("%s is about another version than %s", name, version)
			}
			same(t, name, version+text.String())
		})
	}
	want := regexp.MustCompile("(?m)^wrong: .*\n").ReplaceAllString(found["net-http"], "")
	if found["http1"] != want {
		t.Errorf("http1 is not right about\n%sand net/http lenient about\n%s", found["http1"], want)
	}
}
