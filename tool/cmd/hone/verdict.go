package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
)

// judgeFlags say how two runs are compared.
type judgeFlags struct {
	tolerance percentFlag
	noise     percentFlag
	primary   string
	across    []string
}

func (f *judgeFlags) define(cmd *cobra.Command) {
	f.tolerance = 0.01
	flags := cmd.Flags()
	flags.Var(&f.tolerance, "tolerance", "difference that does not matter")
	flags.Var(&f.noise, "noise", "difference that runs of the same thing show here (what hone doctor --noise kept)")
	flags.StringVar(&f.primary, "primary", "", "figure that is asked for (the first one)")
	flags.StringSliceVar(&f.across, "across", nil, "settings that may differ, as in go,cpu")
}

// comparison is the result, also in JSON.
type comparison struct {
	Schema         string            `json:"schema"`
	Valid          bool              `json:"valid"`
	InvalidReasons []string          `json:"invalid_reasons"`
	A              string            `json:"a"`
	B              string            `json:"b"`
	Changes        []compare.Change  `json:"changes"`
	Missing        []string          `json:"missing"`  // measured on one side only
	Warnings       []compare.Warning `json:"warnings"` // about all figures
}

// judge compares what was measured.
func (f *judgeFlags) judge(a, b *compare.Runs, paired bool) (*comparison, error) {
	for _, key := range compare.Differences(a, b) {
		if !slices.Contains(f.across, key) {
			return nil, &failure{exitInvalid, fmt.Errorf("compare: %s differs: %q and %q; if that is what you compare, add --across %s", key, a.Settings[key], b.Settings[key], key)}
		}
	}
	c := &comparison{Schema: "hone.compare/1", InvalidReasons: []string{}, Missing: []string{}, Warnings: []compare.Warning{}}
	metrics, missing := compare.Match(a, b)
	if c.Missing = append(c.Missing, missing...); len(metrics) == 0 {
		return nil, &failure{exitInvalid, errors.New("compare: the two have no figure in common; compare runs of the same kind, with valid samples")}
	}
	if err := f.first(metrics); err != nil {
		return nil, err
	}
	for i := range metrics {
		if metrics[i].Noise == 0 || f.noise > 0 {
			metrics[i].Noise = float64(f.noise)
		}
	}
	return c.of(metrics, compare.Rules{Paired: paired, Tolerance: f.tolerated()}), nil
}

func (f *judgeFlags) tolerated() float64 {
	if f.tolerance == 0 {
		return -1 // none, where the rules' zero is the usual one
	}
	return float64(f.tolerance)
}

// of fills the comparison in.
func (c *comparison) of(metrics []compare.Metric, rules compare.Rules) *comparison {
	c.Changes = rules.Compare(metrics)
	if first := c.Changes[0]; first.Verdict == compare.Unclear {
		c.InvalidReasons = append(c.InvalidReasons, first.Name+" "+first.Unit+": "+first.Warnings[0].Text)
	}
	c.Valid = len(c.InvalidReasons) == 0
	return c
}

// first puts the primary metric first.
func (f *judgeFlags) first(metrics []compare.Metric) error {
	if f.primary == "" {
		return nil
	}
	var names []string
	for i, m := range metrics {
		if m.Name == f.primary {
			metrics[0], metrics[i] = metrics[i], metrics[0]
			return nil
		}
		names = append(names, m.Name)
	}
	return wrongUse("compare: there is no figure %q; %s", f.primary, didYouMean(f.primary, names, "there are "+strings.Join(names, ", ")))
}

// noiseAge is how long a floor is believed without a word.
const noiseAge = 30 * 24 * time.Hour

// stored compares two runs of the store, with the noise that it knows.
func (f *judgeFlags) stored(ctx context.Context, store *record.Store, a, b *record.Run) (*comparison, error) {
	ra, rb, paired := compare.Stored(a, b)
	floors, err := floorsFor(ctx, store, a, paired)
	if err != nil {
		return nil, storeFailure("compare", err)
	}
	for i := range ra.Series {
		s := &ra.Series[i]
		if floor, ok := floors[s.Name]; ok {
			s.Noise = floor.Floor
		}
	}
	c, err := f.judge(ra, rb, paired)
	if err != nil {
		return nil, err
	}
	c.Warnings = append(c.Warnings, compare.Doubts(ra, rb)...)
	for _, floor := range floors {
		if age := time.Since(floor.At); age > noiseAge {
			days := strconv.Itoa(int(age / (24 * time.Hour)))
			c.Warnings = append(c.Warnings, compare.Warning{Kind: compare.OldNoise, Text: "how much runs of the same thing differ was measured " + days + " days ago; run hone doctor --noise again"})
			break
		}
	}
	return c, nil
}

// apart compares two runs that are in no store.
func (f *judgeFlags) apart(a, b *record.Run) (*comparison, error) {
	ra, rb, paired := compare.Stored(a, b)
	c, err := f.judge(ra, rb, paired)
	if err == nil {
		c.Warnings = append(c.Warnings, compare.Doubts(ra, rb)...)
	}
	return c, err
}

// floorsFor are the floors of a run's machine: under the run's own scenario, or
// else under the one of hone doctor --noise.
func floorsFor(ctx context.Context, store *record.Store, r *record.Run, paired bool) (map[string]record.Noise, error) {
	for _, scenario := range []string{r.Scenario.Hash(), ""} {
		known, err := store.Noise(ctx, machineOf(r).Fingerprint(), scenario)
		if err != nil {
			return nil, err
		}
		floors := make(map[string]record.Noise)
		for _, n := range known {
			if n.Paired == paired {
				floors[n.Metric] = n
			}
		}
		if len(floors) > 0 {
			return floors, nil
		}
	}
	return nil, nil
}

// ofTheMachine are the strict keys of machine.Read.
var ofTheMachine = []string{"cpu", "cpus", "smt", "kernel", "goos", "goarch", "virtual", "cpu-limit", "memory"}

// machineOf is the part of a run's environment that is the machine's, not the
// program's: noise is the machine's.
func machineOf(r *record.Run) record.Environment {
	strict := maps.Clone(r.Environment.Strict)
	maps.DeleteFunc(strict, func(key, _ string) bool { return !slices.Contains(ofTheMachine, key) })
	return record.Environment{Strict: strict}
}

// failure is the exit code.
func (c *comparison) failure(command string) error {
	switch {
	case !c.Valid:
		return &failure{exitInvalid, fmt.Errorf("%s: nothing can be said: %s", command, strings.Join(c.InvalidReasons, "; "))}
	case c.count(compare.Worse) > 0:
		return &failure{code: exitMissed}
	}
	return nil
}

// percentFlag is a part of 1, given as 2% or 0.02.
type percentFlag float64

// Set takes the part.
func (f *percentFlag) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 10) {
		return errors.New("no part of the whole; write it as in 2% or 0.02")
	}
	*f = percentFlag(v)
	return nil
}

// String returns it in percent.
func (f *percentFlag) String() string {
	return strconv.FormatFloat(100*float64(*f), 'g', -1, 64) + "%"
}

// Type is how help names the value.
func (f *percentFlag) Type() string { return "PERCENT" }
