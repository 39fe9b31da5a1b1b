package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// BenchmarkShop compares what a request of the shop's traffic costs the generator with what
// the same requests cost as plain loads, in turn, at the same rate of requests.
//
//	go test -run '^$' -bench Shop -benchtime 1x ./tool/load
func BenchmarkShop(b *testing.B) {
	const sessions, conns, rounds, window = 500.0, 16, 7, 1500 * time.Millisecond
	addr, _ := startRole(b, "shop")
	base := codec.HTTP{URL: "http://" + addr}
	plan := shopPlan(b, 0)
	plan.Flows[2].Steps[0].Think, plan.Flows[2].Steps[0].ThinkMost = 0, 0
	script := compiled(b, plan)
	body := []byte(`{"name": "user 1", "password": "pw-user 1"}`)
	answer := must[*http.Response](b)(http.Post(base.URL+"/login", "application/json", bytes.NewReader(body)))
	var who struct{ Token string }
	if err := json.NewDecoder(answer.Body).Decode(&who); err != nil {
		b.Fatal(err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	plain := []struct {
		part   float64
		target codec.HTTP
	}{
		{0.70, codec.HTTP{URL: base.URL + "/products/3"}},
		{0.20, codec.HTTP{URL: base.URL + "/search?q=red%20chair"}},
		{0.10, codec.HTTP{URL: base.URL + "/login", Body: body}},
		{0.10, codec.HTTP{URL: base.URL + "/buy", Body: []byte("product=3"), Header: http.Header{
			"Authorization": {"Bearer " + who.Token}, "Cookie": {"sid=s" + who.Token}, "Content-Type": {"application/x-www-form-urlencoded"},
		}}},
		{0.10, codec.HTTP{URL: base.URL + "/orders/1"}},
	}
	cost := func(p Plan) float64 {
		p.Conns, p.Arrivals, p.For, p.Warmup, p.MaxLag = conns, Poisson, window, window/5, time.Hour
		r := must[*Result](b)(Run(context.Background(), p))
		if r.Errors["total"] != 0 {
			b.Fatalf("%v: %v", r.Errors, r.InvalidReasons)
		}
		return *r.Client.CPUPerRequest
	}
	var ratio, mixed, apart []float64
	for range rounds {
		m := cost(Plan{Target: base, Rate: sessions, Traffic: script})
		sum := 0.0
		for _, p := range plain {
			sum += p.part / 1.2 * cost(Plan{Target: p.target, Rate: 1.2 * sessions})
		}
		mixed, apart, ratio = append(mixed, m), append(apart, sum), append(ratio, m/sum)
	}
	b.ReportMetric(0, "ns/op") // it has no meaning here; 0 leaves it out
	b.ReportMetric(median(mixed), "traffic-µs/req")
	b.ReportMetric(median(apart), "plain-µs/req")
	b.ReportMetric(median(ratio), "×plain")
}

// BenchmarkStep measures a request of the shop's traffic and its answer without the kernel, and a
// plain request with the same answer.
func BenchmarkStep(b *testing.B) {
	plan := shopPlan(b, 1)
	plan.Cookies = false
	plan.Flows[2].Steps[0].Think, plan.Flows[2].Steps[0].ThinkMost = 0, 0
	const n = 2000
	traffic := must[Plan](b)(Plan{Target: codec.HTTP{URL: "http://h"}, Traffic: compiled(b, plan), Seed: 1, For: time.Hour}.complete())
	answers, _ := shopAnswers(b, traffic, n)
	for name, p := range map[string]Plan{"plain": must[Plan](b)(Plan{Target: codec.HTTP{URL: "http://h"}, For: time.Hour}.complete()), "traffic": traffic} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var r *run
			var c *conn
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					r, c = loneConn(p)
				}
				if used, _, err := c.arrived(answers[i%n], r.now()); err != nil || used != len(answers[i%n]) {
					b.Fatal(used, err)
				}
			}
		})
	}
}

// greatTraffic returns a plan of 200 stages, with a million rows of data and templates of 64 KiB.
func greatTraffic(tb testing.TB) (stages string, script *traffic.Script) {
	tb.Helper()
	var rows bytes.Buffer
	rows.WriteString("name,password\n")
	for i := range 1_000_000 {
		fmt.Fprintf(&rows, "user-%07d,word-%07d\n", i, i)
	}
	name := filepath.Join(tb.TempDir(), "users.csv")
	if err := os.WriteFile(name, rows.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	body := strings.Repeat(strings.Repeat("x", 1000)+"{{u.name}}{{u.password}}", 64)
	words := make([]string, 200)
	for i := range words {
		words[i] = fmt.Sprintf([]string{"%d/15ms", "..%d/15ms"}[i%2], 300+i)
	}
	return "stages:" + strings.Join(words, ","), compiled(tb, traffic.Plan{
		Data:  []traffic.Data{{Name: "u", File: name, Order: traffic.Random}},
		Flows: []traffic.Flow{{Name: "f", Steps: []traffic.Step{{Body: body, Think: time.Millisecond}, {Body: "{{u.name}}", Checks: []string{"body == {{u.name}}"}}}}},
	})
}

// BenchmarkGreatTraffic compares its lag with that of a plain load of as many bytes on the
// same schedule, in turn, and says by what the heap has grown within a run.
//
//	go test -run '^$' -bench GreatTraffic -benchtime 1x ./tool/load
func BenchmarkGreatTraffic(b *testing.B) {
	stages, script := greatTraffic(b)
	addr, _ := startServer(b)
	p := Plan{Target: codec.Frames{Address: addr}, Conns: 8, Arrivals: Poisson, Warmup: -1, MaxLag: time.Hour, AllowErrors: true}
	if err := p.Schedule.UnmarshalText([]byte(stages)); err != nil {
		b.Fatal(err)
	}
	var middle, late, grown [2][]float64
	for range 9 {
		for i, q := range []Plan{p, p} {
			var before, after runtime.MemStats
			if q.Size = 66_000; i == 1 {
				q.Size, q.Traffic = 0, script
			}
			q.WindowOpens = func() { time.AfterFunc(q.Schedule.Length()/2, func() { runtime.GC(); runtime.ReadMemStats(&before) }) }
			q.WindowCloses = func() { runtime.GC(); runtime.ReadMemStats(&after) }
			r := must[*Result](b)(Run(context.Background(), q))
			if r.Errors["total"] != 0 {
				b.Fatalf("%v: %v", r.Errors, r.InvalidReasons)
			}
			middle[i], late[i] = append(middle[i], *r.Lag.P50), append(late[i], *r.Lag.P99)
			grown[i] = append(grown[i], (float64(after.HeapAlloc)-float64(before.HeapAlloc))/1e3)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"plain", "traffic"} {
		b.ReportMetric(median(middle[i]), name+"-lag-p50-µs")
		b.ReportMetric(median(late[i]), name+"-lag-p99-µs")
		b.ReportMetric(median(grown[i]), name+"-grown-KB")
	}
}
