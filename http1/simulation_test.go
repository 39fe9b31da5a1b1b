package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/simulation"
)

// An HTTP server in simulated worlds: requests of the fast path, and such as are lent to net/http.

// browser is the script of a guest.
type browser struct {
	r      *rand.Rand
	next   int
	owed   []page
	rest   []byte
	ended  bool // nothing is answered after what is owed
	beyond bool // something was asked all the same
	told   bool // by an answer
}

// page is a response that is owed.
type page struct {
	id, status, size int
	last             bool // no other follows
}

func (b *browser) Ask() []byte {
	id, size := b.next, b.r.IntN(300)
	b.next++
	p := page{id: id, status: http.StatusOK, size: size}
	head := func(method, what string, fields ...string) []byte {
		return []byte(method + " /" + what + "?id=" + strconv.Itoa(id) + "&n=" + strconv.Itoa(p.size) + " HTTP/1.1\r\nHost: simulated\r\n" + strings.Join(append(fields, "\r\n"), "\r\n"))
	}
	var request []byte
	switch draw := b.r.IntN(100); {
	case draw < 45:
		request = head("GET", "echo")
	case draw < 55:
		p.size = b.r.IntN(60 << 10)
		request = head("GET", "echo")
	case draw < 65:
		request = head("GET", "stream")
	case draw < 75:
		request = append(head("POST", "body", "Content-Length: "+strconv.Itoa(size)), bytes.Repeat([]byte("x"), size)...)
	case draw < 85:
		p.size++
		request = append(head("POST", "body", "Transfer-Encoding: chunked"), fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", p.size, strings.Repeat("x", p.size))...)
	case draw < 92:
		request = head("GET", "slow")
	case draw < 95:
		p.last = true
		request = head("GET", "echo", "Connection: close")
	case draw < 97:
		p.last, p.status = true, http.StatusBadRequest
		request = []byte("GET /echo HTTP/1.1\r\nHost: simulated\r\nBad Field: x\r\n\r\n")
	default:
		p.last, p.status = true, 0 // it panics
		request = head("GET", "panic")
	}
	if b.beyond = b.beyond || b.ended; !b.ended && !b.told {
		b.owed, b.ended = append(b.owed, p), p.last
	}
	return request
}

func (b *browser) Hear(p []byte) error {
	b.rest = append(b.rest, p...)
	for bytes.Contains(b.rest, []byte("\r\n\r\n")) {
		in := bytes.NewReader(b.rest)
		buffered := bufio.NewReader(in)
		response, err := http.ReadResponse(buffered, nil)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(response.Body)
		}
		if err != nil {
			return nil // more will come, or the guest is not answered
		}
		b.rest = b.rest[len(b.rest)-in.Len()-buffered.Buffered():]
		if err := b.judge(response, body); err != nil {
			return err
		}
	}
	return nil
}

func (b *browser) judge(response *http.Response, body []byte) error {
	if b.told {
		return fmt.Errorf("an answer after the last: %v", response.Status)
	}
	b.told = response.Close
	if response.Close && (response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusRequestTimeout) {
		b.owed = nil // nothing after it is answered
		return nil
	}
	if len(b.owed) == 0 {
		return fmt.Errorf("an answer that nobody has asked for: %v", response.Status)
	}
	want := b.owed[0]
	b.owed = b.owed[1:]
	switch {
	case response.StatusCode != want.status:
		return fmt.Errorf("%v for request %d, want %d", response.Status, want.id, want.status)
	case want.status != http.StatusOK:
	case response.Header.Get("X-Id") != strconv.Itoa(want.id) || len(body) != want.size || strings.Trim(string(body), "x") != "":
		return fmt.Errorf("an answer of %d bytes for %q, want %d for %d", len(body), response.Header.Get("X-Id"), want.size, want.id)
	}
	if b.told {
		b.owed = nil
	}
	return nil
}

func (b *browser) Owed() int {
	switch n := len(b.owed); {
	case b.beyond: // what net/http leaves unread resets the connection, and answers may be lost
		return 0
	case n > 0 && b.owed[n-1].status != http.StatusOK:
		return n - 1
	default:
		return n
	}
}

func (b *browser) Told() bool { return b.told || b.beyond || len(b.owed) > b.Owed() }

func site(w *simulation.World) simulation.Scene {
	e := []engine.Engine{engine.Events(engine.Auto), engine.Events(engine.Offload)}[w.Rand.IntN(2)]
	var slots atomic.Int64
	s := &Server{
		Engine: e, Logger: slog.New(slog.DiscardHandler), Limits: engine.Limits{SpreadTime: time.Duration(w.Rand.IntN(2)) * 20 * time.Second},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.FormValue("n"))
			if r.Method != http.MethodGet && r.Method != http.MethodPost { // its first bytes are lost
				rw.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			rw.Header().Set("X-Id", r.FormValue("id"))
			switch r.URL.Path {
			case "/slow":
				simulation.Pause(100+int(slots.Add(1))%900, time.Duration(n)*time.Millisecond)
			case "/body":
				body, err := io.ReadAll(r.Body)
				if err != nil || len(body) != n {
					return
				}
				if r.ContentLength < 0 { // on loan: net/http may read the first byte of the next request meanwhile
					simulation.Pause(100+int(slots.Add(1))%900, time.Duration(n%30)*time.Millisecond)
				}
			case "/stream":
				rw.WriteHeader(http.StatusOK)
				io.WriteString(rw, strings.Repeat("x", n/2))
				http.NewResponseController(rw).Flush()
				n -= n / 2
			case "/panic":
				panic(http.ErrAbortHandler)
			}
			io.WriteString(rw, strings.Repeat("x", n))
		}),
	}
	s.init()
	limits := s.engine.Limits.OrDefaults()
	return simulation.Scene{
		Server: s, Stall: limits.StallTime, Idle: limits.IdleTime, Secure: engine.NewTLSListener, Abrupt: true, // as net/http
		Guest: func(r *rand.Rand) simulation.Script { return &browser{r: r} },
		Check: func() error {
			if st := s.Stats(); st.Open != 0 || st.Owed != 0 || st.Waiting != 0 || st.InputMemory != 0 || st.OpenLoans != 0 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		},
	}
}

// The same seed is the same history.
func TestSimulationIsTheSame(t *testing.T) { simulation.Same(t, site) }

func TestSimulation(t *testing.T) { simulation.Each(t, site) }

func TestSimulationOverTLS(t *testing.T) { simulation.EachOverTLS(t, site) }
