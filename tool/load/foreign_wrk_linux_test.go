package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkWrkAgainstNginx compares how many requests a second of its own CPU time
// is worth to the generator with what it is to wrk, against the same nginx, in turns
// and in random order. Each runs as a process of its own, whose CPU time is all that
// it has used, from its start to its end.
//
//	go test -run '^$' -bench WrkAgainstNginx -benchtime 1x ./tool/load
//
// HONE_BENCH_WINDOW (2s, whole seconds) is how long one sample takes,
// HONE_BENCH_ROUNDS (5) how many pairs there are; the figures are medians, of ×wrk
// the least and the most as well. wrk looks at the status of an answer only, the
// generator at its length, too.
func BenchmarkWrkAgainstNginx(b *testing.B) {
	wrk := foreign(b, "wrk", "wrk")
	n := startNginx(b, "access_log off; keepalive_requests 1000000000;", map[string]string{"page.html": strings.Repeat("hone\n", pageLength/5)})
	for _, conns := range []int{64, 256} {
		for _, procs := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%d", conns, procs), func(b *testing.B) {
				compareWithWrk(b, wrk, n.URL+"/page.html", conns, procs)
			})
		}
	}
}

// worth is what one process has done.
type worth struct{ perCPU, rate float64 } // requests a second, of CPU time and of any

func compareWithWrk(b *testing.B, wrk, url string, conns, procs int) {
	rounds, window := 5, 2*time.Second
	if v := os.Getenv("HONE_BENCH_ROUNDS"); v != "" {
		rounds = must[int](b)(strconv.Atoi(v))
	}
	if v := os.Getenv("HONE_BENCH_WINDOW"); v != "" {
		window = must[time.Duration](b)(time.ParseDuration(v))
	}
	var perCPU, rates [2][]float64
	var ratios []float64
	for range rounds {
		var pair [2]worth
		for _, who := range rand.Perm(len(pair)) {
			if who == 0 {
				pair[who] = worthOfWrk(b, wrk, url, conns, procs, window)
			} else {
				pair[who] = worthOfOurs(b, url, conns, procs, window)
			}
			perCPU[who], rates[who] = append(perCPU[who], pair[who].perCPU), append(rates[who], pair[who].rate)
		}
		ratios = append(ratios, pair[1].perCPU/pair[0].perCPU)
	}
	b.ReportMetric(0, "ns/op") // of no meaning here; 0 leaves it out
	b.ReportMetric(median(perCPU[0]), "wrk-req/cpu-s")
	b.ReportMetric(median(perCPU[1]), "hone-req/cpu-s")
	b.ReportMetric(median(rates[0]), "wrk-req/s")
	b.ReportMetric(median(rates[1]), "hone-req/s")
	b.ReportMetric(median(ratios), "×wrk")
	b.ReportMetric(slices.Min(ratios), "×wrk-least")
	b.ReportMetric(slices.Max(ratios), "×wrk-most")
	b.Logf("requests a CPU second: wrk %.0f, hone %.0f", perCPU[0], perCPU[1])
}

func worthOfWrk(b *testing.B, wrk, url string, conns, procs int, window time.Duration) worth {
	cmd := exec.CommandContext(b.Context(), wrk, "-t", strconv.Itoa(procs), "-c", strconv.Itoa(conns), "-d", window.String(), url)
	out, cpu := ranToItsEnd(b, cmd)
	m := regexp.MustCompile(`(\d+) requests in `).FindSubmatch(out)
	if m == nil || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		b.Fatalf("wrk said:\n%s", out)
	}
	requests := must[float64](b)(strconv.ParseFloat(string(m[1]), 64))
	return worth{requests / cpu.Seconds(), requests / window.Seconds()}
}

func worthOfOurs(b *testing.B, url string, conns, procs int, window time.Duration) worth {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=load", "GOMAXPROCS="+strconv.Itoa(procs),
		"HONE_TEST_URL="+url, "HONE_TEST_CONNS="+strconv.Itoa(conns), "HONE_TEST_FOR="+window.String())
	out, cpu := ranToItsEnd(b, cmd)
	var r Result
	if err := json.Unmarshal(out, &r); err != nil {
		b.Fatalf("the generator said %q: %v", out, err)
	}
	if r.Requests == 0 || r.Errors["total"] != 0 || r.Statuses["200"] != r.Requests {
		b.Fatalf("%d requests, statuses %v, errors %v", r.Requests, r.Statuses, r.Errors)
	}
	return worth{float64(r.Requests) / cpu.Seconds(), float64(r.Requests) / window.Seconds()}
}

// ranToItsEnd is what a program has said and the CPU time that it has used.
func ranToItsEnd(b *testing.B, cmd *exec.Cmd) (said []byte, cpu time.Duration) {
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = patience
	said = must[[]byte](b)(cmd.Output())
	return said, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
