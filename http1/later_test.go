package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
)

// lateHeader is what the middleware of the tests sets before a handler calls Later.
func lateHeader(of http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("header") {
			w.Header().Set("X-Before", "middleware")
		}
		of(w, r)
	}
}

// lateAnswers are sent by another goroutine, in the order of the table: after the request that is
// behind it has arrived.
var lateAnswers = []struct {
	name, request string
	status        int
	body          string
}{
	{"small", getting("/late"), 200, "hello"},
	{"empty", getting("/late"), 200, ""},
	{"201 with a header", getting("/late?header"), 201, "made"},
	{"204", getting("/late"), 204, "unsent"},
	{"304", getting("/late?header"), 304, ""},
	{"404", getting("/late"), 404, "<html>none</html>"},
	{"2048 bytes", getting("/late"), 200, strings.Repeat("x", 2048)},
	{"its own length", getting("/late?length"), 200, "four"},
	{"HEAD", "HEAD /late HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello"},
	{"HEAD with a length", "HEAD /late?length HTTP/1.1\r\nHost: a\r\n\r\n", 200, ""},
	{"POST", "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 200, "done"},
	{"unread POST", "POST /late?unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 200, "done"},
	{"chunked POST", strings.Replace(chunked, "/up", "/late", 1), 200, "done"},
	{"close", "GET /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, "last"},
	{"its own close", getting("/late?close"), 200, "last"},
	{"trailer", getting("/late?trailer"), 200, "trailing"},
}

// A late answer has the bytes that net/http sends for a handler that waits, in its place among pipelined
// ones, also to a client that has half-closed.
func TestLaterEqualsNetHTTP(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		for _, c := range lateAnswers {
			sendIt := make(chan struct{})
			handler := lateHeader(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/late" {
					some(w, r)
					return
				}
				if !r.URL.Query().Has("unread") {
					io.Copy(io.Discard, r.Body)
				}
				query := r.URL.Query()
				err := Later(w, r, func(answer *LateAnswer) {
					go func() {
						<-sendIt
						for name, field := range map[string][2]string{"length": {"Content-Length", "4"}, "close": {"Connection", "close"}, "trailer": {http.TrailerPrefix + "X-End", "z"}} {
							if query.Has(name) {
								answer.Header().Set(field[0], field[1])
							}
						}
						answer.Send(c.status, []byte(c.body))
					}()
				})
				if err != nil {
					t.Error(err)
				}
			})
			s := serve(t, &Server{Engine: e, Handler: handler})
			std := plain(t, &http.Server{Handler: handler})
			spoken := make(chan string, 1)
			go func() { spoken <- talk(t, s.addr, getting("/1")+c.request+getting("/2")) }()
			await(t, "all that was sent", func() bool {
				return s.Stats().BytesIn == uint64(len(getting("/1")+c.request+getting("/2")))
			})
			close(sendIt)
			got := <-spoken
			if want := talk(t, std, getting("/1")+c.request+getting("/2")); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
			}
		}
	})
}

// A large answer arrives whole, with its length.
func TestLargeLateAnswer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		body := bytes.Repeat([]byte("0123456789abcdef"), 200<<10)
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Later(w, r, func(answer *LateAnswer) { go answer.Send(200, body) })
		})})
		nc := s.dial(t)
		for range 2 {
			say(t, nc, getting("/"))
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, body) || resp.ContentLength != int64(len(body)) {
				t.Errorf("%d bytes arrived, %v; the length is %d", len(got), err, resp.ContentLength)
			}
		}
	})
}

// asked is a request whose answer is late.
type asked struct {
	answer *LateAnswer
	ctx    context.Context
}

// laterOn serves s with a handler that hands all late answers to the test.
func laterOn(t *testing.T, s *Server, around ...func(http.Handler) http.Handler) (*serving, chan asked) {
	all := make(chan asked, 100)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/late" {
			some(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		if err := Later(w, r, func(answer *LateAnswer) { all <- asked{answer, r.Context()} }); err != nil {
			t.Error(err)
		}
	})
	for _, f := range around {
		s.Handler = f(s.Handler)
	}
	return serve(t, s), all
}

// The request's context lives until the answer, whenever it was asked for, and ends with it; or when the
// client disconnects.
func TestLateContext(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s, all := laterOn(t, &Server{Engine: e})
		for _, first := range []string{"before the answer", "after it"} {
			nc := s.dial(t)
			say(t, nc, getting("/late"))
			a := <-all
			if first == "before the answer" {
				if err := a.ctx.Err(); err != nil {
					t.Errorf("before the answer: %v", err)
				}
				derived, cancel := context.WithCancel(a.ctx)
				defer cancel()
				defer func() { <-derived.Done() }()
			}
			if err := a.answer.Send(200, []byte("x")); err != nil {
				t.Error(err)
			}
			<-a.ctx.Done()
			if got := readAnswer(t, bufio.NewReader(nc)); got != "200 x" {
				t.Errorf("got %q", got)
			}
			if err := a.answer.Send(200, nil); err != engine.ErrSettled {
				t.Errorf("a second Send returned %v", err)
			}
		}
		nc := s.dial(t)
		say(t, nc, getting("/late"))
		a := <-all
		ended := a.ctx.Done()
		nc.Close()
		<-ended
		a.answer.Send(200, nil) // it may reach the client's kernel
		await(t, "the end of the connection", func() bool { return s.Stats().Open == 2 })
	})
}

// A connection that was reset is gone at once, and Send says so.
func TestLateAnswerToNobody(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s, all := laterOn(t, &Server{Engine: e})
		nc := s.dial(t)
		say(t, nc, getting("/late"))
		a := <-all
		nc.SetLinger(0)
		nc.Close()
		<-a.ctx.Done()
		await(t, "the end", func() bool { return s.Stats().Open == 0 })
		if err := a.answer.Send(200, nil); err != engine.ErrClosed {
			t.Errorf("Send returned %v", err)
		}
	})
}

// The answer must be sent before Std.WriteTimeout is over, and a part of the next request may wait longer
// than a request may take, as with a handler that waits.
func TestLateDeadlines(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		all := make(chan *LateAnswer, 2)
		s := &Server{Engine: e, Std: &http.Server{WriteTimeout: time.Minute, ReadHeaderTimeout: time.Second, IdleTimeout: 2 * time.Second},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				Later(w, r, func(answer *LateAnswer) { all <- answer })
			})}
		dial := serveFake(t, s, secure)
		slow, quick := dial(), dial()
		say(t, slow, getting("/"))
		late := <-all
		say(t, quick, getting("/"))
		answer := <-all
		say(t, quick, "GET /next HT")
		<-time.After(59 * time.Second)
		if err := answer.Send(200, []byte("in time")); err != nil {
			t.Error(err)
		}
		r := bufio.NewReader(quick)
		if got := readAnswer(t, r); got != "200 in time" {
			t.Errorf("got %q", got)
		}
		say(t, quick, "TP/1.1\r\nHost: a\r\n\r\n")
		next := <-all
		next.Send(204, nil)
		if got := readAnswer(t, r); got != "204 " {
			t.Errorf("the request behind got %q", got)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if err := late.Send(200, []byte("too late")); err != os.ErrDeadlineExceeded {
			t.Errorf("after WriteTimeout Send returned %v", err)
		}
		if got, err := io.ReadAll(slow); len(got) > 0 {
			t.Errorf("after WriteTimeout the client got %q, %v", got, err)
		}
	})
}

// Shutdown waits for late answers, which say that they are the last, and serves nothing behind them.
func TestShutdownWaitsForLateAnswers(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		s, all := laterOn(t, &Server{Engine: e})
		var conns []net.Conn
		for _, request := range []string{getting("/late"), getting("/late") + getting("/behind"), strings.Replace(chunked, "/up", "/late", 1)} {
			nc := s.dial(t)
			say(t, nc, request)
			conns = append(conns, nc)
		}
		var answers []*LateAnswer
		for range conns {
			answers = append(answers, (<-all).answer)
		}
		idle := s.dial(t)
		say(t, idle, getting("/"))
		readAnswer(t, bufio.NewReader(idle))
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		await(t, "the drain", func() bool { return s.Stats().Open == len(conns) })
		for _, answer := range answers {
			answer.Send(200, []byte("done"))
		}
		for i, nc := range conns {
			all, err := io.ReadAll(nc)
			if got := string(all); err != nil || !strings.HasSuffix(got, "\r\n\r\ndone") || strings.Count(got, "HTTP/1.1") != 1 || !strings.Contains(got, "Connection: close\r\n") {
				t.Errorf("%d got %q, %v", i, all, err)
			}
			nc.Close()
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		if st := s.Stats(); st.Drained.Forced > 0 || st.Drained.Owed > 0 {
			t.Errorf("the drain ended with %+v", st.Drained)
		}
	})
}

// ConnState and an access log see a late answer when it is sent.
func TestLateHooks(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var mu sync.Mutex
		var told []string
		tell := func(what string) { mu.Lock(); told = append(told, what); mu.Unlock() }
		std := &http.Server{ConnState: func(_ net.Conn, state http.ConnState) { tell(state.String()) }}
		s, all := laterOn(t, &Server{Engine: e, Std: std}, func(inner http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inner.ServeHTTP(wrapped{w}, r)
				if AnswersLater(w, func(status int, body int64) {
					tell(http.StatusText(status) + strings.Repeat("+", int(body)))
				}) != (r.URL.Path == "/late") {
					t.Errorf("%s: AnswersLater is wrong", r.URL)
				}
			})
		})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		say(t, nc, getting("/late"))
		a := <-all
		tell("sends")
		a.answer.Send(201, []byte("abc"))
		readAnswer(t, r)
		say(t, nc, getting("/"))
		readAnswer(t, r)
		nc.Close()
		await(t, "the end", func() bool { mu.Lock(); defer mu.Unlock(); return slices.Contains(told, "closed") })
		want := "new active sends idle Created+++ active idle closed"
		if got := strings.Join(told, " "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// The files of a multipart form are removed with the late answer, not before.
func TestLateForm(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		names, answers := make(chan string, 1), make(chan *LateAnswer, 1)
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := r.ParseMultipartForm(1) // else it is in memory
			file, _, failed := r.FormFile("f")
			if err = errors.Join(err, failed); err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			name := ""
			if onDisk, is := file.(*os.File); is {
				name = onDisk.Name()
			}
			names <- name
			Later(w, r, func(answer *LateAnswer) { answers <- answer })
		})})
		nc := s.dial(t)
		part := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nfile\r\n--b--\r\n"
		say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: "+strconv.Itoa(len(part))+"\r\n\r\n"+part)
		name, answer := <-names, <-answers
		if _, err := os.Stat(name); err != nil {
			t.Errorf("before the answer: %v", err)
		}
		answer.Send(204, nil)
		await(t, "the end of the file", func() bool { _, err := os.Stat(name); return os.IsNotExist(err) })
	})
}

// Later is refused once a part of the answer is written, w is over after it, and a panic takes the answer
// back.
func TestLaterMisused(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		answers := make(chan *LateAnswer, 1)
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keep := func(answer *LateAnswer) { answers <- answer }
			switch r.URL.Path {
			case "/written":
				w.WriteHeader(202)
				if err := Later(w, r, func(*LateAnswer) { t.Error("started") }); err == nil {
					t.Error("Later after WriteHeader was accepted")
				}
			case "/twice":
				Later(w, r, keep)
				if err := Later(w, r, keep); err != http.ErrHijacked {
					t.Errorf("a second Later returned %v", err)
				}
				if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
					t.Errorf("Write returned %v", err)
				}
				if _, _, err := w.(http.Hijacker).Hijack(); err != http.ErrHijacked {
					t.Errorf("Hijack returned %v", err)
				}
				go func() { (<-answers).Send(200, []byte("once")) }()
			case "/panics":
				Later(w, r, keep)
				panic("planted")
			}
		})})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		for _, c := range [][2]string{{"/written", "202 "}, {"/twice", "200 once"}} {
			say(t, nc, getting(c[0]))
			if got := readAnswer(t, r); got != c[1] {
				t.Errorf("%s: %q", c[0], got)
			}
		}
		say(t, nc, getting("/panics"))
		if rest, err := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("after a panic: %q, %v", rest, err)
		}
		if err := (<-answers).Send(200, nil); !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrSettled) {
			t.Errorf("Send after the panic: %v", err)
		}
		if v := panicOf(func() { new(LateAnswer).Send(101, nil) }); v == nil {
			t.Error("a late 101 was accepted")
		}
	})
}

// On a loan, and with HTTP/2, the handler waits, and is counted.
func TestLaterWaitsOnALoan(t *testing.T) {
	s, all := laterOn(t, &Server{Std: &http.Server{Protocols: everyProtocol()}})
	h2 := &http.Transport{Protocols: everyProtocol()}
	h2.Protocols.SetHTTP1(false)
	defer h2.CloseIdleConnections()
	for i, via := range []http.RoundTripper{&http.Transport{DisableKeepAlives: true}, h2} {
		got := make(chan string, 1)
		go func() {
			resp, err := (&http.Client{Transport: via}).Post("http://"+s.addr+"/late", "", struct{ io.Reader }{strings.NewReader("abc")})
			if err != nil {
				got <- err.Error()
				return
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got <- resp.Proto + " " + string(body)
		}()
		a := <-all
		if n := s.Stats().LateHandlers; n != 1 {
			t.Errorf("%d handlers wait", n)
		}
		if err := a.answer.Send(200, bytes.Repeat([]byte("x"), 3000)); err != nil {
			t.Error(err)
		}
		if err := a.answer.Send(200, nil); err != engine.ErrSettled {
			t.Errorf("a second Send returned %v", err)
		}
		if text := <-got; len(text) != len("HTTP/1.1 ")+3000 || text[5] != "12"[i] {
			t.Errorf("got %.40q", text)
		}
		await(t, "no handler to wait", func() bool { return s.Stats().LateHandlers == 0 })
	}
}

func everyProtocol() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}
