package observe_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

const durations = "hone_handler_duration_seconds"

// echo answers with the request.
type echo struct{}

func (echo) Handle(_ framed.Call, dst, req []byte) ([]byte, error) {
	if len(req) == 0 {
		return dst, wire.Failed
	}
	return append(dst, req...), nil
}

// TestLatencyCountsAll times every request, from several goroutines, including some that fail,
// panic or are slow: the count is exact, and sum and buckets are consistent.
func TestLatencyCountsAll(t *testing.T) {
	l := &observe.Latency{Every: 1}
	s := start(t, &observe.Admin{Stats: nothing, Latency: l})
	if got := s.scrape()[durations+"_count"]; got != 0 {
		t.Errorf("%v counted before the first request", got)
	}
	h := l.Wrap(echo{})
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for range 1000 {
				if b, err := h.Handle(framed.Call{}, []byte("<"), []byte("x")); string(b) != "<x" || err != nil {
					t.Errorf("answered %q, %v", b, err)
				}
			}
		})
	}
	askers.Wait()
	if _, err := h.Handle(framed.Call{}, nil, nil); !errors.Is(err, wire.Failed) {
		t.Errorf("error %v, want the handler's", err)
	}
	const long = 30 * time.Millisecond
	slow := l.Wrap(framed.HandlerFunc(func(framed.Call, []byte, []byte) ([]byte, error) {
		<-time.After(long)
		panic("as asked")
	}))
	func() {
		defer func() {
			if v := recover(); v != "as asked" {
				t.Errorf("the panic became %v", v)
			}
		}()
		slow.Handle(framed.Call{}, nil, nil)
	}()
	got := s.scrape()
	const all = 8*1000 + 2
	if got[durations+"_count"] != all || got[durations+`_bucket{le="+Inf"}`] != all {
		t.Errorf("%v counted, %v in all buckets, want %d", got[durations+"_count"], got[durations+`_bucket{le="+Inf"}`], all)
	}
	if sum := got[durations+"_sum"]; sum < long.Seconds() {
		t.Errorf("%v s in total, want at least %v", sum, long.Seconds())
	}
	if below := got[durations+`_bucket{le="0.02"}`]; below > all-1 {
		t.Errorf("%v of %d under 20 ms; one took %v", below, all, long)
	}
	if got[durations+`_bucket{le="10"}`] != all || got[durations+`_bucket{le="0.001"}`] == 0 {
		t.Errorf("%v under 10 s and %v under 1 ms; want all of them, and some of them",
			got[durations+`_bucket{le="10"}`], got[durations+`_bucket{le="0.001"}`])
	}
	risesTo(t, got, all)
}

// risesTo checks that the buckets never decrease.
func risesTo(t *testing.T, got series, all float64) {
	t.Helper()
	buckets, before := 0, 0.0
	for us := 1.0; us <= 1e7; us *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			v, ok := got[fmt.Sprintf("%s_bucket{le=%q}", durations, fmt.Sprint(math.Round(us*digit)/1e6))]
			if !ok {
				continue
			}
			buckets++
			if v < before || v > all {
				t.Errorf("the bucket of %v µs has %v, after %v", us*digit, v, before)
			}
			before = v
		}
	}
	if buckets != 22 {
		t.Errorf("%d buckets found, want 22", buckets)
	}
}

// TestLatencySamples counts how many of a million requests are timed. The bounds are ten standard
// deviations wide.
func TestLatencySamples(t *testing.T) {
	const asked = 1_000_000
	for _, every := range []uint32{0, 2, 100, 1000} {
		l := &observe.Latency{Every: every}
		s := start(t, &observe.Admin{Stats: nothing, Latency: l})
		h := l.Wrap(echo{})
		var dst [8]byte
		for range asked {
			h.Handle(framed.Call{}, dst[:0], []byte("x"))
		}
		part := 1 / float64(max(every, 1))
		if every == 0 {
			part = 1.0 / 128
		}
		got, want := s.scrape()[durations+"_count"], asked*part
		if doubt := 10 * math.Sqrt(asked*part*(1-part)); math.Abs(got-want) > doubt {
			t.Errorf("every %d: %v of %d were timed, want %v ± %.0f", every, got, asked, want, doubt)
		}
	}
}

// TestLatencyAllocatesNothing wraps a handler that does not allocate.
func TestLatencyAllocatesNothing(t *testing.T) {
	h := (&observe.Latency{Every: 2}).Wrap(echo{})
	dst, req := make([]byte, 0, 8), []byte("x")
	if n := testing.AllocsPerRun(1000, func() { h.Handle(framed.Call{}, dst, req) }); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// TestLatencyOfAServer times the handlers of a real server.
func TestLatencyOfAServer(t *testing.T) {
	l := &observe.Latency{Every: 1}
	srv := &framed.Server{Handler: l.Wrap(echo{})}
	s := start(t, &observe.Admin{Stats: srv.Stats, Latency: l})
	client := &framed.Mux{Addr: serve(t, srv)}
	defer client.Close()
	for range 100 {
		if b, err := client.Call(t.Context(), nil, []byte("hello")); string(b) != "hello" || err != nil {
			t.Fatalf("answered %q, %v", b, err)
		}
	}
	if got := s.scrape()[durations+"_count"]; got != 100 {
		t.Errorf("%v timed, want 100", got)
	}
}

func TestLatencyNeedsAHandler(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.HasPrefix(v, "observe: Latency.Wrap") {
			t.Errorf("panicked with %v", v)
		}
	}()
	new(observe.Latency).Wrap(nil)
}

// BenchmarkLatency is what timing adds to a handler that does almost nothing.
func BenchmarkLatency(b *testing.B) {
	bare := framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil })
	run := func(name string, h framed.Handler) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Handle(framed.Call{}, nil, nil)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					h.Handle(framed.Call{}, nil, nil)
				}
			})
		})
	}
	run("bare", bare)
	for _, every := range []uint32{1 << 31, 1024, 128, 16, 1} {
		run(fmt.Sprint("every=", every), (&observe.Latency{Every: every}).Wrap(bare))
	}
}

// TestLatencyOfHTTP times net/http handlers, including ones that panic.
func TestLatencyOfHTTP(t *testing.T) {
	l := &observe.Latency{Every: 1}
	s := start(t, &observe.Admin{HTTP: func() http1.Stats { return http1.Stats{} }, Latency: l})
	const long = 20 * time.Millisecond
	h := l.WrapHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-time.After(long)
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, r.URL.Path)
	}))
	for range 10 {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/quick", nil)); w.Body.String() != "/quick" {
			t.Errorf("answered %q", w.Body)
		}
	}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("the panic became %v", v)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/slow", nil))
	}()
	if got := s.scrape(); got[durations+"_count"] != 11 || got[durations+"_sum"] < long.Seconds() {
		t.Errorf("%v counted, %v s in total", got[durations+"_count"], got[durations+"_sum"])
	}
}

// TestLatencyOfMessages times a websocket.Upgrader's messages, including ones that panic.
func TestLatencyOfMessages(t *testing.T) {
	l := &observe.Latency{Every: 1}
	s := start(t, &observe.Admin{HTTP: func() http1.Stats { return http1.Stats{} }, Latency: l})
	message := l.WrapMessages(func(_ websocket.Call, dst, msg []byte) ([]byte, error) {
		if len(msg) == 0 {
			panic("asked to")
		}
		return append(dst, msg...), io.EOF
	})
	for range 10 {
		if answer, err := message(websocket.Call{}, []byte("a"), []byte("b")); string(answer) != "ab" || err != io.EOF {
			t.Errorf("answered %q, %v", answer, err)
		}
	}
	func() {
		defer func() {
			if v := recover(); v != "asked to" {
				t.Errorf("the panic became %v", v)
			}
		}()
		message(websocket.Call{}, nil, nil)
	}()
	if got := s.scrape(); got[durations+"_count"] != 11 {
		t.Errorf("%v counted", got[durations+"_count"])
	}
}
