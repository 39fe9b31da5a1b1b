package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

// TestMain runs the tests, or the example itself for tests that need it as a separate
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HONE_TEST_ROLE") == "example" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// onEveryEngine runs a test on every engine, new ones included.
func onEveryEngine(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) { test(t, e) })
	}
}

// running is the running program and its output.
type running struct {
	addr   string
	stop   context.CancelFunc
	ended  chan error
	stderr bytes.Buffer // read it only after the program has ended
}

// start runs the program until stop is called or the test ends.
func start(t *testing.T, e engine.Engine, history string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, ended: make(chan error, 1)}
	stdout, w := io.Pipe()
	var program sync.WaitGroup
	program.Go(func() {
		err := run(ctx, options{addr: "127.0.0.1:0", history: history, engine: e}, w, &r.stderr)
		w.Close()
		r.ended <- err
	})
	t.Cleanup(func() { cancel(); stdout.Close(); program.Wait() })
	first, err := bufio.NewReader(stdout).ReadString('\n')
	var name string
	if n, _ := fmt.Sscanf(first, "listening on %s (engine %s", &r.addr, &name); n != 2 || name != e.Name()+")" {
		t.Fatalf("the first line is %q, %v", first, err)
	}
	return r
}

// end stops the program, which must end without an error.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

// event is any event.
type event struct {
	Kind, History, ID, Name, Text string
	First, Number                 uint64
	Count                         int
	People                        []string
}

// client is one person in a room.
type client struct {
	t       *testing.T
	ctx     context.Context
	c       *websocket.Client
	history string
	first   uint64
	past    []string // the messages received on joining: "NUMBER NAME TEXT"
}

// address is the URL that a page connects to.
func address(addr, room, name, history string, seen uint64) string {
	q := url.Values{"room": {room}, "name": {name}, "history": {history}, "seen": {fmt.Sprint(seen)}}
	return "ws://" + addr + "/socket?" + q.Encode()
}

// join joins a room, and reads what has been said since.
func join(t *testing.T, addr, room, name, history string, seen uint64) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ws, err := websocket.Dial(ctx, address(addr, room, name, history, seen), websocket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, ctx: ctx, c: ws}
	t.Cleanup(func() { ws.Close(websocket.GoingAway, "") })
	hello := c.next()
	if hello.Kind != "hello" {
		t.Fatalf("the first event is %+v, want hello", hello)
	}
	c.history, c.first = hello.History, hello.First
	for {
		e := c.next()
		if e.Kind == "people" {
			return c
		}
		c.past = append(c.past, e.String())
	}
}

// String is a message in short form.
func (e event) String() string { return fmt.Sprint(e.Number, " ", e.Name, " ", e.Text) }

// next is the next event.
func (c *client) next() (e event) {
	c.t.Helper()
	kind, text, err := c.c.Read(c.ctx, nil)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil || kind != websocket.Text {
		c.t.Fatalf("the next event: %v, %v, %.100q", err, kind, text)
	}
	return e
}

// hears waits for these messages, and skips events about people.
func (c *client) hears(want ...string) {
	c.t.Helper()
	for _, w := range want {
		e := c.next()
		for e.Kind == "people" {
			e = c.next()
		}
		if e.Kind != "message" || e.String() != w {
			c.t.Fatalf("the next message is %+v, want %q", e, w)
		}
	}
}

// ended waits for the end of the connection and returns the reason. Others may leave first.
func (c *client) ended() (err error) {
	for err == nil {
		_, _, err = c.c.Read(c.ctx, nil)
	}
	return err
}

// says sends a message.
func (c *client) says(id, text string) {
	c.t.Helper()
	said, _ := json.Marshal(map[string]string{"id": id, "text": text})
	if err := c.c.Write(c.ctx, websocket.Text, said); err != nil {
		c.t.Fatal(err)
	}
}

// Two people talk, and a third in another room does not hear them.
func TestTalk(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e, "")
		ann := join(t, r.addr, "lobby", "Ann", "", 0)
		ann.says("1", " Is anybody here? ")
		ann.hears("1 Ann Is anybody here?")
		bob, dan := join(t, r.addr, "lobby", "Bob", "", 0), join(t, r.addr, "garden", "Dan", "", 0)
		if want := []string{"1 Ann Is anybody here?"}; !slices.Equal(bob.past, want) || len(dan.past) != 0 {
			t.Errorf("Bob received %q, want %q; Dan %q, want nothing", bob.past, want, dan.past)
		}
		if e := ann.next(); e.Count != 2 || !slices.Equal(e.People, []string{"Ann", "Bob"}) {
			t.Errorf("after Bob joined, Ann received %+v", e)
		}
		bob.says("1-bob", "Me.")
		dan.says("1", "It is quiet here.")
		dan.hears("1 Dan It is quiet here.")
		for _, c := range []*client{ann, bob} {
			c.hears("2 Bob Me.")
		}
		bob.c.Close(websocket.NormalClosure, "")
		if e := ann.next(); e.Count != 1 || !slices.Equal(e.People, []string{"Ann"}) {
			t.Errorf("after Bob left, Ann received %+v", e)
		}
		if got := get(t, "http://"+r.addr+"/rooms"); got != `["garden","lobby"]`+"\n" {
			t.Errorf("the rooms are %q", got)
		}
	})
}

// get returns the body that url answers with.
func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %v, %v", url, answer.Status, err)
	}
	return string(body)
}

// A client that reconnects to a restarted server gets the messages that it has missed, and a
// message that it sends again appears once.
func TestComeBack(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		file := filepath.Join(t.TempDir(), "chat.jsonl")
		before := start(t, e, file)
		ann, bob := join(t, before.addr, "lobby", "Ann", "", 0), join(t, before.addr, "lobby", "Bob", "", 0)
		for i := range 5 {
			ann.says(fmt.Sprint("ann-", i), fmt.Sprint("message ", i))
			ann.hears(fmt.Sprintf("%d Ann message %d", i+1, i))
			bob.hears(fmt.Sprintf("%d Ann message %d", i+1, i))
		}
		before.end(t)

		after := start(t, e, file)
		ann = join(t, after.addr, "lobby", "Ann", bob.history, 3)
		if want := []string{"4 Ann message 3", "5 Ann message 4"}; ann.history != bob.history || ann.first != 1 || !slices.Equal(ann.past, want) {
			t.Errorf("Ann received history %q from %d on, %q; want %q from 1 on, %q", ann.history, ann.first, ann.past, bob.history, want)
		}
		ann.says("ann-4", "message 4")
		ann.says("ann-5", "message 5")
		ann.hears("5 Ann message 4", "6 Ann message 5")
		bob = join(t, after.addr, "lobby", "Bob", bob.history, 5)
		if want := []string{"6 Ann message 5"}; !slices.Equal(bob.past, want) {
			t.Errorf("Bob received %q, want %q", bob.past, want)
		}
		if eve := join(t, after.addr, "lobby", "Eve", "another", 5); len(eve.past) != 6 {
			t.Errorf("Eve, with numbers of another history, received %q", eve.past)
		}
	})
}

// Without a file, a restarted server begins a new history, and tells clients so.
func TestNewHistory(t *testing.T) {
	before := start(t, engine.Engine{}, "")
	ann := join(t, before.addr, "lobby", "Ann", "", 0)
	ann.says("1", "Hello.")
	ann.hears("1 Ann Hello.")
	before.end(t)
	after := start(t, engine.Engine{}, "")
	bob := join(t, after.addr, "lobby", "Bob", "", 0)
	bob.says("2", "Anybody?")
	bob.hears("1 Bob Anybody?")
	again := join(t, after.addr, "lobby", "Ann", ann.history, 1)
	if want := []string{"1 Bob Anybody?"}; again.history == ann.history || !slices.Equal(again.past, want) {
		t.Errorf("Ann received %q of history %q, want %q of a history other than %q", again.past, again.history, want, ann.history)
	}
}

// longest is one of the texts that are longest when they are sent: 12 KB.
var longest = strings.Repeat("<", longestText)

// A room keeps only the latest messages. They count as they are sent: JSON encodes a "<" as six bytes.
func TestKept(t *testing.T) {
	r := start(t, engine.Engine{}, "")
	for _, test := range []struct {
		room   string
		text   string
		sent   int
		atMost int
	}{
		{"many", strings.Repeat("x", 10), mostKept + 50, mostKept},
		{"long", strings.Repeat("x", longestText), 100, bytesKept / longestText},
		{"longer", longest, 30, bytesKept / (6 * longestText)},
	} {
		history := ""
		for i := range test.sent {
			ann := join(t, r.addr, test.room, "Ann", history, uint64(i)) // again each time: each connection has its rate
			ann.says(fmt.Sprint(i), test.text)
			ann.hears(fmt.Sprintf("%d Ann %s", i+1, test.text))
			ann.c.Close(websocket.NormalClosure, "")
			history = ann.history
		}
		bob := join(t, r.addr, test.room, "Bob", "", 0)
		if n := len(bob.past); n > test.atMost || n < test.atMost*9/10 || bob.first != uint64(test.sent-n+1) {
			t.Errorf("%s: %d messages of %d are kept, the first with number %d; want %d messages", test.room, n, test.sent, bob.first, test.atMost)
		}
	}
}

// A client that sends without waiting is disconnected before its messages are too much for those who read.
// They stay and receive everything that was accepted, and newcomers get in.
func TestFlood(t *testing.T) {
	const honest, flood = 5, 2000
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e, "")
		heard := make(chan error, honest)
		for i := range honest {
			c := join(t, r.addr, "lobby", fmt.Sprint(i), "", 0)
			go func() {
				for last := uint64(0); ; {
					var e event
					_, text, err := c.c.Read(c.ctx, nil)
					if err == nil {
						err = json.Unmarshal(text, &e)
					}
					if err == nil && e.Kind == "message" {
						if last++; e.Number != last {
							err = fmt.Errorf("message %d is missing", last)
						}
					}
					if err != nil || e.Text == "Hello." {
						heard <- err
						return
					}
				}
			}()
		}
		flooder, ended := join(t, r.addr, "lobby", "Flooder", "", 0), make(chan struct{})
		go func() {
			defer close(ended)
			for n := range flood {
				said, _ := json.Marshal(map[string]string{"id": fmt.Sprint(n), "text": longest})
				if flooder.c.Write(flooder.ctx, websocket.Text, said) != nil {
					return
				}
			}
		}()
		var err error
		for n := 0; n < flood && err == nil; {
			var text []byte
			if _, text, err = flooder.c.Read(flooder.ctx, nil); bytes.Contains(text, []byte(`"kind":"message"`)) {
				n++
			}
		}
		if !errors.Is(err, websocket.PolicyViolation) {
			t.Errorf("the flooder: %v, want a policy violation", err)
		}
		<-ended
		newcomer := join(t, r.addr, "lobby", "Newcomer", "", 0)
		if len(newcomer.past) < 3 {
			t.Errorf("%d messages of the flood were accepted, want 3 at least", len(newcomer.past))
		}
		newcomer.says("hello", "Hello.")
		for range honest {
			if err := <-heard; err != nil {
				t.Errorf("a client that reads: %v", err)
			}
		}
	})
}

// The rate allows a burst of short messages, the longest one again and again, and a small bot all day long.
func TestRate(t *testing.T) {
	const day = 24 * 60 * 60
	for _, test := range []struct {
		text        string
		every       time.Duration
		least, most int
	}{
		{longest, 0, 4, 5},
		{longest, time.Second, day, day},
		{"x", 0, 50, 100},
		{"a line each second", time.Second, day, day},
	} {
		who, event, now, n := new(member), message{ID: "x", Name: "Ann", Text: test.text}.event(), time.Now(), 0
		for n < day && who.may(event, now) {
			n++
			now = now.Add(test.every)
		}
		if n < test.least || n > test.most {
			t.Errorf("%.20q every %v: %d are within the rate, want %d to %d", test.text, test.every, n, test.least, test.most)
		}
	}
}

// A client that does not read is disconnected; the others receive everything.
func TestSlowReader(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e, "")
		slow, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		slow.SetDeadline(time.Now().Add(patience))
		if err := slow.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(slow, "GET /socket?room=lobby&name=Slow HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		if line, err := bufio.NewReaderSize(slow, 16).ReadSlice(' '); string(line) != "HTTP/1.1 " {
			t.Fatalf("the handshake: %q, %v", line, err)
		}
		ann, bob := join(t, r.addr, "lobby", "Ann", "", 0), join(t, r.addr, "lobby", "Bob", "", 0)
		there, last := true, uint64(0)
		for i := 0; there; i++ {
			if i == 20_000 {
				t.Fatalf("the server has not disconnected a client with %d unread messages", i)
			}
			eve := join(t, r.addr, "lobby", "Eve", ann.history, uint64(i)) // again each time: each connection has its rate
			eve.says(fmt.Sprint(i), longest)
			for last <= uint64(i) {
				e := ann.next()
				last = max(last, e.Number)
				there = there && (e.Kind != "people" || slices.Contains(e.People, "Slow"))
			}
			bob.hears(fmt.Sprintf("%d Eve %s", i+1, longest))
			eve.c.Close(websocket.NormalClosure, "")
		}
	})
}

// Ctrl-C closes connections with "going away", after everything sent before.
func TestStop(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e, "")
		ann := join(t, r.addr, "lobby", "Ann", "", 0)
		bob := join(t, r.addr, "lobby", "Bob", "", 0)
		ann.says("1", "Good night.")
		ann.says("2", "Bob?")
		ann.hears("1 Ann Good night.", "2 Ann Bob?") // by now the first has also been sent to Bob
		r.stop()
		bob.hears("1 Ann Good night.")
		for _, c := range []*client{ann, bob} {
			if err := c.ended(); !errors.Is(err, websocket.GoingAway) {
				t.Errorf("the connection ends with %v, want going away", err)
			}
		}
		r.end(t)
		if said := r.stderr.String(); !strings.HasPrefix(said, "2 connections, ") || !strings.HasSuffix(said, "drained: 2 clean, 0 forced\n") {
			t.Errorf("the counts are %q", said)
		}
	})
}

// Bad names, rooms and messages are refused.
func TestRefusals(t *testing.T) {
	r := start(t, engine.Engine{}, "")
	for _, bad := range []string{
		address(r.addr, "", "Ann", "", 0), address(r.addr, "two words", "Ann", "", 0), address(r.addr, strings.Repeat("r", longestName+1), "Ann", "", 0),
		address(r.addr, "lobby", " ", "", 0), address(r.addr, "lobby", "An\nn", "", 0), address(r.addr, "lobby", "\xff", "", 0), address(r.addr, "lobby", strings.Repeat("ä", longestName+1), "", 0),
	} {
		_, err := websocket.Dial(t.Context(), bad, websocket.Options{})
		if refusal, ok := errors.AsType[*websocket.Refusal](err); !ok || refusal.Status != http.StatusBadRequest {
			t.Errorf("%s: %v, want status 400", bad, err)
		}
	}
	ann := join(t, r.addr, "lobby", strings.Repeat("ä", longestName), "", 0)
	for _, bad := range []string{" \n", strings.Repeat("ä", longestText+1)} {
		ann.says("id", bad)
		if e := ann.next(); e.Kind != "refused" || e.ID != "id" || e.Text == "" {
			t.Errorf("%.10q: %+v, want refused", bad, e)
		}
	}
	for _, bad := range []string{"hello", `{"text": "no id"}`, `{"id": "a b", "text": "x"}`, `{"id": 1, "text": "x"}`} {
		c := join(t, r.addr, "lobby", "Bob", "", 0)
		if err := c.c.Write(c.ctx, websocket.Text, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if err := c.ended(); !errors.Is(err, websocket.PolicyViolation) {
			t.Errorf("%s: %v, want a policy violation", bad, err)
		}
	}
}

// The number of rooms is limited; unused rooms do not count.
func TestTooManyRooms(t *testing.T) {
	c, err := newChat("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostRooms {
		r, err := c.room(fmt.Sprint("room", i))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			r.keep(message{Number: 1}, nil)
		}
	}
	if _, err := c.room("one-more"); err != nil {
		t.Errorf("with one unused room: %v", err)
	}
	c.byName["one-more"].keep(message{Number: 1}, nil)
	if _, err := c.room("too-many"); err == nil {
		t.Errorf("there are %d rooms", len(c.byName))
	}
	if r, err := c.room("room7"); err != nil || r.last != 1 {
		t.Errorf("an existing room: %v", err)
	}
}

// A full room refuses people until somebody leaves.
func TestFullRoom(t *testing.T) {
	c, err := newChat("")
	if err != nil {
		t.Fatal(err)
	}
	c.roomSize = 2
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, &http1.Server{Handler: c.handler()}, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	addr := ln.Addr().String()
	ann, bob := join(t, addr, "lobby", "Ann", "", 0), join(t, addr, "lobby", "Bob", "", 0)
	_, err = websocket.Dial(t.Context(), address(addr, "lobby", "Eve", "", 0), websocket.Options{})
	if refusal, ok := errors.AsType[*websocket.Refusal](err); !ok || refusal.Status != http.StatusServiceUnavailable {
		t.Errorf("the third in a room for two: %v, want status 503", err)
	}
	join(t, addr, "garden", "Eve", "", 0)
	bob.c.Close(websocket.NormalClosure, "")
	for ann.next().Count != 1 { // she heard of two people, never of three
	}
	join(t, addr, "lobby", "Eve", "", 0)
}

// The page is served, and may load nothing from other origins.
func TestPage(t *testing.T) {
	r := start(t, engine.Engine{}, "")
	for path, has := range map[string]string{"": "<title>Chat</title>", "chat.js": "new WebSocket(", "chat.css": "light-dark(", "icon.svg": "<svg "} {
		if page := get(t, "http://"+r.addr+"/"+path); !strings.Contains(page, has) {
			t.Errorf("/%s lacks %q", path, has)
		}
	}
	c, err := newChat("")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") {
		t.Errorf("the page's policy is %q", csp)
	}
}

func TestAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), options{addr: ln.Addr().String()}, io.Discard, io.Discard)
	if said := fmt.Sprint(err); err == nil || !strings.Contains(said, "-addr") {
		t.Errorf("on an address in use: %s, want an error that names -addr", said)
	}
}

func TestExitStatus(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"-h", 0, "-history file"},
		{"-engine steam", 2, "buffered, events, events-inline"},
		{"-port 1", 2, "-port"},
		{"please", 2, "Usage"},
		{"-addr nowhere", 1, "choose another address with -addr"},
		{"-history /nowhere/chat", 1, "choose another file with -history"},
	} {
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(test.args)...)
		cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=example", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
		said, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code || !bytes.Contains(said, []byte(test.says)) {
			t.Errorf("%s ends with %v, want exit status %d and %q:\n%s", test.args, err, test.code, test.says, said)
		}
	}
}
