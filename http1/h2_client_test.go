package http1

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// What browsers and gRPC do reaches no limit of HTTP/2: many streams, cookies in crumbs, 32 KiB of
// header fields, large bodies in both directions.
func TestHTTP2OfOrdinaryClients(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		s, client := serveTLS(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, r.Body)
		})}, true)
		client.Timeout = 0
		posting(t, client, "https://"+s.addr, nil) // now the client knows that one connection is enough
		large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		var wg sync.WaitGroup
		for i := range 250 {
			wg.Go(func() {
				body := large[:1000]
				if i%125 == 0 {
					body = large
				}
				r, _ := http.NewRequest("POST", "https://"+s.addr, bytes.NewReader(body))
				for c := range 90 {
					r.AddCookie(&http.Cookie{Name: fmt.Sprint("crumb", c), Value: "of some length"})
				}
				r.Header.Set("Long", strings.Repeat("x", 32<<10))
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !bytes.Equal(got, body) {
					t.Errorf("status %d, %d bytes of %d, %v", resp.StatusCode, len(got), len(body), err)
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Own[0].Count+st.Own[1].Count+st.SlowBodies+st.ClosedWindows != 0 || st.Open != 1 {
			t.Errorf("a limit was hit: %+v", st)
		}
	})
}

// A list of header fields over 64 KiB is refused with 431, and Std.MaxHeaderBytes sets another limit.
func TestHTTP2HeaderList(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ most, length, want int }{{0, 60 << 10, 200}, {0, 66 << 10, 431}, {1 << 20, 66 << 10, 200}} {
		s, client := serveTLS(t, &Server{Std: &http.Server{MaxHeaderBytes: x.most}, Handler: http.HandlerFunc(said)}, true)
		r, _ := http.NewRequest("GET", "https://"+s.addr, nil)
		r.Header.Set("Long", strings.Repeat("x", x.length))
		resp, err := client.Do(r)
		if err != nil { // the client knows the limit
			if x.want != 431 {
				t.Error(err)
			}
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != x.want {
			t.Errorf("%d bytes with the limit %d: status %d, want %d", x.length, x.most, resp.StatusCode, x.want)
		}
	}
}

// Streams that wait for their clients keep to Limits.TotalInput, and so do handlers that go on after resets.
func TestHTTP2KeepsToTheInputBudget(t *testing.T) {
	t.Parallel()
	const budget, conns = 4 << 20, 8
	for name, x := range map[string]struct {
		streams uint32
		sends   func(id uint32) string
	}{
		"half bodies": {250, func(id uint32) string { return frame(frameHeaders, 4, id, h2Post) + frame(frameData, 0, id, "abc") }},
		"resets": {1500, func(id uint32) string {
			if id < 1000 { // answers earn the resets of others, but not what their handlers hold
				return frame(frameHeaders, 5, id, h2Get)
			}
			return frame(frameHeaders, 5, id, h2Post) + frame(frameReset, 0, id, "\x00\x00\x00\x08")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			proceed := make(chan struct{})
			s := h2server(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "POST" {
					<-proceed
				}
			})
			s.Limits = engine.Limits{TotalInput: budget, LingerTime: time.Second}
			on := serve(t, s)
			for range conns {
				all := http2Preface + frame(frameSettings, 0, 0, "")
				for i := range x.streams {
					all += x.sends(2*i + 1)
				}
				go io.WriteString(on.dial(t), all) // the server may close it meanwhile
			}
			await(t, "refusals", func() bool {
				st := s.Stats()
				if st.InputMemory > budget {
					t.Errorf("%d bytes counted, of %d", st.InputMemory, budget)
				}
				return st.Ended[engine.InputBudget] >= conns/2
			})
			close(proceed)
			s.Close()
			if in := s.Stats().InputMemory; in != 0 {
				t.Errorf("%d bytes are still counted", in)
			}
		})
	}
}

// An idle HTTP/2 connection has as many goroutines as net/http gives it.
func TestHTTP2IdleGoroutines(t *testing.T) {
	s, client := serveTLS(t, &Server{Handler: http.HandlerFunc(said)}, true)
	var stacks string
	await(t, "an idle connection with two goroutines", func() bool {
		posting(t, client, "https://"+s.addr, nil)
		all := make([]byte, 1<<20)
		stacks = string(all[:runtime.Stack(all, true)])
		return strings.Count(stacks, "(*h2conn).Read(") == 1 && strings.Count(stacks, "(*lender).lend(") == 1
	})
	if strings.Contains(stacks, "net/http.(*conn).serve(") {
		t.Error("net/http has a goroutine of its own for the connection")
	}
}

// HTTP/2 without TLS begins with its preface, in whatever pieces that arrives.
func TestHTTP2PrefaceInPieces(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		std := &http.Server{Handler: http.HandlerFunc(said), Protocols: new(http.Protocols)}
		std.Protocols.SetUnencryptedHTTP2(true)
		std.Protocols.SetHTTP1(true)
		s := serve(t, &Server{Engine: e, Std: std})
		nc := s.dial(t)
		for i, part := range []string{http2Preface[:2], http2Preface[2:7], http2Preface[7:21], http2Preface[21:] + frame(frameSettings, 0, 0, "")} {
			say(t, nc, part)
			await(t, "its arrival", func() bool { return s.Stats().BytesIn >= uint64([]int{2, 7, 21, 24}[i]) })
		}
		var head [9]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil || head[3] != frameSettings {
			t.Errorf("got %q, %v", head, err)
		}
	})
}
