package record

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// usualRun is one side of a typical comparison of six pairs: histograms and series for
// each second of half a minute, and a profile.
func usualRun(random *rand.Rand, name string) *Run {
	r := &Run{
		Name: name, Made: "bench", At: moment().Add(time.Duration(random.Uint32())),
		Scenario:    Scenario{"echo", "tcp\nconns=100\n"},
		Environment: Environment{Strict: map[string]string{}, Soft: map[string]string{}},
	}
	for i := range 16 {
		r.Environment.Strict[fmt.Sprintf("strict-%d", i)] = "as it was"
		r.Environment.Soft[fmt.Sprintf("soft-%d", i)] = "as it happened to be"
	}
	for i := range 6 {
		s := Sample{Pair: i + 1, Order: 2*i + 1, At: r.At, Valid: true, Artefacts: []Artefact{{"cpu", "cpu.pprof", noise(random, 30<<10)}}}
		for m := range 12 {
			s.Metrics = append(s.Metrics, Metric{fmt.Sprintf("p%d", m), "µs", Lower, random.Float64()})
		}
		e := Series{"rate", "req/s", 0, time.Second, nil}
		for second := range 30 {
			at := time.Duration(second) * time.Second
			for _, name := range []string{"latency", "service"} {
				s.Histograms = append(s.Histograms, Histogram{name, at, at + time.Second, noise(random, 1<<10)})
			}
			e.Values = append(e.Values, random.Float64())
		}
		s.Series = append(s.Series, e, e, e, e)
		r.Samples = append(r.Samples, s)
	}
	return r
}

// BenchmarkAdd stores and syncs one run with 540 KiB of blobs.
func BenchmarkAdd(b *testing.B) {
	s := opened(b, filepath.Join(b.TempDir(), fileName))
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		b.StopTimer()
		r := usualRun(random, "x")
		b.StartTimer()
		add(b, s, r)
	}
}

func BenchmarkGet(b *testing.B) {
	s := opened(b, filepath.Join(b.TempDir(), fileName))
	add(b, s, usualRun(rand.New(rand.NewPCG(1, 2)), "x"))
	for b.Loop() {
		get(b, s, "latest")
	}
}

// BenchmarkOpenList measures the startup cost of every command, by number of runs. The
// runs have no blobs, which List does not read.
func BenchmarkOpenList(b *testing.B) {
	for _, count := range []int{1, 1000} {
		b.Run(fmt.Sprintf("runs=%d", count), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), fileName)
			s, err := Open(b.Context(), path)
			if err != nil {
				b.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for i := range count {
				r := usualRun(random, fmt.Sprint(i))
				for i := range r.Samples {
					r.Samples[i].Histograms, r.Samples[i].Artefacts = nil, nil
				}
				add(b, s, r)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s, err := OpenRead(b.Context(), path)
				if err != nil {
					b.Fatal(err)
				}
				if all, err := s.List(b.Context(), Filter{}); err != nil || len(all) != count {
					b.Fatal(len(all), err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
