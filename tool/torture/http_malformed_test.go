package torture

import (
	"net/http"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load"
)

func TestMalformedLists(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(t *testing.T) string
	}{
		{"http1", func(t *testing.T) string { return serveHTTP1(t, http.HandlerFunc(web), engine.Limits{}) }},
		{"nethttp", func(t *testing.T) string { return serveNetHTTP(t, &http.Server{Handler: http.HandlerFunc(web)}) }},
		{"nginx", startNginx},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := arena(t, load.HTTP{URL: c.start(t) + "/page"}, Limits{})
			ctx := within(t, time.Minute)
			good, err := a.goodStatus(ctx)
			if err != nil {
				t.Fatal(err)
			}
			found, err := playAll(len(httpInputs()), a.playRequests(ctx, httpInputs(), good))
			if err != nil {
				t.Error(err)
			}
			for _, f := range found {
				if f.ruling == wrong || f.ruling == lenient {
					t.Logf("%-8s %-45s %s", f.ruling, f.name, f.words)
				}
			}
		})
	}
}
