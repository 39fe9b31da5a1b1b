package avatar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// logLine is a line of the log as its reader sees it.
type logLine struct {
	Time                              time.Time
	Method, URI, Proto, Remote, Cache string
	Status, Bytes, Of                 int
	US                                float64
	Cut                               bool
}

func logLines(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logLine
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestAccessLog is a line for every kind of answer.
func TestAccessLog(t *testing.T) {
	var b bytes.Buffer
	s := newService(t, Limits{})
	s.Log = &AccessLog{To: &b}
	before := time.Now().Add(-time.Second)
	first := ask(t, s, "GET", "/v1/John.png")
	ask(t, s, "GET", "/v1/John.png")
	ask(t, s, "HEAD", "/v1/John.png", "If-None-Match", first.Header().Get("Etag"))
	ask(t, s, "GET", "/v1/John.png?size=%22%0d%0a%ff\"")
	ask(t, s, "POST", "/v1/John.png")
	ask(t, s, "GET", "/"+strings.Repeat("a", 400))
	ask(t, s, "GET", "/v1//John.png")
	s.Log.Close()
	s.Log.Close()
	want := map[logLine]int{}
	for _, l := range []logLine{
		{Method: "GET", URI: "/v1/John.png", Status: 200, Bytes: first.Body.Len(), Cache: "made"},
		{Method: "GET", URI: "/v1/John.png", Status: 200, Bytes: first.Body.Len(), Cache: "hit"},
		{Method: "HEAD", URI: "/v1/John.png", Status: 304, Cache: "304"},
		{Method: "GET", URI: "/v1/John.png?size=%22%0d%0a%ff\"", Status: 400},
		{Method: "POST", URI: "/v1/John.png", Status: 405},
		{Method: "GET", URI: "/" + strings.Repeat("a", 159), Status: 200, Cache: "made", Cut: true},
		{Method: "GET", URI: "/v1//John.png", Status: 307},
	} {
		want[l]++
	}
	for _, l := range logLines(t, b.String()) {
		if l.Time.Before(before) || l.Time.After(time.Now()) || l.US <= 0 || l.Remote != "192.0.2.1:1234" || l.Proto != "HTTP/1.1" {
			t.Errorf("%+v", l)
		}
		if l.Status >= 400 || l.Status == 307 || l.Cut {
			l.Bytes = 0
		}
		l.Time, l.US, l.Remote, l.Proto = time.Time{}, 0, "", ""
		want[l]--
	}
	for l, missing := range want {
		if missing != 0 {
			t.Errorf("%d times %+v", missing, l)
		}
	}
	if st := s.Log.Stats(); st.Written != 7 || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

// TestAccessLogSample keeps every error and every slow request, and one in
// three of the others, each of which says how many it stands for.
func TestAccessLogSample(t *testing.T) {
	var b bytes.Buffer
	log := &AccessLog{To: &b, Sample: 3, Slow: time.Second}
	r := httptest.NewRequest("GET", "/v1/a", nil)
	const n = 900
	for range n {
		log.add(r, time.Now(), time.Millisecond, &visit{status: 200})
		log.add(r, time.Now(), time.Millisecond, &visit{status: 404})
		log.add(r, time.Now(), time.Second, &visit{status: 200})
	}
	log.Close()
	ordinary, errs, slow := 0, 0, 0
	for _, l := range logLines(t, b.String()) {
		switch {
		case l.Status == 404 && l.Of == 0:
			errs++
		case l.US >= 1e6 && l.Of == 0:
			slow++
		case l.Of == 3:
			ordinary++
		}
	}
	if errs != n || slow != n || ordinary < n/5 || ordinary > n/2 {
		t.Errorf("%d errors, %d slow, %d ordinary ones of %d each", errs, slow, ordinary, n)
	}
	if st := log.Stats(); int(st.Skipped) != n-ordinary || int(st.Written) != 2*n+ordinary {
		t.Errorf("%+v", st)
	}
}

// stuck is a disk that takes nothing until it is let go.
type stuck struct {
	entered, release chan struct{}
	once             sync.Once
	lines            int
}

func (w *stuck) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.entered) })
	<-w.release
	w.lines += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// TestAccessLogDrops has the log's writer hang: requests do not wait, what finds
// no room is counted, and nothing else is lost.
func TestAccessLogDrops(t *testing.T) {
	w := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	log := &AccessLog{To: w, Bytes: 16 * 57} // of this request's
	r := httptest.NewRequest("GET", "/v1/a", nil)
	add := func() { log.add(r, time.Now(), 0, &visit{status: 200}) }
	add()
	select {
	case <-w.entered:
	case <-time.After(patience):
		t.Fatal("nothing is written")
	}
	const n = 1000
	for range n {
		add()
	}
	dropped := log.Stats().Dropped
	if dropped < n-2*ringCount*16 || dropped >= n {
		t.Errorf("%d of %d dropped", dropped, n)
	}
	close(w.release)
	log.Close()
	if w.lines+int(dropped) != n+1 {
		t.Errorf("%d written and %d dropped of %d", w.lines, dropped, n+1)
	}
}

type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestAccessLogFailure(t *testing.T) {
	log := &AccessLog{To: brokenDisk{}}
	log.add(httptest.NewRequest("GET", "/v1/a", nil), time.Now(), 0, &visit{status: 200})
	log.Close()
	if st := log.Stats(); st.Failed != 1 || st.Written != 0 {
		t.Errorf("%+v", st)
	}
}

// TestAccessLogTogether has many write at once; every line is whole.
func TestAccessLogTogether(t *testing.T) {
	var b bytes.Buffer
	log := &AccessLog{To: &b, Bytes: 1 << 20}
	var asking sync.WaitGroup
	for g := range 4 {
		asking.Go(func() {
			r := httptest.NewRequest("GET", "/v1/"+strings.Repeat("x", g*20), nil)
			for range 500 {
				log.add(r, time.Now(), 0, &visit{status: 200, bytes: len(r.RequestURI)})
			}
		})
	}
	asking.Wait()
	log.Close()
	lines := logLines(t, b.String())
	for _, l := range lines {
		if l.Bytes != len(l.URI) {
			t.Fatalf("two lines in one: %+v", l)
		}
	}
	if got := uint64(len(lines)) + log.Stats().Dropped; got != 2000 {
		t.Errorf("%d lines and drops", got)
	}
}

// BenchmarkAccessLog is what a line costs a request, and what it costs in all:
// written beside others, nothing dropped.
func BenchmarkAccessLog(b *testing.B) {
	r := httptest.NewRequest("GET", "/v1/John%20Doe.png?size=128", nil)
	now, v := time.Now(), &visit{status: 200}
	for _, formatted := range []bool{false, true} {
		name := map[bool]string{false: "request", true: "request-and-line"}[formatted]
		b.Run(name, func(b *testing.B) {
			log := &AccessLog{To: io.Discard}
			log.Close() // the benchmark is the writer
			spare, line := make([]byte, 0, log.Bytes), make([]byte, 0, 2*enough)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				log.add(r, now, time.Microsecond, v)
				switch {
				case i%512 != 511:
				case formatted:
					spare = log.drain(spare, line)
				default:
					for j := range log.rings {
						log.rings[j].records = log.rings[j].records[:0]
					}
				}
			}
			if n := log.Stats().Dropped; n != 0 {
				b.Fatalf("%d dropped", n)
			}
		})
	}
}

func BenchmarkAccessLogLine(b *testing.B) {
	rec := record{wall: time.Now().UnixNano(), took: 12345, bytes: 693, of: 1, status: 200, cache: fromCache,
		method: []byte("GET"), remote: []byte("192.0.2.1:1234"), uri: []byte("/v1/John%20Doe.png?size=128")}
	var line []byte
	var clock clockText
	b.ReportAllocs()
	for b.Loop() {
		line = rec.appendTo(line[:0], &clock)
	}
}

// BenchmarkCached is what a request for a picture in the cache costs above
// net/http, with the log and without.
func BenchmarkCached(b *testing.B) {
	for _, logged := range []bool{false, true} {
		name := "log-off"
		s := newService(b, Limits{})
		if logged {
			name = "log-on"
			s.Log = &AccessLog{To: io.Discard, Bytes: 1 << 20}
			defer s.Log.Close()
		}
		for _, target := range []string{"/v1/John%20Doe.png?size=128", "/JohnDoe"} {
			r := httptest.NewRequest("GET", target, nil)
			w := &quietWriter{map[string][]string{}}
			b.Run(name+target, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					clear(w.header)
					s.ServeHTTP(w, r)
				}
			})
		}
	}
}
