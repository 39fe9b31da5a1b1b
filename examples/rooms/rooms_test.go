package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// event is everything that is sent: a message has a number, a list of people a count.
type event struct {
	Number uint64
	Name   string
	Text   string
	Count  int
	People []string
}

// start serves rooms on an engine until the test ends.
func start(t *testing.T, e engine.Engine, names ...string) (all *rooms, srv *http1.Server, url string) {
	t.Helper()
	all = newRooms(names...)
	srv = &http1.Server{Std: &http.Server{Handler: all.handler()}, Engine: e}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		all.running.Wait()
		for name, r := range all.byName {
			if len(r.people) > 0 || r.count > 0 || len(r.steps) > 0 {
				t.Errorf("%s has %d people (%d counted) and %d steps when all have left", name, len(r.people), r.count, len(r.steps))
			}
		}
	})
	return all, srv, "ws://" + ln.Addr().String() + "/rooms/"
}

func onEveryEngine(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) { test(t, e) })
	}
}

func enter(t *testing.T, url string) *websocket.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := websocket.Dial(ctx, url, websocket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(websocket.NormalClosure, "") })
	return c
}

// next is the next event that fits.
func next(t *testing.T, c *websocket.Client, fits func(event) bool) event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, text, err := c.Read(ctx, nil)
		var e event
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if fits(e) {
			return e
		}
	}
}

func message(e event) bool { return e.Number > 0 }

// longest is one of the messages that are longest when they are sent: 24 KiB.
var longest = bytes.Repeat([]byte("<"), 4<<10)

// say has a new member say something. A test that says much needs many members: each has its rate.
func say(t *testing.T, url, name string, texts ...[]byte) *websocket.Client {
	t.Helper()
	c := enter(t, url+"lobby?name="+name)
	for _, text := range texts {
		if err := c.Write(t.Context(), websocket.Text, text); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Everybody gets the same messages in the same order, however many say something at once, in a room
// that takes Broadcast several batches; those of each sender are in its order. Newcomers get what is
// kept and then every later message.
func TestOrder(t *testing.T) {
	const senders = 10
	each, listeners := testrun.Sized(15, 50), testrun.Sized(70, 200) // each is within the rate
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		_, _, url := start(t, e, "lobby")
		var all []*websocket.Client
		for i := range listeners {
			all = append(all, enter(t, fmt.Sprintf("%slobby?name=listener-%d", url, i)))
		}
		done := make(chan error, senders)
		for i := range senders {
			c := enter(t, fmt.Sprintf("%slobby?name=%d", url, i))
			go func() {
				var err error
				for n := 0; n < each && err == nil; n++ {
					err = c.Write(t.Context(), websocket.Text, fmt.Appendf(nil, "%d", n))
					own := fmt.Sprintf(`"name":"%d","text":"%d"`, i, n)
					for text := []byte(nil); err == nil && !bytes.Contains(text, []byte(own)); {
						_, text, err = c.Read(t.Context(), text[:0])
					}
				}
				done <- err
				for err == nil { // the messages of the others
					_, _, err = c.Read(t.Context(), nil)
				}
			}()
		}
		next(t, all[0], func(e event) bool { return e.Number == uint64(senders*each*9/10) })
		late := enter(t, url+"lobby?name=late")
		for range senders {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		var order []string // what the second listener gets; the first has been read from
		for i, c := range append(all[1:], late) {
			var got []string
			last := map[string]string{}
			for from := uint64(0); from < uint64(senders*each); {
				e := next(t, c, message)
				if from > 0 && e.Number != from+1 || from == 0 && e.Number != 1 && c != late {
					t.Fatalf("listener %d gets message %d after %d", i, e.Number, from)
				}
				from = e.Number
				got = append(got, e.Name+" "+e.Text)
				if before := last[e.Name]; before != "" && e.Text != fmt.Sprint(number(before)+1) {
					t.Fatalf("%s says %s after %s", e.Name, e.Text, before)
				}
				last[e.Name] = e.Text
			}
			if i == 0 {
				order = got
			} else if want := order[len(order)-len(got):]; !slices.Equal(got, want) {
				t.Fatalf("listener %d gets another order: %q, the first got %q", i, got, want)
			}
			if c == late && len(got) < mostKept {
				t.Errorf("the newcomer gets %d messages, fewer than are kept", len(got))
			}
		}
	})
}

func number(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

// A member that sends without waiting is closed before what it says is too much for those who read. They
// stay and get everything that was accepted, and newcomers get in.
func TestFlood(t *testing.T) {
	const honest, flood = 5, 2000
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		_, srv, url := start(t, e, "lobby")
		heard := make(chan error, honest)
		for i := range honest {
			c := enter(t, fmt.Sprintf("%slobby?name=%d", url, i))
			go func() {
				for last := uint64(0); ; {
					var e event
					_, text, err := c.Read(t.Context(), nil)
					if err == nil {
						err = json.Unmarshal(text, &e)
					}
					if err == nil && e.Number > 0 {
						if last++; e.Number != last {
							err = fmt.Errorf("message %d is missing", last)
						}
					}
					if err != nil || e.Text == "hello" {
						heard <- err
						return
					}
				}
			}()
		}
		flooder, ended := enter(t, url+"lobby?name=Flooder"), make(chan struct{})
		go func() {
			defer close(ended)
			for n := 0; n < flood && flooder.Write(t.Context(), websocket.Text, longest) == nil; n++ {
			}
		}()
		var err error
		for n := 0; n < flood && err == nil; {
			var text []byte
			if _, text, err = flooder.Read(t.Context(), nil); bytes.HasPrefix(text, []byte(`{"number":`)) {
				n++
			}
		}
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != websocket.PolicyViolation {
			t.Errorf("the flooder: %v", err)
		}
		<-ended
		hello := next(t, say(t, url, "Newcomer", []byte("hello")), func(e event) bool { return e.Text == "hello" })
		if hello.Number < 3 {
			t.Errorf("%d messages of the flood were accepted, want 2 at least", hello.Number-1)
		}
		for range honest {
			if err := <-heard; err != nil {
				t.Errorf("a member that reads: %v", err)
			}
		}
		if slow := srv.Stats().Ended[engine.SlowReader]; slow != 0 {
			t.Errorf("%d members were too slow", slow)
		}
	})
}

// A member that does not read is disconnected, the others are told, and they miss nothing.
func TestSlowMember(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		_, srv, url := start(t, e, "lobby")
		ada := enter(t, url+"lobby?name=Ada")
		deaf := enter(t, url+"lobby?name=Deaf") // it never calls Read
		next(t, ada, func(e event) bool { return e.Count == 2 })
		there := true
		for n := uint64(1); there; n++ {
			eve := say(t, url, "Eve", longest)
			for told := false; !told; {
				e := next(t, ada, func(event) bool { return true })
				there = there && (e.Count == 0 || slices.Contains(e.People, "Deaf"))
				if told = e.Number > 0; told && e.Number != n {
					t.Fatalf("message %d after %d", e.Number, n-1)
				}
			}
			eve.Close(websocket.NormalClosure, "")
		}
		next(t, ada, func(e event) bool { return e.Count == 1 && e.People[0] == "Ada" })
		if slow := srv.Stats().Ended[engine.SlowReader]; slow != 1 {
			t.Errorf("%d slow readers are counted", slow)
		}
		deaf.Close(websocket.NormalClosure, "")
	})
}

// A newcomer that reads only after it was sent all that is kept is not disconnected, even if each byte
// that was said is encoded as six.
func TestNewcomer(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		_, srv, url := start(t, e, "lobby")
		ada := enter(t, url+"lobby?name=Ada")
		for range mostKept / 2 {
			eve := say(t, url, "Eve", longest, longest)
			next(t, ada, message)
			next(t, ada, message)
			eve.Close(websocket.NormalClosure, "")
		}
		ben := enter(t, url+"lobby?name=Ben")
		next(t, ada, func(e event) bool { return slices.Contains(e.People, "Ben") }) // by now all that is kept has been sent to Ben
		first := next(t, ben, message).Number
		for n := first + 1; n <= mostKept; n++ {
			if e := next(t, ben, message); e.Number != n || e.Text != string(longest) {
				t.Fatalf("message %d is %d, %.10q", n, e.Number, e.Text)
			}
		}
		if n, want := mostKept+1-first, uint64(bytesKept/(6*len(longest))); n != want {
			t.Errorf("a newcomer gets %d messages, want %d", n, want)
		}
		if slow := srv.Stats().Ended[engine.SlowReader]; slow != 0 {
			t.Errorf("%d newcomers were too slow", slow)
		}
	})
}

// The rate allows the longest message, a burst of short ones that leaves the room to others, a small bot
// all day long, and all of it again after a pause.
func TestRate(t *testing.T) {
	const day = 24 * 60 * 60
	for _, test := range []struct {
		text        []byte
		every       time.Duration
		least, most int
	}{
		{longest, 0, 2, 2},
		{longest, 2 * time.Second, day, day},
		{[]byte("x"), 0, 60, mostWaiting / 10},
		{[]byte("a line each second"), time.Second, day, day},
	} {
		m, text, now := new(member), encode(string(test.text)), time.Now()
		for range 2 {
			n := 0
			for n < day && m.may(text, now) {
				n++
				now = now.Add(test.every)
			}
			if n < test.least || n > test.most {
				t.Errorf("%.20q every %v: %d are within the rate, want %d to %d", test.text, test.every, n, test.least, test.most)
			}
			now = now.Add(2 * burst * time.Second / rate)
		}
	}
	if hardCap := 256 << 10; burst+bytesKept > hardCap*3/4 {
		t.Errorf("%d bytes are kept and %d may follow at once: too much for %d", bytesKept, burst, hardCap)
	}
}

func TestRefused(t *testing.T) {
	all, _, url := start(t, engine.Engine{}, "lobby")
	for path, status := range map[string]int{
		"cellar?name=Ada": 404, "lobby": 400, "lobby?name=%20": 400, "lobby?name=%0a": 400, "lobby?name=" + strings.Repeat("x", 25): 400,
	} {
		_, err := websocket.Dial(t.Context(), url+path, websocket.Options{})
		if refusal, ok := errors.AsType[*websocket.Refusal](err); !ok || refusal.Status != status {
			t.Errorf("%s: %v, want %d", path, err, status)
		}
	}
	r := all.byName["lobby"]
	for range mostMembers {
		r.take(step{}, &all.running)
	}
	_, err := websocket.Dial(t.Context(), url+"lobby?name=Ada", websocket.Options{})
	if refusal, ok := errors.AsType[*websocket.Refusal](err); !ok || refusal.Status != 503 || !strings.Contains(refusal.Text, "the room is full") {
		t.Errorf("a full room: %v", err)
	}
	for range mostMembers {
		r.take(step{gone: true}, &all.running)
	}
	all.running.Wait()
}

// A room in which too many messages wait takes no more; it closes the sender.
func TestBusy(t *testing.T) {
	all, _, url := start(t, engine.Engine{}, "lobby")
	r := all.byName["lobby"]
	c := enter(t, url+"lobby?name=Ada")
	next(t, c, func(e event) bool { return e.Count == 1 })
	all.running.Wait()
	r.mu.Lock()
	r.waiting = mostWaiting
	r.mu.Unlock()
	c.Write(t.Context(), websocket.Text, []byte("hello"))
	_, _, err := c.Read(t.Context(), nil)
	if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != websocket.TryAgainLater {
		t.Errorf("%v", err)
	}
}

// All messages that are not sent count, those that are being sent too.
func TestWaiting(t *testing.T) {
	r, say := &room{running: true}, step{text: []byte("hello")}
	n := 0
	for r.take(say, nil) {
		n++
	}
	if taken := len(r.next(0)); n != mostWaiting || taken != n || r.take(say, nil) {
		t.Errorf("%d messages wait in a room, %d are being sent, and another one has room; want %d", n, taken, mostWaiting)
	}
	r.next(n)
	r.running = true
	if !r.take(say, nil) || r.waiting != 1 {
		t.Errorf("%d messages wait when all are sent and one is new", r.waiting)
	}
}

// The program's own client talks to the program.
func TestJoin(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, ended := newLines(), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", "127.0.0.1:0", []string{"lobby"}, out) }()
	m := regexp.MustCompile(`^listening on (\S+)`).FindStringSubmatch(<-out)
	f := regexp.MustCompile(`^frames on (\S+)`).FindStringSubmatch(<-out)
	if m == nil || f == nil {
		t.Fatal("the server does not say where it listens")
	}
	var printed bytes.Buffer
	if err := join(t.Context(), "ws://"+m[1]+"/rooms/lobby?name=Ada", strings.NewReader("hello\n\nbye\n"), &printed); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`{"count":1,"people":["Ada"]}`, `{"number":1,"name":"Ada","text":"hello"}`, `{"number":2,"name":"Ada","text":"bye"}`} {
		if !strings.Contains(printed.String(), want+"\n") {
			t.Errorf("%s was not printed:\n%s", want, &printed)
		}
	}
	printed.Reset()
	if err := joinFrames(t.Context(), "tcp://"+f[1]+"/rooms/lobby?name=Ben", strings.NewReader("hello again\n"), &printed); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`{"number":2,"name":"Ada","text":"bye"}`, `{"number":3,"name":"Ben","text":"hello again"}`} {
		if !strings.Contains(printed.String(), want+"\n") {
			t.Errorf("%s was not printed:\n%s", want, &printed)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A browser and a client that speaks frames share a room: both get the same messages in one order, and see who
// is there.
func TestFrames(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		all, _, url := start(t, e, "lobby")
		addr := startFrames(t, all, e)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		heard := make(chan event, 1000)
		ben, err := framed.Dial(ctx, addr, framed.ClientOptions{OnDeliver: func(_ uint64, text []byte) {
			var e event
			if err := json.Unmarshal(text, &e); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			heard <- e
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer ben.Close()
		if _, err := ben.Call(ctx, nil, []byte("hello")); !errors.Is(err, wire.Unauthorised) {
			t.Errorf("a message without a seat: %v", err)
		}
		if text, err := ben.Connect(ctx, nil, []byte("cellar Ben")); !errors.Is(err, wire.Unauthorised) || string(text) != "there is no such room" {
			t.Errorf("another room: %q, %v", text, err)
		}
		for _, c := range []struct {
			credentials string
			want        error
		}{{"lobby Ben", nil}, {"", nil}, {"lobby Eve", wire.Malformed}} {
			if _, err := ben.Connect(ctx, nil, []byte(c.credentials)); !errors.Is(err, c.want) {
				t.Errorf("Conn %q: %v, want %v", c.credentials, err, c.want)
			}
		}
		ada := enter(t, url+"lobby?name=Ada")
		next(t, ada, func(e event) bool { return slices.Equal(e.People, []string{"Ada", "Ben"}) })
		for i := range 10 {
			if err := ada.Write(ctx, websocket.Text, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			if _, err := ben.Call(ctx, nil, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for n := uint64(1); n <= 20; n++ {
			a, b := next(t, ada, message), event{}
			for b.Number == 0 {
				select {
				case b = <-heard:
				case <-ctx.Done():
					t.Fatal("no push")
				}
			}
			if a.Number != n || b.Number != n || a.Name != b.Name || a.Text != b.Text {
				t.Fatalf("message %d is %v to the browser and %v over frames", n, a, b)
			}
		}
		ben.Close()
		next(t, ada, func(e event) bool { return slices.Equal(e.People, []string{"Ada"}) })
	})
}

// startFrames serves the rooms over frames as well, until the test ends.
func startFrames(t *testing.T, all *rooms, e engine.Engine) (addr string) {
	t.Helper()
	srv := all.framesServer()
	srv.Engine = e
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-served })
	return ln.Addr().String()
}

// One that floods over frames is told why and closed.
func TestFloodOverFrames(t *testing.T) {
	all, _, _ := start(t, engine.Engine{}, "lobby")
	c, err := framed.Dial(t.Context(), startFrames(t, all, engine.Engine{}), framed.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Connect(t.Context(), nil, []byte("lobby Flooder")); err != nil {
		t.Fatal(err)
	}
	for n := 0; err == nil && n < mostWaiting; n++ {
		_, err = c.Call(t.Context(), nil, []byte("x"))
	}
	<-c.Done()
	if !errors.Is(err, wire.Overloaded) || !errors.Is(c.Err(), wire.Overloaded) {
		t.Errorf("the call: %v; the connection: %v", err, c.Err())
	}
}

// lines passes on what is written.
type lines chan string

func newLines() lines { return make(lines, 10) }

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
