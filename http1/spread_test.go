package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/testrun"
)

// errRefused is what a client gets that connects after the start of the drain.
var errRefused = errors.New("nobody listens")

// With Limits.SpreadTime, clients that ask now and then leave one after the other with an answer: over the fast path, on
// loan, and over HTTP/2. Nothing is asked in vain. Those that ask nothing stay to the end.
func TestShutdownSpreads(t *testing.T) {
	t.Parallel() // it shares nothing
	const each, idlers, whole = 800, 50, 20 * time.Second
	engines := engine.All()
	if !testrun.All() {
		engines = engines[len(engines)-1:] // the default: each computes for three seconds
	}
	for _, e := range engines {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ln := fakenet.Listen()
				s := &Server{Engine: e, Limits: engine.Limits{SpreadTime: whole, Conns: 1 << 14}, Std: &http.Server{Protocols: new(http.Protocols)}}
				s.Std.Protocols.SetHTTP1(true)
				s.Std.Protocols.SetUnencryptedHTTP2(true)
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					fmt.Fprint(w, r.ContentLength, r.ProtoMajor)
				})
				served := make(chan error, 1)
				go func() { served <- s.Serve(ln) }()
				var began time.Time
				var mu sync.Mutex
				left := map[string][]time.Duration{}
				var clients sync.WaitGroup
				client := func(kind string, idle bool) {
					dials := 0
					transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
						if dials++; dials > 1 {
							return nil, errRefused
						}
						return ln.Dial()
					}}
					transport.Protocols.SetHTTP1(kind != "http2")
					transport.Protocols.SetUnencryptedHTTP2(kind == "http2")
					defer transport.CloseIdleConnections()
					ask := func() error {
						body, want := io.Reader(nil), "0"
						if kind == "lent" {
							body, want = io.MultiReader(strings.NewReader("hello")), "-1"
						}
						request, err := http.NewRequest("POST", "http://spread/", body)
						if err != nil {
							return err
						}
						response, err := transport.RoundTrip(request)
						if err != nil {
							return err
						}
						defer response.Body.Close()
						text, err := io.ReadAll(response.Body)
						if want += " " + map[bool]string{false: "1", true: "2"}[kind == "http2"]; string(text) != want {
							err = fmt.Errorf("answered %q, want %q: %v", text, want, err)
						}
						return err
					}
					for first := true; ; first = false {
						err := ask()
						if err != nil {
							mu.Lock()
							if errors.Is(err, errRefused) && !first {
								left[kind] = append(left[kind], time.Since(began))
							} else {
								t.Errorf("%s, idle %v, after %v: %v", kind, idle, time.Since(began), err)
							}
							mu.Unlock()
							return
						}
						if idle {
							<-time.After(10*time.Second + whole + time.Second)
						} else {
							<-time.After(rand.N(4 * time.Second))
						}
					}
				}
				for _, kind := range []string{"fast", "lent", "http2"} {
					for i := range each + idlers {
						clients.Go(func() { client(kind, i >= each) })
					}
				}
				<-time.After(10 * time.Second)
				mu.Lock()
				began = time.Now()
				mu.Unlock()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := s.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < whole || took > whole+3*time.Second {
					t.Errorf("Shutdown took %v", took)
				}
				clients.Wait()
				if err := <-served; err != http.ErrServerClosed {
					t.Error(err)
				}
				for kind, ends := range left {
					counts := map[int]int{}
					for _, at := range ends {
						counts[int(at/(2*time.Second))]++
					}
					want := each * 2 / int(whole/time.Second)
					for i := 2; i < int(whole/(2*time.Second)); i++ {
						if n := counts[i]; n < want/2 || n > want*3/2 {
							t.Errorf("%d of %s left in the two seconds from %d on, want %d, give or take a half", n, kind, 2*i, want)
						}
					}
				}
				st := s.Stats()
				if st.Drained.Forced != 0 || st.Drained.Idle < 2*idlers || st.Drained.Idle > 2*idlers+each/5 {
					t.Errorf("%+v", st.Drained)
				}
			})
		})
	}
}

// Beyond Limits.AcceptRate the answer says when to come again.
func TestAcceptRateSaysRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := fakenet.Listen()
		s := &Server{Limits: engine.Limits{AcceptRate: 1}, Handler: http.NotFoundHandler()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		for _, want := range []string{"404 ", "503 2", "503 3"} {
			nc, err := ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			say(t, nc, getting("/"))
			response, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(response.StatusCode, " ", response.Header.Get("Retry-After")); got != want {
				t.Errorf("answered %q, want %q", got, want)
			}
			nc.Close()
		}
		s.Close()
		<-served
	})
}
