package page_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/page"
)

// ask sends a request and reads no body.
func ask(t *testing.T, method, address string, head http.Header) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, head)
	request.Close = true
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// reader reads the event stream.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

func read(t *testing.T, address, after string) *reader {
	t.Helper()
	head := http.Header{}
	if after != "" {
		head.Set("Last-Event-ID", after)
	}
	response := ask(t, http.MethodGet, address+"events", head)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &reader{t, lines, func() { response.Body.Close() }}
}

// next reads one event.
func (r *reader) next() (kind, id, data string) {
	r.t.Helper()
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if kind != "" {
				return kind, id, data
			}
		}
	}
	r.t.Fatalf("the stream ended: %v", r.lines.Err())
	return "", "", ""
}

// until reads until that many events of this kind have arrived.
func (r *reader) until(kind string, times int) (id, data string) {
	r.t.Helper()
	for times > 0 {
		k, i, d := r.next()
		if k == kind {
			id, data, times = i, d, times-1
		}
	}
	return id, data
}

// TestReplay connects late, and again after a pause, and gets every event once.
func TestReplay(t *testing.T) {
	p := &page.Page{Title: "replay"}
	address := serve(t, p, &observe.Guard{})
	for n := range int64(5) {
		p.Load(second(n))
	}
	late := read(t, address, "")
	if kind, _, data := late.next(); kind != "hello" || !strings.Contains(data, `"title":"replay"`) {
		t.Errorf("the first event is %s %s", kind, data)
	}
	id, _ := late.until("point", 5)
	late.close()
	p.Load(second(5))
	again := read(t, address, id)
	kind, next, _ := again.next()
	if kind != "point" {
		t.Fatalf("who was away has %s first, want what was missed", kind)
	}
	again.until("state", 1)
	again.close()
	for _, stranger := range []string{"other-1", next + "0", "x", "-"} {
		r := read(t, address, stranger)
		if kind, _, _ := r.next(); kind != "hello" {
			t.Errorf("after %q the first event is %s, want everything again", stranger, kind)
		}
		r.close()
	}
	last := read(t, address, next)
	p.End(page.Verdict{Status: page.Interrupted, Reasons: []string{"interrupted"}})
	for {
		if _, data := last.until("state", 1); strings.Contains(data, `"status":"interrupted"`) {
			break
		}
	}
	p.Close()
	last.until("bye", 1)
}

// silent takes a place on a separate connection and reads only the status.
func silent(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.Trim(address, "htp:/"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
		t.Fatalf("a reader with a place to take is answered %q, %v", status, err)
	}
}

// TestReadersThatDoNotRead fills every place with a connection that is never read. What
// the server sends disappears into socket buffers, so no write ever fails.
func TestReadersThatDoNotRead(t *testing.T) {
	t.Parallel()
	p := &page.Page{Title: "readers"}
	address := serve(t, p, &observe.Guard{})
	p.Load(second(0))
	honest := read(t, address, "")
	id, _ := honest.until("point", 1)
	for range 31 {
		silent(t, address)
	}
	newcomer := func(after string) *reader {
		t.Helper()
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-look.C {
			response := ask(t, http.MethodGet, address+"events", http.Header{"Last-Event-Id": {after}})
			if response.StatusCode == http.StatusOK {
				return &reader{t, bufio.NewScanner(response.Body), func() { response.Body.Close() }}
			}
			response.Body.Close()
		}
		t.Fatal("31 connections that are never read keep their places")
		return nil
	}
	first := newcomer("")
	if kind, _, _ := first.next(); kind != "hello" {
		t.Errorf("a newcomer has %s first, want hello", kind)
	}
	for honest.lines.Scan() { // the first reader has lost its place
	}
	if err := honest.lines.Err(); err != nil {
		t.Errorf("its stream ends with %v, want a proper end", err)
	}
	p.Load(second(1))
	if kind, _, _ := newcomer(id).next(); kind != "point" {
		t.Errorf("who comes back has %s first, want what it missed", kind)
	}
}

// TestMayAsk tries requests that are not allowed.
func TestMayAsk(t *testing.T) {
	p := &page.Page{Title: "guarded"}
	address := serve(t, p, &observe.Guard{})
	origin := strings.TrimSuffix(address, "/")
	for _, c := range []struct {
		method, path string
		head         http.Header
		want         int
	}{
		{"POST", "events", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"POST", "events", http.Header{"Origin": {"null"}}, 403},
		{"POST", "events", http.Header{"Origin": {origin}}, 405},
		{"DELETE", "events", nil, 405},
		{"GET", "main.go", nil, 404},
		{"GET", "..%2fpage.go", nil, 404},
		{"GET", "events", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"GET", "?token=0123456789abcdef", nil, 400},
		{"GET", "", nil, 200},
		{"HEAD", "events", nil, 200},
	} {
		response := ask(t, c.method, address+c.path, c.head)
		if response.StatusCode != c.want {
			t.Errorf("%s %s with %v: %s, want %d", c.method, c.path, c.head, response.Status, c.want)
		}
		if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s %s has the policy %q", c.method, c.path, policy)
		}
	}
}

// TestReportBytes checks that the same runs give the same bytes, without any address in
// them.
func TestReportBytes(t *testing.T) {
	before, after := runOf(t, "before", 200, 2), runOf(t, "after", 150, 2)
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := page.Report(w, after, before, judgedOf(t, before, after)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two reports of the same runs differ")
	}
	for _, sign := range []string{"<!-- head -->", "src=\"main.js\"", "href=\"style.css\"", "\nimport ", "\nexport "} {
		if bytes.Contains(first.Bytes(), []byte(sign)) {
			t.Errorf("the report has %q in it", sign)
		}
	}
	bad := runOf(t, `</script><script>alert(1)</script>`, 200, 1)
	bad.Samples[0].Valid, bad.Samples[0].Reasons = false, []string{"<img src=x>"}
	var hostile bytes.Buffer
	if err := page.Report(&hostile, bad, nil, page.Judged{}); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(hostile.Bytes(), []byte("<script>alert")) || bytes.Contains(hostile.Bytes(), []byte("<img")) {
		t.Error("a run's name is HTML in its report")
	}
}

// TestSize keeps the whole page below 120 KB.
func TestSize(t *testing.T) {
	total := int64(0)
	err := fs.WalkDir(os.DirFS("web"), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		total += info.Size()
		return err
	})
	if err != nil || total > 120_000 {
		t.Errorf("the page has %d bytes (%v)", total, err)
	}
}
