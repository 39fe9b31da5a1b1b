package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// shopPlan is the shop's traffic: browse 70 %, search 20 %, log in and buy 10 %.
func shopPlan(tb testing.TB, seed uint64) traffic.Plan {
	tb.Helper()
	users := filepath.Join(tb.TempDir(), "users.csv")
	var text strings.Builder
	text.WriteString("name,password\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "user %d,pw-user %d\n", i, i)
	}
	words := filepath.Join(tb.TempDir(), "words.jsonl")
	lines := "{\"q\": \"lamp\", \"n\": 2}\n{\"q\": \"red chair\", \"n\": 1}\n{\"q\": \"x&y=\\u00fc\", \"n\": 0}\n"
	for name, text := range map[string]string{users: text.String(), words: lines} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			tb.Fatal(err)
		}
	}
	return traffic.Plan{
		Web: true, Cookies: true, Seed: seed,
		Data: []traffic.Data{{Name: "users", File: users}, {Name: "words", File: words, Order: traffic.Random}},
		Flows: []traffic.Flow{
			{Name: "browse", Weight: 70, Steps: []traffic.Step{{
				Name: "browse", Path: "/products/{{random:1..6}}", Checks: []string{"header Content-Type contains json", "json product.price >= 100"},
			}}},
			{Name: "search", Weight: 20, Steps: []traffic.Step{{
				Name: "search", Path: "/search?q={{words.q}}", Checks: []string{"json query == {{words.q}}", "json found == {{words.n}}"},
			}}},
			{Name: "buy", Weight: 10, Steps: []traffic.Step{
				{
					Name: "login", Path: "/login", Body: `{"name": "{{users.name|json}}", "password": "{{users.password|json}}"}`,
					Checks: []string{"status == 200", "json user.name == {{users.name}}"},
					Takes:  []traffic.Take{{Name: "token", From: "json token"}}, Think: 2 * time.Millisecond, ThinkMost: 6 * time.Millisecond,
				},
				{
					Name: "buy", Path: "/buy", Header: []traffic.Field{{Name: "Authorization", Value: "Bearer {{token}}"}, {Name: "Content-Type", Value: "application/x-www-form-urlencoded"}},
					Body: "product={{random:1..6}}", Statuses: []int{201}, Takes: []traffic.Take{{Name: "order", From: "header Location"}},
				},
				{Name: "order", Path: "{{order|raw}}", Checks: []string{"json user == {{users.name}}"}},
			}},
		},
	}
}

func compiled(tb testing.TB, p traffic.Plan) *traffic.Script {
	tb.Helper()
	return must[*traffic.Script](tb)(traffic.Compile(p))
}

// shopCalls returns how often the application was called, by step and by user.
func shopCalls(tb testing.TB, addr string) (calls, users map[string]int64) {
	tb.Helper()
	answer := must[*http.Response](tb)(http.Get("http://" + addr + "/calls"))
	text := must[[]byte](tb)(io.ReadAll(answer.Body))
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	calls, users = map[string]int64{}, map[string]int64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var n int64
		fmt.Sscan(words[2], &n)
		calls[words[0]] += n
		users[words[0]+" "+words[1]] += n
	}
	return calls, users
}

// The counts of every step equal those in the application's database, in an open and in a closed
// loop.
func TestShopCountsAreTheApplications(t *testing.T) {
	sideBySide(t)
	for _, p := range []Plan{
		{Conns: 20, Rate: 400, Requests: 600, Arrivals: Poisson},
		{Conns: 4, Requests: 600},
	} {
		addr, _ := startRole(t, "shop")
		p.Target, p.Seed = codec.HTTP{URL: "http://" + addr}, 5
		p.Traffic = compiled(t, shopPlan(t, p.Seed))
		p.MaxLag, p.For = time.Hour, patience
		r := must[*Result](t)(Run(context.Background(), p))
		if r.Errors["total"] != 0 {
			t.Fatalf("%v: %v", r.Errors, r.InvalidReasons)
		}
		calls, users := shopCalls(t, addr)
		sessions := int64(0)
		for _, s := range r.Steps {
			if s.Requests != calls[s.Name] || s.Requests == 0 {
				t.Errorf("%d requests of %s, and the application has had %d", s.Requests, s.Name, calls[s.Name])
			}
			if s.Latency.P50 == nil || s.Service.P50 == nil || *s.Rate <= 0 {
				t.Errorf("%s has no figures: %+v", s.Name, s)
			}
			if s.Name != "buy" && s.Name != "order" {
				sessions += s.Requests
			}
		}
		if sessions != 600 {
			t.Errorf("%d sessions, not 600", sessions)
		}
		if calls["login"] != calls["buy"] || calls["buy"] != calls["order"] {
			t.Errorf("not every session came to its end: %v", calls)
		}
		for n := range calls["login"] { // row n belongs to session n
			if who := fmt.Sprintf("login user %d", n); users[who] != 1 {
				t.Errorf("%q %d times", who, users[who])
			}
		}
		if browse := float64(calls["browse"]) / 600; browse < 0.64 || browse > 0.76 {
			t.Errorf("%.2f of the sessions browse, not 0.7", browse)
		}
	}
}

// allOf returns the arrivals of a flow in an open loop: the moments, and the numbers that select
// its data.
func allOf(p Plan, flow int32, till time.Duration) (all []arrival) {
	o := newOffering(p, p.timeline())
	for n := int64(0); ; n++ {
		a, ok := o.at(n)
		if !ok || a.moment >= int64(till) {
			return all
		}
		if a.flow == flow {
			all = append(all, a)
		}
	}
}

// A flow has the same sessions at the same moments with the same data whatever the other flows
// are, as long as its share of the rate stays the same.
func TestFlowIsUnchangedByTheOthers(t *testing.T) {
	for _, arrivals := range []Arrivals{Constant, Poisson} {
		before, after := shopPlan(t, 3), shopPlan(t, 3)
		after.Flows[1].Weight = 60
		after.Flows = append(after.Flows, traffic.Flow{Name: "more", Weight: 60, Steps: []traffic.Step{{Path: "/"}}})
		p := Plan{Rate: 1000, Arrivals: arrivals, Seed: 3, Traffic: compiled(t, before)}
		q := Plan{Rate: 2000, Arrivals: arrivals, Seed: 3, Traffic: compiled(t, after)}
		for _, flow := range []int32{0, 2} {
			one, other := allOf(p, flow, 10*time.Second), allOf(q, flow, 10*time.Second)
			if len(one) < 900 || !slices.Equal(one, other) {
				t.Errorf("%v: flow %d has %d sessions, then %d", arrivals, flow, len(one), len(other))
			}
			for i := range one {
				if one[i].number != uint64(i) {
					t.Fatalf("%v: session %d of flow %d has the number %d", arrivals, i, flow, one[i].number)
				}
			}
		}
		if n := len(allOf(p, 1, 10*time.Second)); n < 1700 || n > 2300 {
			t.Errorf("%v: %d sessions of a flow with a fifth of 10,000", arrivals, n)
		}
		// With the same seed, flows scaled to the same rate would be in step.
		if browse, buy := allOf(p, 0, time.Second)[1].moment*7, allOf(p, 2, time.Second)[1].moment; max(browse-buy, buy-browse) < 1000 {
			t.Errorf("%v: flows are in step, at %d and %d", arrivals, browse, buy)
		}
	}
}

// Sessions send the same requests byte for byte, whatever another flow's weight is.
func TestFlowHasTheSameRequests(t *testing.T) {
	texts := map[string]bool{}
	for _, weight := range []float64{20, 300} {
		plan := shopPlan(t, 3)
		plan.Flows[1].Weight = weight
		script := compiled(t, plan)
		var s traffic.Session
		var text []byte
		for n := range uint64(50) {
			s.Start(script, 0, n)
			text = s.Request().Path.Append(text, &s)
			s.Start(script, 2, n)
			text = s.Request().Body.Append(text, &s)
			think, _ := s.Next()
			text = fmt.Append(text, think)
		}
		texts[string(text)] = true
	}
	if len(texts) != 1 {
		t.Error("they differ")
	}
}

// A step's figures are about the same requests, whatever the other flows are.
func TestStepsHaveTheSameNumbers(t *testing.T) {
	sideBySide(t)
	addr, _ := startRole(t, "shop")
	var numbers [][2]int64
	for _, weight := range []float64{20, 60} {
		plan := shopPlan(t, 4)
		plan.Flows[1].Weight = weight
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: codec.HTTP{URL: "http://" + addr}, Conns: 20, Rate: 300 * (80 + weight) / 100, Arrivals: Poisson, Seed: 4,
			Traffic: compiled(t, plan), For: 700 * time.Millisecond, Warmup: 100 * time.Millisecond, MaxLag: time.Hour, AllowErrors: true,
		}))
		numbers = append(numbers, [2]int64{r.Steps[0].Requests, r.Steps[2].Requests})
	}
	if numbers[0] != numbers[1] || numbers[0][0] < 100 {
		t.Errorf("browse and login have %v requests", numbers)
	}
}

// An answer that fails a check ends its session, and counts for its step.
func TestFailedStepEndsItsSession(t *testing.T) {
	sideBySide(t)
	addr, _ := startRole(t, "shop")
	plan := shopPlan(t, 1)
	plan.Flows[2].Steps[0].Checks = []string{"json user.name matches user [0-8]$"}
	r := must[*Result](t)(Run(context.Background(), Plan{
		Target: codec.HTTP{URL: "http://" + addr}, Conns: 3, Requests: 200, Seed: 1, Traffic: compiled(t, plan), For: patience,
	}))
	calls, _ := shopCalls(t, addr)
	failed := int64(0)
	for _, s := range r.Steps {
		if s.Name == "login" {
			failed = s.Errors["wrong_content"]
		}
		if s.Requests != calls[s.Name] {
			t.Errorf("%d requests of %s, and the application has had %d", s.Requests, s.Name, calls[s.Name])
		}
	}
	if calls["buy"] != 9 || failed != calls["login"]-9 || failed == 0 || r.Errors["wrong_content"] != failed {
		t.Errorf("%d logins, %d failed, %d bought: %v", calls["login"], failed, calls["buy"], r.Errors)
	}
	if why := strings.Join(r.InvalidReasons, " "); !strings.Contains(why, "step login: the answer fails check 1, json user.name matches") {
		t.Errorf("the reason is %q", why)
	}
}

// Rows of order once are each used once, and the load ends with them.
func TestDataAreUsedUp(t *testing.T) {
	sideBySide(t)
	for _, rate := range []float64{0, 2000} {
		addr, _ := startRole(t, "shop")
		plan := shopPlan(t, 1)
		users := plan.Data[0].File
		text := must[[]byte](t)(os.ReadFile(users))
		lines := strings.SplitAfter(string(text), "\n")[:41]
		if err := os.WriteFile(users, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		plan.Data[0].Order = traffic.Once
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: codec.HTTP{URL: "http://" + addr}, Conns: 8, Rate: rate, Seed: 1, Traffic: compiled(t, plan), For: patience, MaxLag: time.Hour,
		}))
		calls, who := shopCalls(t, addr)
		if r.Errors["total"] != 0 || calls["login"] != 40 || calls["order"] != 40 || calls["browse"] < 150 {
			t.Errorf("rate %v: %v, %v", rate, r.Errors, calls)
		}
		for n := range 40 {
			if name := fmt.Sprintf("login user %d", n); who[name] != 1 {
				t.Errorf("rate %v: %q %d times", rate, name, who[name])
			}
		}
		if r.Window > patience/2 {
			t.Errorf("it lasted for %v", r.Window)
		}
	}
}

// shopAnswer returns the shop's answer to the only outstanding request of a connection.
func shopAnswer(c *conn, login int) []byte {
	client := c.clients[0]
	status, body := "200 OK", ""
	switch client.Request().Name {
	case "browse":
		body = `{"product": {"price": 100}}`
	case "search":
		path := string(client.Request().Path.Append(nil, &client.Session))
		word, _ := url.QueryUnescape(strings.TrimPrefix(path, "/search?q="))
		body = fmt.Sprintf(`{"query": %q, "found": %d}`, word, map[string]int{"lamp": 2, "red chair": 1}[word])
	case "login":
		body = fmt.Sprintf(`{"token": "t", "user": {"name": "user %d"}}`, login)
	case "buy":
		status = "201 Created"
	case "order":
		body = fmt.Sprintf(`{"user": "user %d"}`, login)
	}
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: json\r\nLocation: /orders/5\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// loneConn returns a run's only connection, which discards its output.
func loneConn(p Plan) (*run, *conn) {
	r := newRun(p)
	r.counters[0].window = window{0, int64(time.Hour)}
	c := newConn(r, 0, swallow{})
	c.begin(r.now())
	return r, c
}

// shopAnswers returns the answers to the first n requests of the shop's traffic, and how often
// each step is among them.
func shopAnswers(tb testing.TB, p Plan, n int) (answers [][]byte, done map[string]int) {
	tb.Helper()
	r, c := loneConn(p)
	done = map[string]int{}
	for range n {
		done[c.clients[0].Request().Name]++
		answer := shopAnswer(c, done["login"]-1)
		answers = append(answers, answer)
		if used, _, err := c.arrived(answer, r.now()); err != nil || used != len(answer) {
			tb.Fatal(used, err)
		}
	}
	return answers, done
}

// Sessions, their values, takes and checks run without allocation, and ended sessions are reused.
func TestSessionsAllocateNothing(t *testing.T) {
	plan := shopPlan(t, 1)
	plan.Cookies = false
	plan.Flows[2].Steps[0].Think, plan.Flows[2].Steps[0].ThinkMost = 0, 0
	p := must[Plan](t)(Plan{Target: codec.HTTP{URL: "http://h"}, Traffic: compiled(t, plan), Seed: 1, For: time.Hour}.complete())
	settle := func(r *run, c *conn, answer []byte) {
		if used, _, err := c.arrived(answer, r.now()); err != nil || used != len(answer) {
			t.Fatal(used, err)
		}
	}
	answers, done := shopAnswers(t, p, 2600)
	r, c := loneConn(p)
	next := 0
	for ; next < 500; next++ {
		settle(r, c, answers[next])
	}
	if n := testing.AllocsPerRun(2000, func() {
		settle(r, c, answers[next])
		next++
	}); n != 0 {
		t.Errorf("%v allocations for a request", n)
	}
	if bad := r.counters[0].now.failures(); bad != 0 {
		t.Errorf("%d of %v failed: %v", bad, done, r.counters[0].now.Example)
	}
	if done["order"] == 0 || done["login"] != done["buy"] || len(c.retired)+c.live > 2 {
		t.Errorf("%v, %d sessions are kept", done, len(c.retired)+c.live)
	}
}

// During a client's think time its connection serves others, and the session continues on time;
// think time is in no response time.
func TestThinkingHoldsNoConnection(t *testing.T) {
	sideBySide(t)
	longer(t, 300*time.Millisecond, func(think time.Duration) string {
		script := compiled(t, traffic.Plan{Flows: []traffic.Flow{{Steps: []traffic.Step{
			{Name: "first", Body: "a{{n}}", Takes: []traffic.Take{{Name: "it", From: "regex [0-9]+"}}, Think: think},
			{Name: "second", Body: "b{{it}}", Checks: []string{"body == b{{n}}"}},
		}}}})
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: echoServer(t, "tcp"), Depth: 1, Rate: 400, Requests: 300, Traffic: script, MaxLag: time.Hour, For: patience, Timeout: patience,
		}))
		if r.Errors["total"] != 0 || r.Steps[0].Requests != 300 || r.Steps[1].Requests != 300 {
			t.Fatalf("%v, %+v", r.Errors, r.Steps)
		}
		// A connection that blocked during think times would take 300 times as long as one think time.
		if r.Window > 30*think || r.Window < think {
			return fmt.Sprintf("it took %v", r.Window)
		}
		if median := time.Duration(*r.Steps[1].Latency.P50 * 1e3); median > think/2 {
			return fmt.Sprintf("the second step takes %v", median)
		}
		// In a closed loop a thinking client keeps its place.
		r = must[*Result](t)(Run(context.Background(), Plan{
			Target: echoServer(t, "tcp"), Conns: 2, Depth: 3, Requests: 18, Traffic: script, For: patience, Timeout: patience,
		}))
		if r.Requests != 36 || r.Window < 3*think {
			t.Errorf("six clients have done 18 sessions in %v: %+v", r.Window, r.Errors)
		}
		return ""
	})
}

// A closed connection does not end a session that can go on.
func TestSessionsOutliveTheirConnection(t *testing.T) {
	sideBySide(t)
	served := 0
	var lock sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		if served++; served%3 == 0 {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprintf(w, "at %s", r.URL.Path)
	}))
	defer s.Close()
	script := compiled(t, traffic.Plan{Web: true, Flows: []traffic.Flow{{Steps: []traffic.Step{
		{Name: "first", Path: "/{{n}}", Takes: []traffic.Take{{Name: "at", From: "regex at (.*)"}}, Think: 2 * time.Millisecond},
		{Name: "second", Path: "{{at|raw}}/more", Checks: []string{"body == at /{{n}}/more"}},
	}}}})
	for _, rate := range []float64{0, 1000} {
		served = 0
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: codec.HTTP{URL: s.URL}, Conns: 4, Rate: rate, Requests: 300, Traffic: script, MaxLag: time.Hour, For: patience, Timeout: patience,
		}))
		if r.Errors["total"] != 0 || r.Steps[0].Requests != 300 || r.Steps[1].Requests != 300 || served != 600 || r.Reconnects < 100 {
			t.Errorf("rate %v: %d served, %d reconnects, %v, %v", rate, served, r.Reconnects, r.Errors, r.InvalidReasons)
		}
	}
}

// Content-Length of a body with values has exactly the digits that it needs.
func TestBodiesHaveTheirLength(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.jsonl")
	var lines []byte
	for _, n := range []int{0, 1, 9, 10, 99, 100, 12345} {
		lines = fmt.Appendf(lines, "{\"v\": %q}\n", strings.Repeat("x", n))
	}
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	p := Plan{Target: codec.HTTP{URL: "http://h"}, Traffic: compiled(t, traffic.Plan{Web: true, Data: []traffic.Data{{Name: "d", File: file}}, Flows: []traffic.Flow{{Steps: []traffic.Step{{Body: "{{d.v}}"}}}}})}
	p = must[Plan](t)(p.complete())
	var s traffic.Session
	for i, n := range []int{0, 1, 9, 10, 99, 100, 12345} {
		s.Start(p.Traffic, 0, uint64(i))
		got := string(p.Target.Codec().AppendRequest([]byte("before"), 1, nil, &s))
		want := fmt.Sprintf("beforePOST / HTTP/1.1\r\nHost: h\r\nUser-Agent: hone\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
		if got != want {
			t.Errorf("%d bytes: %.200q", n, got)
		}
	}
	for method, want := range map[string]bool{"POST": true, "PUT": true, "PATCH": true, "GET": false, "DELETE": false} {
		p := Plan{Target: codec.HTTP{URL: "http://h"}, Traffic: compiled(t, traffic.Plan{Web: true, Flows: []traffic.Flow{{Steps: []traffic.Step{{Method: method}}}}})}
		p = must[Plan](t)(p.complete())
		s.Start(p.Traffic, 0, 0)
		if got := string(p.Target.Codec().AppendRequest(nil, 1, nil, &s)); strings.Contains(got, "\r\nContent-Length: 0\r\n") != want {
			t.Errorf("%s without a body: %q", method, got)
		}
	}
}

// A missing answer ends its session, and the connection serves the next one.
func TestHangingStepEndsItsSession(t *testing.T) {
	sideBySide(t)
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-hang
		}
	}))
	defer s.Close()
	defer close(hang)
	script := compiled(t, traffic.Plan{Web: true, Flows: []traffic.Flow{{Steps: []traffic.Step{
		{Name: "well", Path: "/"}, {Name: "hangs", Path: "/hang", Method: "POST", Timeout: 200 * time.Millisecond}, {Name: "never", Path: "/"},
	}}}})
	for _, rate := range []float64{0, 1000} {
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: codec.HTTP{URL: s.URL}, Conns: 4, Rate: rate, Requests: 20, Timeout: patience / 2,
			Traffic: script, MaxLag: time.Hour, For: patience, AllowErrors: true,
		}))
		hangs := r.Steps[1]
		if hangs.Latency.Max != nil && *hangs.Latency.Max > 1e7 {
			t.Errorf("rate %v: a step's own time-out of 200ms took %v µs", rate, *hangs.Latency.Max)
		}
		if r.Steps[2].Requests != 0 || hangs.Errors["timeout"] != hangs.Requests || hangs.Requests == 0 || *hangs.Latency.Max < 190_000 {
			t.Errorf("rate %v: %+v", rate, r.Steps)
		}
		if rate == 0 && (hangs.Requests != 20 || r.Steps[0].Errors["total"] != 0) {
			t.Errorf("%d of 20 sessions have come to it: %v", hangs.Requests, r.Steps[0].Errors)
		}
	}
}

// A step sees the head of its own answer, even if a step that ignores heads had the same bytes
// before.
func TestStepsSeeTheirHeads(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("X-For", "all")
		if r.URL.Path == "/c" {
			w.Header().Set("X-For", "one")
		}
		fmt.Fprint(w, "ok")
	}))
	defer s.Close()
	script := compiled(t, traffic.Plan{Web: true, Flows: []traffic.Flow{{Steps: []traffic.Step{
		{Path: "/c", Checks: []string{"header X-For == one"}},
		{Path: "/a"},
		{Path: "/b", Checks: []string{"header X-For == all", "body == ok"}},
	}}}})
	r := must[*Result](t)(Run(context.Background(), Plan{Target: codec.HTTP{URL: s.URL}, Requests: 100, Traffic: script}))
	if r.Errors["total"] != 0 || r.Requests != 300 {
		t.Errorf("%v: %v", r.Errors, r.InvalidReasons)
	}
}

// Later steps without timely answers count as behind, like first steps.
func TestGateKnowsLaterSteps(t *testing.T) {
	for followed, behind := range map[int64]bool{0: false, 10: false, 1000: true} {
		m := Measured{
			tally: *newTally(true), Lag: newHistogram(), plan: Plan{Rate: 100, For: 10 * time.Second},
			Offered: 1000, Followed: followed,
		}
		m.During = 1000
		m.Latency.record(1000, 1000)
		if why := m.behind(); (why != "") != behind {
			t.Errorf("%d later steps: %q", followed, why)
		}
	}
}

// Sessions of messages work with any framing and match, and echoes are checked for each.
func TestSessionsOfMessages(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct{ frame, match, first, second string }{
		{"line", "order", "hello {{n}}", "bye {{it}}"}, {"len16be", "order", "hello {{n}}", "bye {{it}}"},
		{"len32le", "id@2:4", "hello {{n}}", "goodbye {{it}}"}, {"len32be+incl", "id@0:8", "{{random:10000000..99999999}} {{n}}", "12345678{{it}}"},
		{"fixed:5", "order", "hello", "12345"},
	} {
		plan := traffic.Plan{OneLine: c.frame == "line", Flows: []traffic.Flow{
			{Name: "a", Weight: 2, Steps: []traffic.Step{{Name: "one", Body: c.first, Takes: []traffic.Take{{Name: "it", From: "regex [^ ]*$"}}}, {Name: "two", Body: c.second}}},
			{Name: "b", Steps: []traffic.Step{{Name: "other", Body: "12345", Checks: []string{"length == 5", "body contains 2345"}}}},
		}}
		if c.frame != "fixed:5" {
			plan.Flows[1].Steps[0].Body, plan.Flows[1].Steps[0].Checks = "123456789{{n}}", []string{"body == 123456789{{n}}", "body matches ^1234567"}
		}
		target := codec.Messages{Address: serveWith(t, "tcp", echoes(framing(t, c.frame), nil)).Address, Framing: framing(t, c.frame), Match: match(t, c.match)}
		for _, rate := range []float64{0, 2000} {
			r := must[*Result](t)(Run(context.Background(), Plan{
				Target: target, Conns: 2, Depth: 5, Rate: rate, Requests: 300, Traffic: compiled(t, plan), Echo: true, MaxLag: time.Hour, For: patience, Timeout: patience / 2,
			}))
			if r.Errors["total"] != 0 || r.Steps[0].Requests != r.Steps[1].Requests || r.Steps[0].Requests+r.Steps[2].Requests != 300 || r.Steps[0].Requests < 150 {
				t.Errorf("%s, %s, rate %v: %v, %v, %+v", c.frame, c.match, rate, r.Errors, r.InvalidReasons, r.Steps)
			}
		}
	}
	for name, c := range map[string]struct{ frame, match, body string }{
		"other lengths": {"fixed:5", "order", "{{n}}"}, "too long": {"len16be", "order", strings.Repeat("x", 1<<16)}, "no room": {"len32be", "id@1:8", "{{n}}"},
	} {
		plan := traffic.Plan{Flows: []traffic.Flow{{Steps: []traffic.Step{{Body: c.body}}}}}
		r, err := Run(context.Background(), Plan{
			Target: codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, c.frame), Match: match(t, c.match)}, Traffic: compiled(t, plan),
		})
		if e := faultOf(t, err); r != nil || e.Kind != BadPlan || e.Try == "" {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// Goals can name steps whose names contain dots.
func TestGoalsOfSteps(t *testing.T) {
	for text, want := range map[string]Goal{
		"login.p99<20ms":          {Step: "login", Metric: "p99"},
		"a.b.service.p99.9<=20ms": {Step: "a.b", Metric: "service.p999"},
		"login.errors<1%":         {Step: "login", Metric: "errors"},
		"service.p50<1ms":         {Metric: "service.p50"},
	} {
		g := must[Goal](t)(ParseGoal(text))
		if g.Step != want.Step || g.Metric != want.Metric || g.String() != text {
			t.Errorf("%q is read as %+v", text, g)
		}
	}
	r := &Result{Valid: true, Requests: 10, Errors: map[string]int64{"total": 5}, Steps: []Step{
		{Name: "login", Requests: 200, Errors: map[string]int64{"total": 1}, Latency: Quantiles{P99: new(15000.0)}, Service: Quantiles{P99: new(14000.0)}},
	}}
	goals := []Goal{}
	for _, text := range []string{"login.p99<20ms", "login.service.p99<14ms", "login.errors<1%", "login.requests>=200", "errors<1%", "buy.p99<1s"} {
		goals = append(goals, must[Goal](t)(ParseGoal(text)))
	}
	met := ""
	for _, o := range Check(r, goals) {
		met += fmt.Sprint(o.Met, " ")
	}
	if met != "true false true true false false " {
		t.Errorf("met: %s", met)
	}
}

// After an answer a session goes on at once, after its think time, or not at all.
func TestFollow(t *testing.T) {
	thinking := func(think time.Duration) *traffic.Script {
		return compiled(t, traffic.Plan{Flows: []traffic.Flow{{Name: "f", Weight: 1, Steps: []traffic.Step{
			{Name: "first", Body: "a", Think: think}, {Name: "last", Body: "b"},
		}}}})
	}
	thinks, goesOn := thinking(10), thinking(0)
	for name, c := range map[string]struct {
		now         int64
		last        bool // the answer was that of the last step
		atOnce      bool // without a think time
		bad, stop   bool
		live, later int // sessions, and those of them whose request is due
		thinking    int
	}{
		"think time":            {now: 50, live: 1, thinking: 1},
		"at once":               {now: 50, atOnce: true, live: 1, later: 1},
		"at once, at the end":   {now: 99, atOnce: true, live: 1, later: 1},
		"at once, after it":     {now: 100, atOnce: true},
		"failed":                {now: 50, bad: true},
		"last step":             {now: 50, last: true},
		"due after the load":    {now: 90},
		"due before its end":    {now: 89, live: 1, thinking: 1},
		"stopping":              {now: 50, stop: true},
		"at once, and stopping": {now: 50, atOnce: true, stop: true},
	} {
		script := thinks
		if c.atOnce {
			script = goesOn
		}
		r := &run{plan: Plan{Traffic: script}, start: time.Now()}
		timer := must[*sys.Timer](t)(r.newTimer())
		t.Cleanup(func() { timer.Close() })
		r.thoughts = &thoughts{run: r, timer: timer}
		r.stopping.Store(c.stop)
		conn := &conn{run: r, counter: &counter{window: window{0, 100}, now: newTally(true)}}
		of := conn.admit(arrival{})
		if c.last {
			of.Next()
		}
		conn.follow(of, c.now, !c.bad)
		if conn.live != c.live || conn.later.Len() != c.later || len(r.thoughts.all) != c.thinking || len(conn.retired) != 1-c.live {
			t.Errorf("%s: %d live, %d due, %d thinking, %d retired", name, conn.live, conn.later.Len(), len(r.thoughts.all), len(conn.retired))
		}
	}
}
