package observe

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// links are the links of the index page, in the order in which an operator needs them. They are
// relative because a Handler may be mounted below a path.
var links = [...]struct{ path, what string }{
	{"healthz", "ok, or 503 while the server drains: what balancers and readiness probes ask"},
	{"metrics", "every metric, for Prometheus to scrape"},
	{"stats", "counters, CPU time and memory of the process, as JSON"},
	{"debug/pprof/", "profiles: CPU, heap, goroutines, mutexes, an execution trace"},
}

// serveIndex serves a page of links. The page loads nothing else and shows nothing that /stats
// does not.
func (a *Admin) serveIndex(w http.ResponseWriter, _ *http.Request) {
	name := a.Info.Service
	if name == "" {
		name = "hone"
	}
	about := "engine " + a.Stats().Engine
	if a.Info.Version != "" {
		about = "version " + a.Info.Version + ", " + about
	}
	name, about = html.EscapeString(name), html.EscapeString(about)
	var page strings.Builder
	fmt.Fprintf(&page, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>%[1]s: admin</title>
<h1>%[1]s: admin</h1>
<p>%[2]s</p>
<dl>
`, name, about)
	for _, l := range links {
		fmt.Fprintf(&page, "<dt><a href=\"%[1]s\">/%[1]s</a></dt>\n<dd>%[2]s</dd>\n", l.path, html.EscapeString(l.what))
	}
	page.WriteString("</dl>\n</html>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write([]byte(page.String()))
}
