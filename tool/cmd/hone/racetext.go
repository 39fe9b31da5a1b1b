package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// raceReport is the result of a demo. A figure that cannot be had is null.
type raceReport struct {
	Schema         string       `json:"schema"`
	Valid          bool         `json:"valid"`
	InvalidReasons []string     `json:"invalid_reasons"`
	Engines        []*raceEntry `json:"engines"`
}

// raceEntry is one engine's.
type raceEntry struct {
	Engine    string    `json:"engine"`
	PingPong  lapReport `json:"conns_100_depth_1"`
	Pipelined lapReport `json:"conns_100_depth_64"`
	IdleBytes *float64  `json:"bytes_per_idle_connection"`
	BesideP99 *float64  `json:"p99_us_beside_sleeper"`
}

// lapReport is one load on one engine.
type lapReport struct {
	Rate      *float64 `json:"rate"`
	P50       *float64 `json:"p50_us"`
	P99       *float64 `json:"p99_us"`
	ServerCPU *float64 `json:"server_cpu_us_per_request"`
	Ratio     *float64 `json:"ratio_to_direct"` // of the rates
}

// compare fills in the ratios to the first engine, which is Direct.
func (r *raceReport) compare() {
	ratio := func(lap *lapReport, direct lapReport) {
		if lap.Rate != nil && direct.Rate != nil && *direct.Rate > 0 {
			times := *lap.Rate / *direct.Rate
			lap.Ratio = &times
		}
	}
	for _, e := range r.Engines {
		ratio(&e.PingPong, r.Engines[0].PingPong)
		ratio(&e.Pipelined, r.Engines[0].Pipelined)
	}
}

// text is the table.
func (r *raceReport) text() string {
	var b strings.Builder
	writeValidity(&b, r.Valid, r.InvalidReasons)
	b.WriteString("\nconnections × depth: 100 × 64 is 100 connections that each keep 64 requests outstanding.\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "load\tengine\trequests/s\tto Direct\tp50\tp99\tserver CPU/request")
	for _, load := range []struct {
		name string
		of   func(*raceEntry) lapReport
	}{
		{"100 × 1", func(e *raceEntry) lapReport { return e.PingPong }},
		{"100 × 64", func(e *raceEntry) lapReport { return e.Pipelined }},
	} {
		for i, e := range r.Engines {
			lap, name := load.of(e), load.name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, e.Engine, orNone(lap.Rate, grouped), orNone(lap.Ratio, times),
				orNone(lap.P50, micros), orNone(lap.P99, micros), orNone(lap.ServerCPU, micros))
		}
	}
	table.Flush()
	b.WriteString("\n")
	bytes := func(n float64) string { return grouped(n) + " bytes" }
	fmt.Fprintln(table, "engine\ta connection just used\tp99 beside a handler that sleeps 50 ms")
	for _, e := range r.Engines {
		fmt.Fprintf(table, "%s\t%s\t%s\n", e.Engine, orNone(e.IdleBytes, bytes), orNone(e.BesideP99, micros))
	}
	table.Flush()
	return b.String()
}

// times writes a ratio.
func times(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + " ×" }
