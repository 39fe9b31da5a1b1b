package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// shopCalls is how often the application was called, by what and by whom.
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

// What every step says it has sent is what the application's database has counted, in an
// open loop and in a closed one.
func TestShopCountsAreTheApplications(t *testing.T) {
	for _, p := range []Plan{
		{Conns: 20, Rate: 400, Requests: 600, Arrivals: Poisson},
		{Conns: 4, Requests: 600},
	} {
		addr, _ := startRole(t, "shop")
		p.Target, p.Seed = HTTP{URL: "http://" + addr}, 5
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
		for n := range calls["login"] { // row n is session n's
			if who := fmt.Sprintf("login user %d", n); users[who] != 1 {
				t.Errorf("%q %d times", who, users[who])
			}
		}
		if browse := float64(calls["browse"]) / 600; browse < 0.64 || browse > 0.76 {
			t.Errorf("%.2f of the sessions browse, not 0.7", browse)
		}
	}
}

// allOf is what an open loop offers of a flow: the moments, and the numbers that choose
// its data.
func allOf(p Plan, flow int32, till time.Duration) (all []arrival) {
	o := newOffering(p, p.course())
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

// A flow has the same sessions at the same moments with the same data whatever becomes of
// the others, as long as its own part of the rate is the same.
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
	}
}

// Sessions are the same requests byte for byte, whatever another flow's weight is.
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

// An answer that fails a check ends its session, and counts for its step.
func TestFailedStepEndsItsSession(t *testing.T) {
	addr, _ := startRole(t, "shop")
	plan := shopPlan(t, 1)
	plan.Flows[2].Steps[0].Checks = []string{"json user.name matches user [0-8]$"}
	r := must[*Result](t)(Run(context.Background(), Plan{
		Target: HTTP{URL: "http://" + addr}, Conns: 3, Requests: 200, Seed: 1, Traffic: compiled(t, plan), For: patience,
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
	if why := strings.Join(r.InvalidReasons, " "); !strings.Contains(why, "step login: the answer fails the check json user.name matches user [0-8]$") {
		t.Errorf("the reason is %q", why)
	}
}

// Rows that are used once are each used once, and the load ends with them.
func TestDataAreUsedUp(t *testing.T) {
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
			Target: HTTP{URL: "http://" + addr}, Conns: 8, Rate: rate, Seed: 1, Traffic: compiled(t, plan), For: patience, MaxLag: time.Hour,
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

// Redirects are followed on request, and cookies kept.
func TestRedirectsAreFollowed(t *testing.T) {
	addr, _ := startRole(t, "shop")
	plan := traffic.Plan{Web: true, Redirects: 3, Cookies: true, Flows: []traffic.Flow{{Steps: []traffic.Step{
		{Name: "old", Path: "/old", Statuses: []int{200}, Checks: []string{"json product.id == 1"}},
	}}}}
	target := HTTP{URL: "http://" + addr}
	r := must[*Result](t)(Run(context.Background(), Plan{Target: target, Requests: 100, Traffic: compiled(t, plan)}))
	calls, _ := shopCalls(t, addr)
	if want := map[string]int64{"old": 100, "browse": 100}; !maps.Equal(calls, want) || r.Errors["total"] != 0 || r.Requests != 200 || r.Steps[0].Requests != 200 {
		t.Errorf("%v calls, %d requests, errors %v, %v", calls, r.Requests, r.Errors, r.InvalidReasons)
	}
	plan.Redirects = 0
	r = must[*Result](t)(Run(context.Background(), Plan{Target: target, Requests: 100, Traffic: compiled(t, plan)}))
	if r.Errors["failed"] != 100 || r.Statuses["302"] != 100 {
		t.Errorf("without: %v, %v", r.Errors, r.Statuses)
	}
}
