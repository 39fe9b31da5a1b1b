package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// receiver is a webhook. It has what it has answered with 200.
type receiver struct {
	t      testing.TB
	addr   string
	secret string
	answer func(n int, all []line) (status int, text string) // nil: 200
	delay  string                                            // Retry-After of what is not 200
	take   func([]line)                                      // what was answered with 200, instead of got; nil: got has it

	mu       sync.Mutex
	server   *httptest.Server
	requests int
	got      []line
	at       []time.Time // of the requests
	busy     map[string]bool
}

// start begins to listen, on the same address as before.
func (w *receiver) start() {
	w.t.Helper()
	w.busy = map[string]bool{}
	w.server = httptest.NewUnstartedServer(w)
	w.server.Listener.Close()
	if w.addr == "" { // an address of its own: no connection of another test gets the port between die and start
		w.addr = fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	eventually(w.t, "the port", func() bool { // a process that another test starts has the old listener until its exec
		var err error
		w.server.Listener, err = net.Listen("tcp", w.addr)
		return err == nil
	})
	w.server.Start()
	w.addr = w.server.Listener.Addr().String()
}

// die closes the listener and all connections.
func (w *receiver) die() {
	w.server.CloseClientConnections()
	w.server.Close()
}

func (w *receiver) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var all []line
	for text := range bytes.Lines(body) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			w.t.Errorf("%v: %s", err, text)
		}
		all = append(all, l)
	}
	w.check(r, body)
	w.mu.Lock()
	w.requests++
	n := w.requests
	w.at = append(w.at, time.Now())
	clients := map[string]bool{}
	for _, l := range all {
		clients[l.Client] = true
	}
	for client := range clients {
		if w.busy[client] {
			w.t.Errorf("two requests at once have messages of %s", client)
		}
		w.busy[client] = true
	}
	w.mu.Unlock()
	status, text := http.StatusOK, ""
	if w.answer != nil {
		status, text = w.answer(n, all)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for client := range clients {
		delete(w.busy, client)
	}
	if status == http.StatusOK && w.take != nil {
		w.take(all)
	} else if status == http.StatusOK {
		w.got = append(w.got, all...)
	} else if w.delay != "" {
		to.Header().Set("Retry-After", w.delay)
	}
	if status == http.StatusFound {
		to.Header().Set("Location", "/elsewhere")
	}
	to.WriteHeader(status)
	io.WriteString(to, text)
}

// check checks the headers.
func (w *receiver) check(r *http.Request, body []byte) {
	if r.Header.Get(idempotencyHeader) == "" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		w.t.Error(r.Header)
	}
	seconds, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(signatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(w.secret))
	io.WriteString(mac, seconds+"."+string(body))
	if w.secret != "" && hex.EncodeToString(mac.Sum(nil)) != signature {
		w.t.Errorf("the signature %s is wrong", r.Header.Get(signatureHeader))
	}
}

func (w *receiver) lines() []line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]line(nil), w.got...)
}

// first returns the messages without those that came again.
func (w *receiver) first() (all []line) {
	seen := map[string]bool{}
	for _, l := range w.lines() {
		if !seen[l.Key] {
			seen[l.Key] = true
			all = append(all, l)
		}
	}
	return all
}

// unique returns how many different messages have come.
func (w *receiver) unique() int { return len(w.first()) }

// TestWebhook: a webhook that fails one request in 20 and dies twice gets every message, in order per client.
func TestWebhook(t *testing.T) {
	t.Parallel()
	const clients = 8
	n, addr, data := testrun.Sized(500, 10_000), newGateway(t), t.TempDir()
	var sending sync.WaitGroup
	for i := range clients {
		sending.Go(func() { submit(t, addr, "client-"+strconv.Itoa(i), n, numbered) })
	}
	secret := secretFile(t, "top secret")
	hook := &receiver{t: t, secret: "top secret", answer: func(n int, _ []line) (int, string) {
		switch {
		case n%40 == 0:
			return http.StatusServiceUnavailable, "busy"
		case n%20 == 0:
			return http.StatusTooManyRequests, "slower"
		}
		return http.StatusOK, ""
	}}
	hook.start()
	r := startRelay(t, nil, addr, data, "http://"+hook.addr, "--secret-file", secret, "--batch-messages",
		strconv.Itoa(testrun.Sized(100, 1000)), "--retry-time", "1s")
	for death := range 2 {
		eventually(t, "progress", func() bool { return hook.unique() >= (death+1)*clients*n/4 })
		hook.die()
		hook.start()
	}
	sending.Wait()
	eventually(t, "the rest", func() bool { return hook.unique() == clients*n })
	t.Logf("%d of %d messages came more than once; %d retries", ordered(t, hook.lines(), clients, n), clients*n, r.stats().Retries)
	if s := r.stats(); s.Retries == 0 || s.Dead != 0 {
		t.Errorf("%+v", s)
	}
	hook.die()
}

func secretFile(t testing.TB, secret string) string {
	path := t.TempDir() + "/secret"
	writeFile(t, path, secret)
	return path
}

// TestRetryAfter: the relay waits as long as the webhook says, and does not follow a redirect, which would be a GET.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	addr := newGateway(t)
	submit(t, addr, "a", 1, numbered)
	hook := &receiver{t: t, delay: "2", answer: func(n int, _ []line) (int, string) {
		switch n {
		case 1:
			return http.StatusTooManyRequests, ""
		case 2:
			return http.StatusFound, ""
		}
		return http.StatusOK, ""
	}}
	hook.start()
	defer hook.die()
	startRelay(t, nil, addr, t.TempDir(), "http://"+hook.addr)
	eventually(t, "the message", func() bool { return hook.unique() == 1 })
	if d := hook.at[1].Sub(hook.at[0]); d < 2*time.Second {
		t.Errorf("it came again after %v", d)
	}
}

// TestClassify: what each status means.
func TestClassify(t *testing.T) {
	for status, want := range map[int]string{
		200: "done", 204: "done", 301: "later", 400: "refused", 401: "later", 404: "later", 408: "later", 409: "refused", 410: "refused", 413: "refused",
		422: "refused", 429: "later", 500: "later", 503: "later",
	} {
		r := &http.Response{StatusCode: status, Status: strconv.Itoa(status) + " is why"}
		got := "later"
		switch err := classify(r, []byte("the body"), nil).(type) {
		case nil:
			got = "done"
		case refusal:
			if got = "refused"; err.reason != strconv.Itoa(status)+" is why the body" {
				t.Error(err.reason)
			}
		}
		if got != want {
			t.Errorf("%d: %s; want %s", status, got, want)
		}
	}
	now := time.Unix(1e9, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "999999999": 24 * time.Hour, now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
		"Tue, 01 Dec 2099 00:00:00 GMT": 24 * time.Hour, now.Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v; want %v", text, got, want)
		}
	}
}

// poison refuses messages that say so, like a destination that cannot read them.
func poison(_ int, all []line) (int, string) {
	for _, l := range all {
		if strings.Contains(string(l.Data), "poison") {
			return http.StatusUnprocessableEntity, "not with me"
		}
	}
	return http.StatusOK, ""
}

// poisoned makes every tenth message a bad one.
func poisoned(i int) string {
	if i%10 == 0 {
		return `{"poison":` + strconv.Itoa(i) + `}`
	}
	return numbered(i)
}

// TestPoisonPassOn: with --pass-on, bad messages all end in the dead-letter log, and the others come in order.
func TestPoisonPassOn(t *testing.T) {
	t.Parallel()
	const clients = 5
	n := testrun.Sized(300, 2000)
	addr, data := newGateway(t), t.TempDir()
	for i := range clients {
		submit(t, addr, "client-"+strconv.Itoa(i), n, poisoned)
	}
	hook := &receiver{t: t, answer: poison}
	hook.start()
	defer func() { hook.die() }()
	r := startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on")
	eventually(t, "the rest", func() bool { return hook.unique() == clients*n*9/10 && r.stats().Dead == clients*n/10 })
	last := map[string]uint64{}
	for _, l := range hook.first() {
		if l.Seq <= last[l.Client] {
			t.Fatalf("%s: %d came behind %d", l.Client, l.Seq, last[l.Client])
		}
		last[l.Client] = l.Seq
	}
	dead := deadLines(t, data)
	if len(dead) != clients*n/10 {
		t.Fatalf("%d dead letters", len(dead))
	}
	for _, l := range dead {
		if l.State != "refused" || l.Reason != "422 Unprocessable Entity not with me" || !strings.Contains(string(l.Data), "poison") {
			t.Fatalf("%+v", l)
		}
	}
	// A part is given up; the relay is stopped (killed, it might get that part again) and started again; the rest is
	// retried, and the webhook takes it now.
	verb(t, data, "drop", "--client", "client-0")
	r.stop()
	hook.mu.Lock()
	hook.answer = nil
	hook.mu.Unlock()
	r = startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on")
	if got := verb(t, data, "retry", "--all", "--json"); got != fmt.Sprintf("{\"changed\":%d}\n", 4*n/10) {
		t.Error(got)
	}
	eventually(t, "the retried ones", func() bool { return hook.unique() == clients*n*9/10+4*n/10 && r.stats().Dead+r.stats().Waiting == 0 })
	if dead := deadLines(t, data); len(dead) != 0 {
		t.Errorf("%d dead letters are left", len(dead))
	}
}

// deadLines returns what honed-relay dead list --all --json prints.
func deadLines(t testing.TB, data string) (all []deadLine) {
	t.Helper()
	for text := range strings.Lines(verb(t, data, "list", "--all", "--json")) {
		var l deadLine
		must(t, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	return all
}

// TestPoisonHolds: a client's later messages wait behind a bad one, also over restarts, and other clients' do not.
// Whether it is retried or dropped, the client's messages then come in order.
func TestPoisonHolds(t *testing.T) {
	t.Parallel()
	addr, data := newGateway(t), t.TempDir()
	bad := func(i int) string {
		if i == 100 || i == 300 {
			return `{"poison":` + strconv.Itoa(i) + `}`
		}
		return numbered(i)
	}
	for _, client := range []string{"a", "b"} {
		submit(t, addr, client, 400, bad)
	}
	submit(t, addr, "good", 400, numbered)
	hook := &receiver{t: t, answer: poison}
	hook.start()
	defer hook.die()
	to := []string{"http://" + hook.addr, "--batch-messages", "150"}
	r := startRelay(t, nil, addr, data, to[0], to[1:]...)
	counts := func() map[string]int {
		n := map[string]int{}
		for _, l := range hook.first() {
			n[l.Client]++
		}
		return n
	}
	eventually(t, "what does not wait", func() bool { return counts()["good"] == 400 && r.stats().Dead == 2 && r.stats().Waiting == 600 })
	if n := counts(); n["a"] != 99 || n["b"] != 99 {
		t.Errorf("%v", n)
	}
	r.kill()
	submit(t, addr, "a", 1, func(int) string { return "one more" })
	r = startRelay(t, nil, addr, data, to[0], to[1:]...)
	eventually(t, "one more", func() bool { return r.stats().Waiting == 601 })
	dead := deadLines(t, data)
	show := verb(t, data, "list", dead[0].Number, "--json")
	if !strings.Contains(show, `"state":"refused"`) || !strings.Contains(show, `"reason":"422`) || !strings.Contains(verb(t, data, "list"), "601 more wait") {
		t.Error(show)
	}
	for _, l := range dead { // the first bad message of each client is refused again, or given up
		if l.State == "refused" {
			verb(t, data, map[string]string{"a": "retry", "b": "drop"}[l.Client], l.Number)
		}
	}
	eventually(t, "b up to its second bad message", func() bool { return counts()["b"] == 99+199 && r.stats().Dead == 2 })
	if n := counts()["a"]; n != 99 {
		t.Errorf("a: %d messages came while one was refused", n)
	}
	hook.mu.Lock()
	hook.answer = nil
	hook.mu.Unlock()
	verb(t, data, "retry", "--all")
	eventually(t, "everything", func() bool {
		return counts()["a"] == 401 && counts()["b"] == 399 && r.stats().Dead+r.stats().Waiting == 0
	})
	last := map[string]uint64{}
	for _, l := range hook.first() {
		if at := l.Epoch<<20 | l.Seq; at <= last[l.Client] {
			t.Fatalf("%s: %s came too late", l.Client, l.Key)
		} else {
			last[l.Client] = at
		}
	}
	submit(t, addr, "b", 1, func(int) string { return "flows again" })
	eventually(t, "the next one", func() bool { return counts()["b"] == 400 })
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
}

// TestKafkaOutcomes: what Kafka has taken does not come again because others failed.
func TestKafkaOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		errs    []error
		err     error // nil: none, or a refusal
		refused bool
		left    []int
	}{
		{"all taken", []error{nil, nil, nil, nil}, nil, false, nil},
		{"one failed first", []error{kerr.NotLeaderForPartition, nil, kerr.NotLeaderForPartition, nil}, kerr.NotLeaderForPartition, false, []int{1, 5}},
		{"one without an answer", []error{nil, errUnanswered, nil, nil}, errUnanswered, false, []int{3}},
		{"one refused", []error{nil, kerr.MessageTooLarge, nil, nil}, nil, true, []int{3}},
		{"refused and failed", []error{kerr.MessageTooLarge, nil, kerr.NotEnoughReplicas, nil}, kerr.NotEnoughReplicas, false, []int{1, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &batch{messages: make([]message, 8)}
			at := []int{1, 3, 5, 7}
			b.done(0, 2, 4, 6)
			err := settle(b, at, c.errs)
			var no refusal
			if errors.As(err, &no) != c.refused || !c.refused && !errors.Is(err, c.err) {
				t.Error(err)
			}
			if left := b.pending(); !slices.Equal(left, c.left) {
				t.Errorf("%v are left; want %v", left, c.left)
			}
		})
	}
}
