package http1

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
)

// probe is one case that comesBack plays through.
type probe struct {
	lent, sent string // what net/http is given first, and what the peer sends afterwards
	requests   uint64 // how many of these requests net/http must serve
	left       string // which bytes must be left over
}

// probes are the cases in which net/http could keep bytes, or have more than expected.
var probes = [...]probe{
	{lent: chunkedProbe, requests: 1},
	{lent: chunkedProbe + "GE", requests: 1, left: "GE"},
	{lent: chunkedProbe + "GET / HTTP/1.1\r\n", sent: "Host: a\r\n\r\n", requests: 2},
	{lent: chunkedProbe + "GET / ", sent: "HTTP/1.1\r\nHost: a\r\n\r\nG", requests: 2, left: "G"},
}

const chunkedProbe = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"

// comesBack reports whether this net/http asks for more between two requests as loans
// expect. It costs about 200 µs, once per server.
func comesBack() bool {
	le := &lender{returns: true, limits: engine.Limits{}.OrDefaults(), bodyTime: engine.Limits{}.OrDefaults().FrameTime}
	le.std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(loanKey{}).(*loan).handled(r)
		io.Copy(io.Discard, r.Body)
	})
	le.std.ErrorLog = log.New(io.Discard, "", 0)
	le.init()
	served := make(chan struct{})
	go func() {
		le.std.Serve(le)
		close(served)
	}()
	defer func() {
		le.Close()
		le.std.Close()
		<-served
	}()
	for _, p := range probes {
		if !p.holds(le) {
			return false
		}
	}
	return true
}

// holds plays one case through.
func (p *probe) holds(le *lender) bool {
	const patience = 2 * time.Second // for a net/http that never asks; the known one asks at once
	here, there := net.Pipe()
	defer here.Close()
	here.SetDeadline(time.Now().Add(patience))
	var both sync.WaitGroup
	both.Go(func() { io.WriteString(here, p.sent) })
	both.Go(func() { io.Copy(io.Discard, here) })
	before := le.requests.Load()
	var late atomic.Bool
	cut := time.AfterFunc(patience, func() {
		late.Store(true)
		there.Close()
	})
	left, back := le.lend(newLoan(there, []byte(p.lent)))
	cut.Stop()
	there.Close()
	both.Wait()
	return back && !late.Load() && string(left) == p.left && le.requests.Load()-before == p.requests
}
