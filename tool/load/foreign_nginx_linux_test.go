package load

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// nginxServer is a server block for every test.
const nginxServer = `
	client_max_body_size 1k; keepalive_requests 40;
	location /post { return 200 "taken"; }
	location /busy { return 503; }
	location /moved { return 301 /page; }
	location /chunks { gzip on; gzip_types *; gzip_min_length 1; try_files /page =404; }
`

func nginxFiles() map[string]string {
	return map[string]string{"page": strings.Repeat("hone\n", 120), "long": strings.Repeat("hone ", 60_000), "empty": ""}
}

// nginx has logged as many requests as were counted, each with the status and the length counted
// here, and as many connections as were opened.
func TestForeignNginx(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		name, path string
		change     func(*codec.HTTP)
		status     string
		kind       string // of every request's error; empty: none
	}{
		{name: "length", path: "/page", change: func(h *codec.HTTP) { h.Length = 600 }, status: "200"},
		{name: "another length", path: "/page", change: func(h *codec.HTTP) { h.Length = 599 }, status: "200", kind: "wrong_content"},
		{name: "long", path: "/long", change: func(h *codec.HTTP) { h.Length = 300_000 }, status: "200"},
		{name: "empty", path: "/empty", change: func(h *codec.HTTP) { h.Length = -1 }, status: "200"},
		{name: "not empty", path: "/page", change: func(h *codec.HTTP) { h.Length = -1 }, status: "200", kind: "wrong_content"},
		{name: "chunks", path: "/chunks", change: func(h *codec.HTTP) { h.Header = http.Header{"Accept-Encoding": {"gzip"}} }, status: "200"},
		{name: "not found", path: "/nothing", status: "404", kind: "failed"},
		{name: "not found, as expected", path: "/nothing", change: func(h *codec.HTTP) { h.Statuses = []int{404} }, status: "404"},
		{name: "busy", path: "/busy", status: "503", kind: "failed"},
		{name: "moved", path: "/moved", status: "301"},
		{name: "head", path: "/page", change: func(h *codec.HTTP) { h.Method = http.MethodHead }, status: "200"},
		{name: "body", path: "/post", change: func(h *codec.HTTP) { h.Body = bytes.Repeat([]byte("x"), 1<<10) }, status: "200"},
		{name: "body too large", path: "/post", change: func(h *codec.HTTP) { h.Body = bytes.Repeat([]byte("x"), 1<<10+1) }, status: "413", kind: "failed"},
		{name: "body far too large", path: "/post", change: func(h *codec.HTTP) { h.Body = bytes.Repeat([]byte("x"), 200<<10) }, status: "413", kind: "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := startNginx(t, nginxServer, nginxFiles())
			h := codec.HTTP{URL: n.URL + c.path}
			if c.change != nil {
				c.change(&h)
			}
			const conns = 3
			r := measured(t, Plan{Target: h, Conns: conns, Requests: 300})
			lines := n.logged(t, r.Requests)
			opened := map[string]bool{}
			for _, line := range lines {
				fields := strings.Fields(line)
				if fields[2] != c.status {
					t.Fatalf("nginx has logged the status %s", fields[2])
				}
				opened[fields[0]] = true
			}
			t.Logf("%d requests, %d reconnects, errors %v", r.Requests, r.Reconnects, r.Errors)
			if r.Statuses[c.status] != r.Requests || len(r.Statuses) != 1 {
				t.Errorf("%d requests, statuses %v", r.Requests, r.Statuses)
			}
			if n := int64(len(opened)); n > conns+r.Reconnects || n < r.Reconnects { // the last ones may have had nothing to send
				t.Errorf("nginx has had %d connections, the generator opened %d and again %d", len(opened), conns, r.Reconnects)
			}
			want := map[string]int64{"total": 0}
			if c.kind != "" {
				want = map[string]int64{"total": r.Requests, c.kind: r.Requests}
			}
			if fmt.Sprint(r.Errors) != fmt.Sprint(want) {
				t.Errorf("errors %v, want %v", r.Errors, want)
			}
		})
	}
}

// nginx allows forty requests per connection here: the fortieth answer announces the close, and no
// request is lost or counted twice.
func TestForeignNginxEndsConnections(t *testing.T) {
	sideBySide(t)
	for _, p := range []Plan{
		{Conns: 2, Requests: 300},
		{Conns: 2, Depth: 8, Requests: 300},
		{Conns: 2, Rate: 1900, MaxLag: time.Second, For: time.Second / 4},
	} {
		n := startNginx(t, nginxServer, nginxFiles())
		p.Target, p.Warmup = codec.HTTP{URL: n.URL + "/page", Length: 600}, -1
		r := measured(t, p)
		t.Logf("%d requests, %d reconnects", r.Requests, r.Reconnects)
		if r.Errors["total"] != 0 || r.Statuses["200"] != r.Requests {
			t.Errorf("%d requests, statuses %v, errors %v", r.Requests, r.Statuses, r.Errors)
		}
		perConn := map[string]int{}
		for _, line := range n.logged(t, r.Requests) {
			perConn[strings.Fields(line)[0]]++
		}
		for id, requests := range perConn {
			if requests > 40 {
				t.Errorf("connection %s had %d requests", id, requests)
			}
		}
		// In a closed loop, the last connections may have had nothing to send. Requests in flight at the end of
		// the measured time may need one more.
		want := int64(p.Conns) + r.Reconnects
		if got := int64(len(perConn)); p.Rate > 0 && got < want || p.Rate == 0 && (got > want || got < r.Reconnects) {
			t.Errorf("nginx has had %d connections, the generator opened %d and again %d", got, p.Conns, r.Reconnects)
		}
	}
}

// When a server behind nginx breaks its promise, nginx can only break off the answer: the
// generator must not count that as an answer.
func TestForeignNginxBreaksOff(t *testing.T) {
	sideBySide(t)
	const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	for _, c := range []struct {
		name, answer string
		kind         Kind
	}{
		{"short of its length", ok + "Content-Length: 600\r\n\r\nhone", Closed},
		{"short of its chunks", ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nhone\r\n", Closed},
		{"in a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n40\r\nhone", Closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			liar := serveWith(t, "unix", speaks(func(nc net.Conn) { io.WriteString(nc, c.answer) }))
			n := startNginx(t, "location / { proxy_http_version 1.1; proxy_pass http://unix:"+liar.Address+":/; }", nil)
			const requests = 5
			r := measured(t, Plan{Target: codec.HTTP{URL: n.URL}, Requests: requests})
			if r.Requests != requests || r.Errors[c.kind.String()] != requests || r.Errors["total"] != requests || r.Latency.Max != nil {
				t.Errorf("%d requests, errors %v, the longest took %v; want each of them %v, without a time", r.Requests, r.Errors, r.Latency.Max, c.kind)
			}
			n.logged(t, requests)
		})
	}
}
