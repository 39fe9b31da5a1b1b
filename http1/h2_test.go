package http1

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
)

// h2lent lends one end of a pipe to s as an HTTP/2 connection, in a bubble of synctest, and returns the
// other end. What s sends is read and given to seen, if that is set.
func h2lent(t *testing.T, s *Server, seen func(kind, flags byte, stream uint32, payload []byte)) net.Conn {
	t.Helper()
	s.init()
	here, there := net.Pipe()
	l := newLoan(there, []byte(http2Preface))
	ended, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.http2.lend(l)
	}()
	go func() {
		defer close(read)
		for {
			var head [9]byte
			if _, err := io.ReadFull(here, head[:]); err != nil {
				return
			}
			payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			if _, err := io.ReadFull(here, payload); err != nil {
				return
			}
			if seen != nil {
				seen(head[3], head[4], binary.BigEndian.Uint32(head[5:]), payload)
			}
		}
	}()
	t.Cleanup(func() {
		here.Close()
		<-ended
		<-read
	})
	say(t, here, frame(frameSettings, 0, 0, ""))
	return here
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Header blocks without a body to come, and with one.
const (
	h2Post = "\x83\x86\x84\x41\x01a"
	h2Get  = "\x82\x86\x84\x41\x01a"
)

func h2server(h http.HandlerFunc) *Server {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	p.SetHTTP1(true)
	return &Server{Handler: h, Std: &http.Server{Protocols: p}}
}

// crowd are many connections with many streams each, all of which send begun.
func crowd(t *testing.T, s *Server, conns, streams int, begun func(stream uint32) string) []net.Conn {
	var all []net.Conn
	for range conns {
		nc := h2lent(t, s, nil)
		for i := range streams {
			say(t, nc, begun(uint32(2*i+1)))
		}
		all = append(all, nc)
	}
	synctest.Wait()
	return all
}

// Handlers that wait for bodies that do not come are let go, unless they have answered or set a deadline.
func TestStreamsWithHalfBodies(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		before func(w http.ResponseWriter)
		fields string
		limits engine.Limits
		read   time.Duration
		stay   bool
	}{
		"silent":                    {},
		"answered":                  {before: func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, stay: true},
		"a status that is not sent": {before: func(w http.ResponseWriter) { w.WriteHeader(200) }},
		"100-continue":              {fields: "\x00\x06expect\x0c100-continue"},
		"early hints":               {before: func(w http.ResponseWriter) { w.WriteHeader(103) }},
		"no limit":                  {limits: engine.Limits{FrameTime: -1}, stay: true},
		"ReadTimeout":               {read: time.Minute, stay: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waiting, failed atomic.Int64
				s := h2server(func(w http.ResponseWriter, r *http.Request) {
					waiting.Add(1)
					defer waiting.Add(-1)
					if x.before != nil {
						x.before(w)
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						<-r.Context().Done()
						failed.Add(1)
					}
				})
				s.Limits, s.Std.ReadTimeout = x.limits, x.read
				const conns, streams = 8, 250
				crowd(t, s, conns, streams, func(id uint32) string {
					return frame(frameHeaders, 4, id, h2Post+x.fields) + frame(frameData, 0, id, "abc")
				})
				if n := waiting.Load(); n != conns*streams {
					t.Fatalf("%d handlers wait", n)
				}
				pass(4900 * time.Millisecond)
				if n := waiting.Load(); n != conns*streams {
					t.Errorf("%d handlers wait before the limit", n)
				}
				pass(3100 * time.Millisecond)
				want := int64(0)
				if x.stay {
					pass(42 * time.Second) // ten times FrameTime in all
					synctest.Wait()
					want = conns * streams
				}
				st := s.Stats()
				if n := waiting.Load(); n != want || failed.Load() != conns*streams-want || st.SlowBodies != uint64(conns*streams-want) || st.OpenLoans != conns {
					t.Errorf("%d handlers wait, want %d; %d failed, %d were counted, %d connections are open", n, want, failed.Load(), st.SlowBodies, st.OpenLoans)
				}
			})
		})
	}
}

// A body that keeps to the rate lives, and so does one whose client sends others meanwhile.
func TestSteadyUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 2)
		s := h2server(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		})
		nc := h2lent(t, s, nil)
		say(t, nc, frame(frameHeaders, 4, 1, h2Post)+frame(frameHeaders, 4, 3, h2Post))
		for range 30 {
			pass(time.Second)
			say(t, nc, frame(frameData, 0, 1, strings.Repeat("x", 16<<10)))
		}
		say(t, nc, frame(frameData, flagEnd, 1, ""))
		if err := <-ended; err != nil {
			t.Errorf("the steady one: %v", err)
		}
		for range 30 {
			pass(time.Second)
			say(t, nc, frame(frameData, 0, 3, strings.Repeat("x", 4<<10)))
		}
		say(t, nc, frame(frameData, flagEnd, 3, ""))
		if err := <-ended; err != nil {
			t.Errorf("the later one: %v", err)
		}
	})
}

// Handlers wait no longer for bodies whose client is silent within a frame, where nothing can be inserted.
func TestHalfFrame(t *testing.T) {
	for _, half := range []string{"\x00\x00\x08", frame(frameData, 0, 1, "abcdef")[:12], frame(frameHeaders, 0, 3, h2Get)} {
		synctest.Test(t, func(t *testing.T) {
			var failed atomic.Int64
			s := h2server(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					failed.Add(1)
				}
			})
			nc := h2lent(t, s, nil)
			say(t, nc, frame(frameHeaders, 4, 1, h2Post))
			synctest.Wait()
			var l *loan
			for l = range s.http2.lent {
			}
			say(t, nc, half)
			pass(4900 * time.Millisecond)
			if failed.Load() != 0 {
				t.Error("ended before the limit")
			}
			pass(3100 * time.Millisecond)
			if st := s.Stats(); failed.Load() != 1 || st.OpenLoans != 0 || l.struck() != engine.FrameTimeout {
				t.Errorf("%q: %d ended, %d connections are open, %v", half, failed.Load(), st.OpenLoans, l.struck())
			}
		})
	}
}

// A process that got no CPU time does not blame its clients.
func TestStreamsAfterAPause(t *testing.T) {
	s := h2server(nil)
	s.init()
	here, there := net.Pipe()
	defer here.Close()
	c := &h2conn{loan: newLoan(there, nil), watch: newWatch(), looked: time.Now().Add(-time.Hour)}
	c.lender, c.looks = s.http2, time.NewTimer(time.Hour)
	defer c.Close()
	c.watch.received([]byte(frame(frameHeaders, 4, 1, h2Post)))
	if c.look(); len(c.watch.streams) != 1 {
		t.Error("the stream was reset")
	}
	for range 4 {
		c.looked = time.Now().Add(-time.Hour)
		c.look()
	}
	if len(c.watch.streams) != 0 {
		t.Error("the stream lives on")
	}
}

// Connections that make much work take turns, which end with the next read or write.
func TestHTTP2Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2server(nil)
		s.init()
		le := s.http2
		one := frame(6, 0, 0, ping)
		c := &h2conn{loan: newLoan(nil, []byte(strings.Repeat(one, lightWork+8))), watch: newWatch()}
		c.lender, c.nc, c.phase = le, new(net.TCPConn), given
		reads := func(n int) (took time.Duration) {
			began := time.Now()
			if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		for range cap(le.turns) {
			le.turns <- struct{}{}
		}
		if took := reads(lightWork * len(one)); took != 0 || c.turn {
			t.Errorf("light work waits %v", took)
		}
		if took := reads(9); took != 0 {
			t.Errorf("half a frame waits %v", took)
		}
		if took := reads(8); took != time.Second || c.turn {
			t.Errorf("without turns, a frame waits %v", took)
		}
		c.watch.work.add(lightWork)
		time.AfterFunc(time.Millisecond, func() { <-le.turns })
		if took := reads(17); took != time.Millisecond || !c.turn {
			t.Errorf("a frame waits %v for a turn", took)
		}
		if reads(1); c.turn || len(le.turns) != cap(le.turns)-1 {
			t.Error("the turn is not given back by the next read")
		}
		if reads(16); !c.turn {
			t.Error("a free turn is not taken")
		}
		if c.Write(nil); c.turn || len(le.turns) != cap(le.turns)-1 {
			t.Error("the turn is not given back by a write")
		}
		if reads(17); !c.turn {
			t.Error("a free turn is not taken again")
		}
		if c.Close(); len(le.turns) != cap(le.turns)-1 {
			t.Error("the turn is not given back by the end")
		}
	})
}

// Handlers that end with their streams hold nothing, nor do those that have returned before a reset.
func TestHTTP2Resets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2server(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		nc := h2lent(t, s, nil)
		for i := range uint32(300) {
			say(t, nc, frame(frameHeaders, 4, 2*i+1, h2Post)+frame(frameReset, 0, 2*i+1, "\x00\x00\x00\x08"))
		}
		synctest.Wait()
		for l := range s.http2.lent {
			if w := &l.http2.watch; w.gone > 100 || w.handlers != 0 { // some streams were reset before their handlers began
				t.Errorf("%d handlers run, %d go on", w.handlers, w.gone)
			}
			l.http2.watch.gone = 50
		}
		say(t, nc, frame(frameHeaders, 4, 601, h2Post))
		pass(2 * time.Second)
		for l := range s.http2.lent {
			if w := &l.http2.watch; w.gone != 1 || w.handlers != 1 {
				t.Errorf("%d handlers run, %d go on", w.handlers, w.gone)
			}
		}
	})
}

// A connection that comes while its server drains ends.
func TestHTTP2WhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2server(func(http.ResponseWriter, *http.Request) { t.Error("served") })
		s.init()
		s.http2.drain()
		here, there := net.Pipe()
		go io.Copy(io.Discard, here)
		began := time.Now()
		s.http2.lend(newLoan(there, []byte(http2Preface)))
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %v", took)
		}
		here.Close()
	})
}

// SETTINGS open the windows of streams that there are.
func TestWindowsOfSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := h2server(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-time.After(time.Minute)
			_, err := w.Write(make([]byte, 8<<10))
			ended <- err
		})
		nc := h2lent(t, s, nil)
		say(t, nc, frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00")+frame(frameHeaders, 5, 1, h2Get))
		pass(time.Second)
		say(t, nc, frame(frameSettings, 0, 0, windowSize))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A client whose window is full is not slow.
func TestFullWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := h2server(func(w http.ResponseWriter, r *http.Request) {
			<-time.After(time.Minute)
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		})
		nc := h2lent(t, s, nil)
		say(t, nc, frame(frameHeaders, 4, 1, h2Post))
		for range 1 << 20 / (16 << 10) {
			say(t, nc, frame(frameData, 0, 1, strings.Repeat("x", 16<<10)))
		}
		pass(time.Minute)
		say(t, nc, frame(frameData, flagEnd, 1, ""))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Streams whose windows stay closed end: those whose handlers write, and those whose handlers have
// left the rest to net/http.
func TestClosedWindows(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"much":    func(w http.ResponseWriter) error { _, err := w.Write(make([]byte, 1<<20)); return err },
		"strings": func(w http.ResponseWriter) error { _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); return err },
		"flush": func(w http.ResponseWriter) error {
			io.WriteString(w, "x")
			return http.NewResponseController(w).Flush()
		},
		"little": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "x"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failed atomic.Int64
				s := h2server(func(w http.ResponseWriter, r *http.Request) {
					if write(w) != nil {
						failed.Add(1)
					}
				})
				var resets atomic.Int64
				nc := h2lent(t, s, func(kind, _ byte, _ uint32, _ []byte) {
					if kind == frameReset {
						resets.Add(1)
					}
				})
				say(t, nc, frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00"))
				for i := range uint32(250) {
					say(t, nc, frame(frameHeaders, 5, 2*i+1, h2Get))
				}
				pass(9900 * time.Millisecond)
				if failed.Load() != 0 || resets.Load() != 0 {
					t.Fatalf("%d failed before the limit, %d were reset", failed.Load(), resets.Load())
				}
				pass(2 * time.Second)
				want := int64(250)
				if name == "little" {
					want = 0 // the handlers have returned
				}
				if st := s.Stats(); failed.Load() != want || st.ClosedWindows != 250 || resets.Load() != 250 {
					t.Errorf("%d failed, %d were counted, %d were reset", failed.Load(), st.ClosedWindows, resets.Load())
				}
			})
		})
	}
}

// A client that reads slowly, so that the socket is full, gets its answer; a handler that is silent may be.
func TestOpenWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := h2server(func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 256<<10))
			<-time.After(time.Minute)
			w.Write(make([]byte, 256<<10))
		})
		got, ended := 0, make(chan struct{})
		var nc net.Conn
		nc = h2lent(t, s, func(kind, flags byte, id uint32, payload []byte) {
			if kind != frameData {
				return
			}
			got += len(payload)
			if flags&flagEnd != 0 {
				close(ended)
				return
			}
			<-time.After(4 * time.Second)
			if n := uint32(len(payload)); n > 0 {
				more := string(binary.BigEndian.AppendUint32(nil, n))
				io.WriteString(nc, frame(8, 0, 0, more)+frame(8, 0, id, more))
			}
		})
		say(t, nc, frame(frameHeaders, 5, 1, h2Get))
		<-ended
		if got != 512<<10 {
			t.Errorf("got %d bytes", got)
		}
	})
}

// What the watch says ends the connection under its reason: at once, or with GOAWAY.
func TestHTTP2Verdicts(t *testing.T) {
	for name, x := range map[string]struct {
		sends string
		code  uint32
		why   engine.Reason
		ends  bool // a request in progress
	}{
		"a flood":        {strings.Repeat(frame(6, 0, 0, ping), dueBurst+2), 99, http2Flood, true},
		"a table's size": {frame(frameSettings, 0, 0, tableSize), 0, http2Resized, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proceed := make(chan struct{})
				var status, code atomic.Uint32
				code.Store(99) // none
				s := h2server(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-proceed:
					case <-r.Context().Done():
					}
				})
				nc := h2lent(t, s, func(kind, _ byte, _ uint32, payload []byte) {
					switch kind {
					case frameGoAway:
						code.Store(binary.BigEndian.Uint32(payload[4:]))
					case frameHeaders:
						status.Add(1)
					}
				})
				say(t, nc, frame(frameHeaders, 5, 1, h2Get))
				synctest.Wait()
				var l *loan
				for l = range s.http2.lent {
				}
				go io.WriteString(nc, x.sends+strings.Repeat(frame(6, 0, 0, ping), 20))
				synctest.Wait()
				if code.Load() != x.code || l.struck() != x.why {
					t.Errorf("GOAWAY with %d for %v", code.Load(), l.struck())
				}
				close(proceed)
				pass(2 * time.Second)
				if answered := status.Load() == 1; answered == x.ends || s.Stats().OpenLoans != 0 {
					t.Errorf("answered: %v; %d connections are open", answered, s.Stats().OpenLoans)
				}
			})
		})
	}
}
