package report

import (
	"fmt"
	"html"
	"path/filepath"
	"strings"
)

// subject is a comparison of which the picture shows two metrics.
type subject struct {
	title string
	run   *Peers
	cpu   string // the scenario that compares CPU
	about string // description of that scenario
	base  string // the server whose CPU is 1
}

// Picture draws CPU per request and memory per idle connection of hone and its peers, as SVG,
// from the stored results in the folder results.
func Picture(results string) (string, error) {
	subjects := []subject{
		{title: "Framed TCP", cpu: "A", about: "100 connections, net = 1", base: "net"},
		{title: "HTTP/1.1", cpu: "hello-256", about: "256 connections, net/http = 1", base: "net/http"},
		{title: "WebSocket", cpu: "2000x1", about: "2,000 connections, gorilla = 1", base: "gorilla"},
	}
	days, err := readReleases(results)
	if err != nil {
		return "", err
	}
	for i, file := range []string{PeersFile, HTTPFile, WSFile} {
		run, err := stored[file].read(filepath.Join(results, file))
		if err != nil {
			return "", err
		}
		subjects[i].run = run.(*Peers)
	}
	return draw(subjects, days), nil
}

// The picture's dimensions, in pixels.
const (
	panelWidth  = 320
	panelMargin = 20
	nameWidth   = 78
	valueWidth  = 64
	rowHeight   = 22
	barHeight   = 14
)

// bar is one server's value.
type bar struct {
	name  string
	value float64
	text  string
	ours  bool
}

// bars returns the values of the servers; of hone's engines only Events, the default.
func (s subject) bars(value func(server string) (v float64, text string)) (all []bar) {
	for _, e := range s.run.Servers {
		if e.ParsesNothing || e.Extra || e.Ours() && e.Engine != "events" {
			continue
		}
		if v, text := value(e.Name); text != "" {
			name := e.Name
			if e.Ours() {
				name = "hone"
			}
			all = append(all, bar{name, v, text, e.Ours()})
		}
	}
	return all
}

func (s subject) cpuBars() []bar {
	return s.bars(func(server string) (float64, string) {
		ratios := Ratios(s.run.rounds(s.cpu, server, cpuOf), s.run.rounds(s.cpu, s.base, cpuOf))
		if ratios.N == 0 {
			return 0, ""
		}
		return ratios.Median, fmt.Sprintf("%.2f", ratios.Median)
	})
}

func (s subject) idleBars() []bar {
	return s.bars(func(server string) (float64, string) {
		idle := s.run.spread("idle-15k", server, func(s Sample) *float64 { return s.PerConn })
		switch {
		case idle.N == 0:
			return 0, ""
		case idle.Median >= 1000:
			return idle.Median, fmt.Sprintf("%.1f KB", idle.Median/1e3)
		}
		return idle.Median, fmt.Sprintf("%.0f B", idle.Median)
	})
}

// draw draws two rows of panels, with a column for each subject.
func draw(subjects []subject, days releases) string {
	var body strings.Builder
	top := 0
	for row, heading := range []string{"Server CPU per request, lower is better", "Memory per idle connection, 15,000 open, lower is better"} {
		fmt.Fprintf(&body, `<text class="heading" x="%d" y="%d">%s</text>`+"\n", panelMargin, top+28, heading)
		top += 40
		most := 0
		for i, s := range subjects {
			bars, about := s.cpuBars(), s.about
			if row == 1 {
				bars, about = s.idleBars(), ""
			}
			panel(&body, panelMargin+i*panelWidth, top, s.title, about, bars)
			most = max(most, len(bars))
		}
		top += 30 + most*rowHeight + 12
	}
	for i, s := range subjects {
		m := s.run.Machine
		fmt.Fprintf(&body, `<text class="small" x="%d" y="%d">%d rounds, commit %.7s, %s</text>`+"\n", panelMargin+i*panelWidth, top+8, s.run.Settings.Rounds, m.Commit, m.Date)
		fmt.Fprintf(&body, `<text class="small" x="%d" y="%d">libraries released %s</text>`+"\n", panelMargin+i*panelWidth, top+23, days.span(s.run.Servers))
	}
	top += 15
	m := subjects[0].run.Machine
	fmt.Fprintf(&body, `<text class="small" x="%d" y="%d">%s</text>`+"\n", panelMargin, top+26, html.EscapeString(fmt.Sprintf(
		"Medians of interleaved rounds; %s, %d CPUs, Linux, %s. hone runs with its default limits, except the number of connections.", m.CPU, m.CPUs, m.Go)))
	width, height := 2*panelMargin+len(subjects)*panelWidth, top+40
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="CPU per request and memory per idle connection: hone beside other Go servers">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.heading { font-size: 15px; font-weight: 600 }
.title { font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.ours { font-weight: 600 }
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
%s</svg>
`, width, height, width, height, width, height, body.String())
}

// panel draws one comparison, with its longest bar as wide as the space allows.
func panel(out *strings.Builder, left, top int, title, about string, bars []bar) {
	fmt.Fprintf(out, `<text x="%d" y="%d"><tspan class="title">%s</tspan>`, left, top+12, title)
	if about != "" {
		fmt.Fprintf(out, ` <tspan class="small" dx="4">%s</tspan>`, about)
	}
	out.WriteString("</text>\n")
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
		fmt.Fprintf(out, `<text%s x="%d" y="%d">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/><text%s x="%.1f" y="%d">%s</text>`+"\n",
			weight, left, y+12, b.name, kind, left+nameWidth, y+1, width, barHeight, weight, float64(left+nameWidth)+width+6, y+12, b.text)
	}
}
