package load

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// A server of HTTP at an address without a scheme is recognised long before the time-out. Whoever says nothing,
// in either protocol, is asked once, and waited for.
func TestHTTPIsRecognised(t *testing.T) {
	sideBySide(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	o := runPlan(t, t.Context(), Plan{Target: codec.Frames{Address: web.Listener.Addr().String()}, Conns: 2, Timeout: 30 * time.Second})
	if end := new(Error); !errors.As(o.err, &end) || end.Kind != codec.Garbage || end.Try != "write http:// before its address" || o.took > 15*time.Second {
		t.Errorf("%v after %v", o.err, o.took)
	}
}

func TestSilentServerIsAskedOnce(t *testing.T) {
	sideBySide(t)
	asked := make(chan string, 8)
	silent := serveWith(t, "tcp", func(nc net.Conn) {
		line, _ := bufio.NewReader(nc).ReadString('\n')
		asked <- line
		_, _ = io.Copy(io.Discard, nc) // until the client goes
	})
	for paced, rate := range map[bool]float64{false: 0, true: 50} {
		o := runPlan(t, t.Context(), Plan{Target: silent, Conns: 1, Rate: rate, Timeout: 2 * time.Second})
		if end := new(Error); !errors.As(o.err, &end) || end.Kind != codec.Silent || strings.Contains(end.Try, "is a buffer flushed?") == paced {
			t.Errorf("with a rate %v: %v", paced, o.err)
		}
	}
	pages := 0
	for len(asked) > 0 {
		if strings.HasPrefix(<-asked, "GET / HTTP/1.0") {
			pages++
		}
	}
	if pages != 2 {
		t.Errorf("two runs have asked for %d pages", pages)
	}
}
