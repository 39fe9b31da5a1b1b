package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// report prints the counters of the server and the gateway.
func report(w io.Writer, g *gateway, srv *framed.Server) {
	st := srv.Stats()
	var ended []string
	for why, n := range st.Ended {
		if n > 0 {
			ended = append(ended, fmt.Sprintf("%d %v", n, engine.Reason(why).String()))
		}
	}
	for _, own := range st.Own {
		if own.Count > 0 {
			ended = append(ended, fmt.Sprintf("%d %s", own.Count, own.Name))
		}
	}
	calls, total := g.times.calls.Load(), time.Duration(g.times.total.Load())
	mean := total / time.Duration(max(calls, 1))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "engine\t%s\n", st.Engine)
	fmt.Fprintf(tab, "connections\t%d (%d open)\n", st.Accepted, st.Open)
	fmt.Fprintf(tab, "ended\t%s\n", strings.Join(ended, ", "))
	fmt.Fprintf(tab, "requests\t%d (%d answered with an error)\n", st.Requests, g.times.failed.Load())
	fmt.Fprintf(tab, "in handlers\t%v (%v each)\n", total.Round(time.Microsecond), mean)
	fmt.Fprintf(tab, "pushes\t%d\n", st.Pushes)
	fmt.Fprintf(tab, "bytes\t%d in, %d out\n", st.BytesIn, st.BytesOut)
	tab.Flush()
}
