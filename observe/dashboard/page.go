package dashboard

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hone-go/hone/observe"
)

// metricsPage returns observe/metrics.md.
func metricsPage() []byte {
	var page bytes.Buffer
	page.WriteString(`# Metrics

The metrics of ` + "`/metrics`" + ` on the admin side. This page is generated from the list that the
server itself uses (` + "`go test ./observe/dashboard -update`" + `); a test fails when they differ.
` + "`honed` and `honed-relay` have further metrics, each with its meaning, at `/gateway/metrics` and `/relay/metrics`" + `.

- Metrics are read when they are scraped: without scrapes they cost nothing.
- No label has a value that a client chose, and no metric has more than 200 series.
- Prometheus adds ` + "`job`" + ` and ` + "`instance`" + `. The panel is that of a dashboard in
  [deploy/grafana](../deploy/grafana), which also says what to do about bad values.
- Metrics that need something exist if that field of ` + "`observe.Admin`" + ` is filled;
  those that need ` + "`Limits`" + ` while the server serves, unless that limit is off; those that need Linux, there.
`)
	sections := []struct{ title, text, prefix string }{
		{"The server", "Start with the connections, the requests received and the bytes.", "hone-server"},
		{"Pools and caches", "One series per pool, under the name that the program gave it.", "hone-pools"},
		{"Process, Go runtime and host", "The figures of the host are read from /proc, those of TCP in the network namespace of the process.", "hone-process"},
	}
	for _, s := range sections {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| metric | meaning | needs | panel |\n|---|---|---|---|\n", s.title, s.text)
		for _, m := range observe.Metrics() {
			where, panel, _ := strings.Cut(m.Panel, "/")
			if where != s.prefix {
				continue
			}
			name := "`" + m.Name + "`"
			if len(m.Labels) > 0 {
				name = "`" + m.Name + "{" + strings.Join(m.Labels, ",") + "}`"
			}
			fmt.Fprintf(&page, "| %s<br>%s | %s | %s | %s |\n", name, m.Kind, m.Help, m.From, panel)
		}
	}
	page.WriteString(cost)
	return page.Bytes()
}

const cost = `
## What it costs

` + "`BenchmarkScrape`, `BenchmarkScrapeOfACrowd` and `BenchmarkLatency`" + ` in [observe](../observe)
measure one scrape, one scrape over HTTP of a server with 15 000 connections, and what timing
handlers adds to each request. ` + "`BenchmarkScrapeCost`" + ` in [deploy](../deploy)
measures what one scrape per second costs at 50 000 requests per second.

Handlers are timed by sampling, and only if the program enables it, with ` + "`Wrap` for framed, `WrapHTTP` and `WrapMessages`" + `:

` + "```go" + `
admin.Latency = new(observe.Latency)
srv.Handler = admin.Latency.Wrap(handler)
` + "```" + `
`
