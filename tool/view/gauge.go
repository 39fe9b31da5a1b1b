package view

import (
	"strconv"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// saturatedShare is the share of its CPUs from which on a generator may be the
// bottleneck.
const saturatedShare = 0.8

// gauge shows a load second by second.
type gauge struct {
	conns             int           // that were requested
	now               load.Progress // without its histograms, which are only lent
	rates, p50s, p99s history
}

// take adds one second's figures.
func (g *gauge) take(now load.Progress) {
	now.Latency, now.Service = nil, nil
	g.now = now
	g.rates.add(&now.Rate)
	g.p50s.add(now.P50)
	g.p99s.add(now.P99)
}

func (g *gauge) saturated() bool {
	return g.now.CPUShare != nil && *g.now.CPUShare >= saturatedShare
}

// lines draws the figures and their history. Lines with a higher rank are dropped sooner.
func (g *gauge) lines(rank, width int) []line {
	curve := func(h history) span {
		return span{toneCurve, sparkline(h, min(remembered, width-labelColumns-valueColumns))}
	}
	value := func(v string) span { return text(pad(v, valueColumns)) }
	rate := "–"
	if g.now.Phase != "" {
		rate = figure.Grouped(g.now.Rate) + "/s"
	}
	lines := []line{
		field(rank, "rate", value(rate), curve(g.rates)),
		field(rank+2, "p50", value(figure.OrNone(g.now.P50, figure.Micros)), curve(g.p50s)),
		field(rank, "p99", value(figure.OrNone(g.now.P99, figure.Micros)), curve(g.p99s)),
	}
	return append(lines, g.faults(rank+1), g.generator(rank+3))
}

// faults shows failed requests and lost connections.
func (g *gauge) faults(rank int) line {
	failed := text(pad("none", valueColumns))
	if n := g.now.Errors; n > 0 {
		failed = span{toneBad, pad(figure.Grouped(float64(n)), valueColumns)}
	}
	open := span{toneLabel, figure.Grouped(float64(g.now.Conns)) + " of " + figure.Grouped(float64(g.conns)) + " connections"}
	if g.conns == 0 {
		open.text = ""
	}
	return field(rank, "errors", failed, open)
}

// generator shows hone's own CPU use. The warning is dropped later than the figure.
func (g *gauge) generator(rank int) line {
	if g.now.CPUShare == nil {
		return field(rank, "generator", text("–"))
	}
	share := strconv.FormatFloat(100**g.now.CPUShare, 'f', 0, 64) + " % of its CPUs"
	if g.saturated() {
		return field(1, "generator", span{toneWarn, "the generator is saturated: " + share})
	}
	return field(rank, "generator", text(share))
}
