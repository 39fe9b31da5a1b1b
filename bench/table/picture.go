package table

import (
	"fmt"
	"html"
	"strings"
)

// panel is one comparison of the picture: a figure of a row, relative to a server or as it is.
type panel struct {
	title, about string
	row, figure  string
	of           string // the case
	base         string // the server whose value is 1; empty: the value with its unit
	format       string
	scale        float64
}

// heading is a line of panels.
type heading struct {
	text   string
	panels []panel
}

// headings are what the picture shows.
func headings() []heading {
	return []heading{
		{"Server CPU per request, lower is better", []panel{
			{title: "Framed TCP", about: "100 connections, net = 1", row: "frames/A", figure: "cpu_us", base: "net", format: "%.2f"},
			{title: "HTTP/1.1", about: "256 connections, net/http = 1", row: "http/hello-256", figure: "cpu_us", base: "net/http", format: "%.2f"},
			{title: "WebSocket", about: "2,000 connections, gorilla = 1", row: "ws/2000x1", figure: "cpu_us", base: "gorilla", format: "%.2f"},
		}},
		{"p99 of the response time, lower is better", []panel{
			{title: "Framed TCP", about: "40,000 requests/s", row: "frames/O", figure: "p99_us", format: "%.0f µs"},
			{title: "HTTP/1.1", about: "20,000 requests/s", row: "http/rate", figure: "p99_us", format: "%.0f µs"},
			{title: "WebSocket", about: "20,000 messages/s", row: "ws/rate", figure: "p99_us", format: "%.0f µs"},
		}},
		{"Memory per idle connection, 15,000 open, lower is better", []panel{
			{title: "Framed TCP", row: "frames/idle", of: "15k", figure: "per_conn_bytes", format: "%.2f KB", scale: 1e-3},
			{title: "HTTP/1.1", row: "http/idle", of: "15k", figure: "per_conn_bytes", format: "%.2f KB", scale: 1e-3},
			{title: "WebSocket", row: "ws/idle", of: "15k", figure: "per_conn_bytes", format: "%.2f KB", scale: 1e-3},
		}},
	}
}

// The picture's dimensions, in pixels.
const (
	panelWidth  = 320
	panelMargin = 20
	nameWidth   = 78
	valueWidth  = 64
	rowHeight   = 22
)

// bar is one server's value.
type bar struct {
	name  string
	value float64
	ours  bool
}

// bars are the medians of the servers; of hone's engines only Events, the default.
func (p panel) bars(r *Row) (all []bar) {
	base := 1.0
	if p.base != "" {
		base, _ = r.Median(p.base, p.of, p.figure)
	} else if p.scale != 0 {
		base = 1 / p.scale
	}
	for _, s := range r.Servers {
		v, has := r.Median(s.Name, p.of, p.figure)
		switch {
		case !has || s.Ours() && !s.Default():
		case s.Ours():
			all = append(all, bar{"hone", v / base, true})
		default:
			all = append(all, bar{s.Name, v / base, false})
		}
	}
	return all
}

// Picture draws hone beside its peers, as SVG.
func (s *Stored) Picture() (string, error) {
	var body, under strings.Builder
	top := 0
	for _, h := range headings() {
		fmt.Fprintf(&body, `<text class="heading" x="%d" y="%d">%s</text>`+"\n", panelMargin, top+28, h.text)
		top += 40
		most := 0
		for i, p := range h.panels {
			row := s.rows[p.row]
			if row == nil {
				return "", fmt.Errorf("the picture needs a run of %s; make one with go run ./bench/cmd/peers run %s", p.row, p.row)
			}
			bars := p.bars(row)
			p.draw(&body, panelMargin+i*panelWidth, top, bars)
			most = max(most, len(bars))
		}
		top += 30 + most*rowHeight + 12
	}
	for i, p := range headings()[0].panels {
		row := s.rows[p.row]
		fmt.Fprintf(&under, `<text class="small" x="%d" y="%d">%d rounds, commit %.7s, %s</text>`+"\n", panelMargin+i*panelWidth, top+8, row.Rounds, row.Machine.Commit, row.Machine.Date)
		fmt.Fprintf(&under, `<text class="small" x="%d" y="%d">libraries released %s</text>`+"\n", panelMargin+i*panelWidth, top+23, s.span(row.Servers))
	}
	m := s.rows[headings()[0].panels[0].row].Machine
	fmt.Fprintf(&under, `<text class="small" x="%d" y="%d">%s</text>`+"\n", panelMargin, top+41, html.EscapeString(fmt.Sprintf(
		"Medians of interleaved rounds; %s, %d CPUs, Linux, %s. hone runs with its default limits, except the number of connections.", m.CPU, m.CPUs, m.Go)))
	width, height := 2*panelMargin+len(headings()[0].panels)*panelWidth, top+55
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="CPU per request, p99 and memory per idle connection: hone beside other Go servers">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.heading { font-size: 15px; font-weight: 600 }
.title, .ours { font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.back { fill: #ffffff }
rect.peer { fill: #afb8c1 }
rect.hone { fill: #0a7d55 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.back { fill: #0d1117 }
rect.peer { fill: #565e68 }
rect.hone { fill: #3fb98a }
}
</style>
<rect class="back" width="%d" height="%d" rx="6"/>
%s%s</svg>
`, width, height, width, height, width, height, body.String(), under.String()), nil
}

// draw draws one comparison, with its longest bar as wide as the space allows.
func (p panel) draw(out *strings.Builder, left, top int, bars []bar) {
	fmt.Fprintf(out, `<text x="%d" y="%d"><tspan class="title">%s</tspan> <tspan class="small" dx="4">%s</tspan></text>`+"\n", left, top+12, p.title, p.about)
	longest := 0.0
	for _, b := range bars {
		longest = max(longest, b.value)
	}
	for i, b := range bars {
		y := top + 24 + i*rowHeight
		width := max(1.5, b.value/longest*(panelWidth-panelMargin-nameWidth-valueWidth))
		kind, weight := "peer", ""
		if b.ours {
			kind, weight = "hone", ` class="ours"`
		}
		fmt.Fprintf(out, `<text%s x="%d" y="%d">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="14" rx="2"/><text%s x="%.1f" y="%d">%s</text>`+"\n",
			weight, left, y+12, b.name, kind, left+nameWidth, y+1, width, weight, float64(left+nameWidth)+width+6, y+12, fmt.Sprintf(p.format, b.value))
	}
}
