package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
)

// difficult is a web server that does what servers legally do, and worse: it closes
// idle connections after 300 ms, aborts one answer in 1,000 and leaves one in 2,000
// out. It can drain and come back at its address.
type difficult struct {
	served, good, aborted, hung atomic.Int64

	mu     sync.Mutex
	server *http.Server
	ended  chan struct{}
}

func (d *difficult) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch n := d.served.Add(1); {
	case n%2000 == 1000:
		d.hung.Add(1)
		<-r.Context().Done()
	case n%1000 == 500:
		d.aborted.Add(1)
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "hello")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		d.good.Add(1)
		io.WriteString(w, "hello")
	}
}

// listen serves at the address and returns the one it has.
func (d *difficult) listen(address string) (string, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	server, ended := &http.Server{Handler: d, IdleTimeout: 300 * time.Millisecond}, make(chan struct{})
	d.server, d.ended = server, ended
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // always ErrServerClosed
	}()
	return ln.Addr().String(), nil
}

// drain ends it in good order.
func (d *difficult) drain() error {
	d.mu.Lock()
	server, ended := d.server, d.ended
	d.mu.Unlock()
	err := server.Shutdown(context.Background())
	<-ended
	return err
}

// TestLoadSurvivesWhatServersMayDo holds the counts of a run over a difficult server
// against the server's own.
func TestLoadSurvivesWhatServersMayDo(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, allowed := range []bool{true, false}[:testrun.Sized(1, 2)] {
		d := &difficult{}
		address, err := d.listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		moved := make(chan error, 1)
		go func() {
			for since := time.Now(); d.served.Load() == 0 && time.Since(since) < patience; {
				<-time.After(10 * time.Millisecond) // a load that finds no server has nothing to survive
			}
			<-time.After(600 * time.Millisecond)
			err := d.drain()
			<-time.After(300 * time.Millisecond)
			_, again := d.listen(address)
			moved <- errors.Join(err, again)
		}()
		var out, said strings.Builder
		args := []string{"load", "http://" + address, "--json", "-c", "400", "--rate", "800", "-n", "2200", "--timeout", "2s"}
		if allowed {
			args = append(args, "--allow-errors")
		}
		code := command.Run(t.Context(), newRoot(), args, strings.NewReader(""), &out, &said)
		if err := errors.Join(<-moved, d.drain()); err != nil {
			t.Fatal(err)
		}
		var r load.Result
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, said.String())
		}
		t.Logf("exit code %d, served %d, errors %v, %d unsent, %d reconnects, %d retries, reasons %q", code, d.served.Load(), r.Errors, r.Unsent, r.Reconnects, r.Retries, r.InvalidReasons)
		checkDifficult(t, d, &r)
		want := exit.Invalid
		if allowed && r.Valid {
			want = exit.OK
		}
		if code != want || allowed && !busyOnly(r.InvalidReasons) || !allowed && !strings.Contains(strings.Join(r.InvalidReasons, " "), "requests failed") {
			t.Errorf("exit code %d, reasons %q", code, r.InvalidReasons)
		}
	}
}

// checkDifficult compares the counts of both sides. On a busy machine a request may be
// given up unsent because its connection waits for an answer that stays away, or be
// closed twice by a listener that drains before it has accepted the connection: the
// server sees neither. An answer may also come too late: it has a status, and its request
// counts as timed out.
func checkDifficult(t *testing.T, d *difficult, r *load.Result) {
	t.Helper()
	served, good, aborted, hung := d.served.Load(), d.good.Load(), d.aborted.Load(), d.hung.Load()
	refused := r.Errors["closed"] - aborted
	if r.Requests != 2200 || served != r.Requests-r.Unsent-refused || refused < 0 || r.Unsent+refused > 220 { // one in ten
		t.Errorf("%d requests, %d unsent, %d refused; the server has had %d", r.Requests, r.Unsent, refused, served)
	}
	late := r.Errors["timeout"] - hung - r.Unsent
	if r.Statuses["200"] != good || late < 0 || late > 220 || r.Errors["total"] != r.Errors["closed"]+r.Errors["timeout"] {
		t.Errorf("statuses %v, errors %v, %d unsent; the server answered %d, left %d out, aborted %d", r.Statuses, r.Errors, r.Unsent, good, hung, aborted)
	}
	if aborted < 2 || hung < 1 || r.Reconnects < 1000 || r.Outage == nil || *r.Outage < 200_000 {
		t.Errorf("%d aborted, %d left out, %d reconnects, outage %v", aborted, hung, r.Reconnects, r.Outage)
	}
}

// busyOnly reports whether only a busy machine makes a result invalid.
func busyOnly(reasons []string) bool {
	for _, reason := range reasons {
		if !strings.Contains(reason, "the generator") {
			return false
		}
	}
	return true
}
