package http1

import (
	"bufio"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// A full house of clients that keep their connections for later does not keep newcomers
// out, and what is in progress stays: a request, a stream and half a head.
func TestKeptConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		const kept, newcomers = 20, 100
		begun, gate := make(chan struct{}), make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open() // handlers end also if this test fails
		// Half a head must not end meanwhile, which would make room, too.
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{Conns: kept + 3, FrameTime: time.Hour}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/stream":
				w.Write([]byte("first\n"))
				http.NewResponseController(w).Flush()
				<-gate
				w.Write([]byte("last\n"))
			case "/wait":
				begun <- struct{}{}
				<-gate
			default:
				echo(w, r)
			}
		})})
		client := func(request string) (ask func(request string) string) {
			nc := s.dial(t)
			r := bufio.NewReader(nc)
			ask = func(request string) string {
				say(t, nc, request)
				return readAnswer(t, r)
			}
			if request != "" {
				say(t, nc, request)
			}
			return ask
		}
		const answer = `200 GET / "" <nil>`
		half := client(getting("/") + "GET / HTTP/1.1\r\nHo")
		waits := client(getting("/wait"))
		<-begun
		stream := s.dial(t)
		say(t, stream, getting("/stream"))
		var crowd []func(string) string
		for i := range kept + newcomers {
			crowd = append(crowd, client(""))
			if got := crowd[i](getting("/")); got != answer {
				t.Fatalf("client %d got %q, want %q", i, got, answer)
			}
		}
		await(t, "the last one has made room", func() bool { return s.Stats().Ended[engine.Displaced] == newcomers })
		st := s.Stats()
		if st.Ended[engine.Displaced] != newcomers || st.Ended[engine.TooManyConns] != 0 || st.Open != kept+3 {
			t.Errorf("%d connections have made room, %d newcomers were refused, %d are open; want %d, none and %d",
				st.Ended[engine.Displaced], st.Ended[engine.TooManyConns], st.Open, newcomers, kept+3)
		}
		open()
		if got := readAnswer(t, bufio.NewReader(stream)); got != "200 first\nlast\n" {
			t.Errorf("the stream was %q", got)
		}
		if got := waits(""); got != "200 " {
			t.Errorf("the request in progress got %q", got)
		}
		for _, request := range []string{"", "st: localhost\r\n\r\n"} {
			if got := half(request); got != answer {
				t.Errorf("half a head got %q, want %q", got, answer)
			}
		}
	})
}
