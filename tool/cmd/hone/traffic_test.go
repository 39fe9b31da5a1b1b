package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/tool/exit"
)

// manualScenario is the one of docs/load.md, for another target and half a second.
func manualScenario(t *testing.T, target string) string {
	t.Helper()
	page := readPage(t, "load.md")
	_, block, found := strings.Cut(page, "```toml\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/load.md has no scenario")
	}
	for from, to := range map[string]string{
		"http://127.0.0.1:8080":                       target,
		"stages:0..1000/10s,1000/30s,3000/5s,..0/10s": "stages:0..300/300ms,300/300ms,900/100ms,..0/300ms",
	} {
		if !strings.Contains(block, from) {
			t.Fatalf("docs/load.md's scenario has no %q", from)
		}
		block = strings.Replace(block, from, to, 1)
	}
	return block
}

// scenarioFolder has the scenario and its data.
func scenarioFolder(t *testing.T, scenario string) (file string) {
	t.Helper()
	dir := t.TempDir()
	users := "name,password\n"
	for i := range 1000 {
		users += fmt.Sprintf("user %d,secret-%d\n", i, i)
	}
	for name, text := range map[string]string{
		"shop.toml": scenario, "users.csv": users, "words.jsonl": "{\"word\": \"lamp\"}\n{\"word\": \"red chair\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shop.toml")
}

// smallShop answers as the manual's scenario expects, and counts.
func smallShop(t *testing.T) (url string, calls map[string]int, lock *sync.Mutex) {
	t.Helper()
	calls, lock = map[string]int{}, &sync.Mutex{}
	count := func(name string) int {
		lock.Lock()
		defer lock.Unlock()
		calls[name]++
		return calls[name]
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		count("browse")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": %s, "price": 5}`, r.PathValue("id"))
	})
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, r *http.Request) {
		count("search")
		fmt.Fprintf(w, `{"query": %q, "found": 1}`, r.FormValue("q"))
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		var who struct{ Name, Password string }
		if json.NewDecoder(r.Body).Decode(&who) != nil || strings.TrimPrefix(who.Name, "user ") != strings.TrimPrefix(who.Password, "secret-") {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		count("login")
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: "cookie-of-" + strings.TrimPrefix(who.Name, "user ")})
		fmt.Fprintf(w, `{"token": "token-of-%s"}`, strings.TrimPrefix(who.Name, "user "))
	})
	mux.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-of-")
		if sid, err := r.Cookie("sid"); err != nil || sid.Value != "cookie-of-"+user {
			http.Error(w, "who?", http.StatusForbidden)
			return
		}
		count("buy")
		w.Header().Set("Location", "/orders/"+user)
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /orders/{user}", func(w http.ResponseWriter, r *http.Request) {
		count("order")
		fmt.Fprintf(w, `{"user": "user %s"}`, r.PathValue("user"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, calls, lock
}

// The scenario of docs/load.md runs as it stands there: every step has its own figures,
// which are the application's, and nothing secret is in the results or the store.
func TestShopOfTheManual(t *testing.T) {
	url, calls, lock := smallShop(t)
	file := scenarioFolder(t, manualScenario(t, url))
	out, store := filepath.Join(t.TempDir(), "result.json"), filepath.Join(t.TempDir(), "runs")
	code, stdout, stderr := loaded(t, "-f", file, "-d", "1s", "--json", "-o", out, "--save", "shop", "--store", store)
	if code != exit.OK && code != exit.Missed && code != exit.Invalid {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Errors map[string]int64
		Steps  []struct {
			Name, Flow string
			Requests   int
			Latency    struct{ P50 *float64 } `json:"latency_us"`
		}
		Goals []struct{ Goal string }
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	if len(result.Steps) != 5 || len(result.Goals) != 2 || result.Errors["total"] != 0 {
		t.Fatalf("%+v", result)
	}
	lock.Lock()
	defer lock.Unlock()
	for _, s := range result.Steps {
		if s.Requests == 0 || s.Requests != calls[s.Name] || s.Latency.P50 == nil {
			t.Errorf("%+v, and the application counts %d", s, calls[s.Name])
		}
	}
	kept, err := filesOf(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret-", "token-of-", "cookie-of-", "user 1", "Bearer", "red chair"} {
		if strings.Contains(string(text), secret) || strings.Contains(string(kept), secret) || strings.Contains(stdout+stderr, secret) {
			t.Errorf("%q is in the results", secret)
		}
	}
	if !strings.Contains(string(text), `"flow"`) || !strings.Contains(string(kept), "browse p99") {
		t.Error("the result has no settings of flows, or the store no figure of a step")
	}
}

// A dry run sends nothing, and shows what it would send.
func TestPrintedRequestsAreNotSent(t *testing.T) {
	url, calls, _ := smallShop(t)
	code, stdout, stderr := loaded(t, "-f", scenarioFolder(t, manualScenario(t, url)), "--print-requests", "30")
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"# session 0 of buy, after ", ": login\nPOST /login HTTP/1.1\n", `{"name": "user 0", "password": "secret-0"}`, "Authorization: Bearer <token>\n", "GET <order> HTTP/1.1\n", "GET /search?q=red%20chair HTTP/1.1\n"} {
		if !strings.Contains(strings.ReplaceAll(stdout, "\r", ""), want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if len(calls) != 0 {
		t.Errorf("%v was sent", calls)
	}
}

// What stands in a file and cannot be is refused with the file, the key and what to do.
func TestScenariosThatCannotBe(t *testing.T) {
	scenario := manualScenario(t, "http://127.0.0.1:1")
	for _, c := range []struct{ from, to, says string }{
		{"Bearer {{token}}", "Bearer {{tokn}}", "flow buy: step buy: header Authorization: {{tokn}}: no earlier step of the flow takes tokn; it takes token"},
		{"file = \"users.csv\"", "file = \"nobody.csv\"", "nobody.csv: no such file or directory; name a file of CSV or JSON lines"},
		{"[data.users]\n", "[data.users]\nfil = 1\n", `data: users: unknown key "fil"; did you mean file?`},
		{"login.p99", "logn.p99", `there is no step "logn"; use one of browse, search, login, buy, order`},
		{"name = \"search\"\nweight", "name = \"browse\"\nweight", "flow browse: there are two flows of that name; give one another name"},
		{"cookies = true", "cookis = true", `unknown key "cookis"; did you mean cookies?`},
		{"conns = 50", "[[flw]]\nname = \"x\"", `unknown key "flw"; did you mean flow?`},
	} {
		if !strings.Contains(scenario, c.from) {
			t.Fatalf("the scenario has no %q", c.from)
		}
		file := scenarioFolder(t, strings.Replace(scenario, c.from, c.to, 1))
		code, stdout, stderr := loaded(t, "-f", file)
		if code != exit.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, ".toml") && !strings.Contains(c.says, "no step") {
			t.Errorf("%q: exit code %d, %q; want %q in it", c.to, code, stderr, c.says)
		}
	}
}

// What fits on a line does what the file does.
func TestTrafficOnALine(t *testing.T) {
	var lock sync.Mutex
	seen := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lock.Lock()
		seen[r.Method+" "+r.URL.String()+" "+r.Header.Get("X-User")+" "+string(body)]++
		lock.Unlock()
		fmt.Fprint(w, `{"ok": true}`)
	}))
	file := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(file, []byte("name,id\nada,1\n\"b, c\",2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{s.URL + "/u/{{u.name}}", "-H", "X-User: {{u.id}}", "--body", `n={{u.name|url}}`, "--data", "u=" + file}, []string{"POST /u/ada 1 n=ada", "POST /u/b%2C%20c 2 n=b%2C%20c"}},
		{[]string{s.URL + "/plain/{{n}}"}, []string{"GET /plain/%7B%7Bn%7D%7D  "}}, // nothing says that it is a value
	} {
		clear(seen)
		code, stdout, stderr := loaded(t, append(c.args, "-n", "100", "--json")...)
		if code != exit.OK {
			t.Fatalf("%q: exit code %d: %s%s", c.args, code, stdout, stderr)
		}
		for _, want := range c.want {
			if seen[want] == 0 {
				t.Errorf("%q: %q was not sent, but %v", c.args, want, seen)
			}
		}
	}
	code, _, stderr := loaded(t, s.URL+"/", "-n", "100", "--check", "json ok == false", "--json")
	if code != exit.Invalid {
		t.Errorf("a check that fails ends with exit code %d: %s", code, stderr)
	}
}
