package avatar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// logLine is a line of the log as its reader sees it.
type logLine struct {
	Time                                          time.Time
	Level, Msg, Method, URI, Proto, Remote, Cache string
	Status, Bytes, Of                             int
	NS                                            int64
	Cut                                           bool
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
		if l.Time.Before(before) || l.Time.After(time.Now()) || l.NS <= 0 || l.Level != "INFO" || l.Msg != "request" || l.Remote != "192.0.2.1:1234" || l.Proto != "HTTP/1.1" {
			t.Errorf("%+v", l)
		}
		if l.Status >= 400 || l.Status == 307 || l.Cut {
			l.Bytes = 0
		}
		l.Time, l.NS, l.Remote, l.Proto, l.Level, l.Msg = time.Time{}, 0, "", "", "", ""
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
		case l.NS >= 1e9 && l.Of == 0:
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
	const room = 4096
	log := &AccessLog{To: w, Bytes: room}
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
	if dropped < n-room/100 || dropped >= n { // a line has more than 100 bytes
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

// TestAccessLogText has clients say what would make one line look like two, or speak to a
// terminal.
func TestAccessLogText(t *testing.T) {
	var b bytes.Buffer
	log := &AccessLog{To: &b}
	r := httptest.NewRequest("GET", "/", nil)
	r.RequestURI = "/\"\n{\x1b[31m\x7f\xc2\x9b\u202e"
	log.add(r, time.Now(), 1, &visit{status: 200})
	log.Close()
	if strings.Count(b.String(), "\n") != 1 || strings.ContainsFunc(strings.TrimSpace(b.String()), func(c rune) bool { return c < ' ' || c > '~' }) {
		t.Errorf("%q", b.String())
	}
	if l := logLines(t, b.String()); l[0].URI != "/\"\n{\x1b[31m%7F%C2%9B%E2%80%AE" {
		t.Errorf("%q", l[0].URI)
	}
}

// TestAccessLogAllocatesNothing logs with every attribute.
func TestAccessLogAllocatesNothing(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	log := &AccessLog{To: io.Discard, Sample: 1}
	defer log.Close()
	r := httptest.NewRequest("GET", "/v1/"+strings.Repeat("x", 200), nil)
	v := &visit{status: 200, cache: fromCache}
	if n := testing.AllocsPerRun(1000, func() { log.add(r, time.Now(), time.Second, v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLogFile goes on in a new file when the old one has been renamed.
func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f, err := OpenLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "first\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "second\n")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "third\n")
	for file, want := range map[string]string{path + ".1": "first\nsecond\n", path: "third\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", file, got, want, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Reopen(); err == nil {
		t.Error("a folder has been opened")
	}
	if _, err := io.WriteString(f, "fourth\n"); err != nil {
		t.Errorf("the old file is gone: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenLogFile(path); err == nil {
		t.Error("a folder has been opened")
	}
}

// BenchmarkAccessLog is what a line costs in all: laid out, and written beside others.
func BenchmarkAccessLog(b *testing.B) {
	r := httptest.NewRequest("GET", "/v1/John%20Doe.png?size=128", nil)
	now, v := time.Now(), &visit{status: 200, cache: fromCache}
	log := &AccessLog{To: io.Discard}
	log.Close() // the benchmark is the writer
	spare := make([]byte, 0, log.Bytes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		log.add(r, now, time.Microsecond, v)
		if i%256 == 255 {
			spare = log.flush(spare)
		}
	}
	if n := log.Stats().Dropped; n != 0 {
		b.Fatalf("%d dropped", n)
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
