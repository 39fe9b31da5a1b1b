package torture

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// The servers here have faults on purpose, which the scenarios must find.

// serveEach serves every connection with a goroutine of its own until the test ends.
func serveEach(t *testing.T, each func(net.Conn)) (address string) {
	t.Helper()
	ln := listen(t)
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var live sync.WaitGroup
	serve(t, func() error {
		for {
			c, err := ln.Accept()
			if err != nil {
				return err
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			live.Go(func() {
				each(c)
				c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	}, func() error {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		live.Wait()
		return nil
	})
	return ln.Addr().String()
}

// naive serves HTTP with the faults that most who write it themselves begin with: a head may have
// any length and take any time, chunks are not known, and nothing is checked.
type naive struct {
	decodesAny string        // it decodes chunks if a field contains this
	silent     string        // it never answers heads that contain this
	between    time.Duration // how long it waits for a byte; 0: for ever
	most       int           // answers on a connection, and then it discards what comes; 0: no limit
}

// renewed is a connection whose time-out begins anew with every byte.
type renewed struct {
	net.Conn
	between time.Duration
}

func (r renewed) Read(p []byte) (int, error) {
	if r.between > 0 {
		r.SetReadDeadline(time.Now().Add(r.between))
	}
	return r.Conn.Read(p)
}

func (n naive) serve(c net.Conn) {
	in := bufio.NewReader(renewed{c, n.between})
	for answered := 1; ; answered++ {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
		}
		text := strings.ToLower(head.String())
		if n.silent != "" && strings.Contains(text, n.silent) {
			io.Copy(io.Discard, in)
			return
		}
		if _, value, found := strings.Cut(text, "content-length:"); found {
			value, _, _ = strings.Cut(value, "\r\n")
			length, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if n.decodesAny != "" && strings.Contains(text, n.decodesAny) {
				length = int64(len("0\r\n\r\n")) // as all bodies in these tests are
			}
			io.CopyN(io.Discard, in, length)
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(head.String(), "GET "), " ")
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
		if strings.Contains(text, "connection: close") {
			return
		}
		if answered == n.most {
			io.Copy(io.Discard, in)
		}
	}
}

// hoards serves HTTP and holds answers without end, if nobody reads them.
func hoards(c net.Conn) {
	owed := make(chan struct{}, 1<<22)
	var writing sync.WaitGroup
	writing.Go(func() {
		out := bufio.NewWriterSize(c, 64<<10)
		for range owed {
			io.WriteString(out, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nheld")
			if len(owed) == 0 {
				out.Flush()
			}
		}
	})
	for in := bufio.NewScanner(c); in.Scan(); {
		if in.Text() == "" {
			owed <- struct{}{}
		}
	}
	close(owed)
	writing.Wait()
}

// naiveSocket serves WebSocket and checks nothing: it accepts unmasked frames, any opcode and
// messages of any length.
func naiveSocket(c net.Conn) {
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		acceptKey(r.Header.Get("Sec-WebSocket-Key")))
	var message []byte
	for {
		var head [2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		length := uint64(head[1] & 0x7F)
		if width := map[uint64]int{126: 2, 127: 8}[length]; width > 0 {
			var wide [8]byte
			if _, err := io.ReadFull(in, wide[8-width:]); err != nil {
				return
			}
			length = binary.BigEndian.Uint64(wide[:])
		}
		var key [4]byte
		if head[1]&0x80 != 0 {
			io.ReadFull(in, key[:])
		}
		payload, err := io.ReadAll(io.LimitReader(in, int64(min(length, 1<<62))))
		if err != nil || uint64(len(payload)) < length {
			return
		}
		for i := range payload {
			payload[i] ^= key[i%4]
		}
		switch op := head[0] & 0xF; {
		case op == closeOp:
			return
		case op == pingOp:
			c.Write(append([]byte{finBit | pongOp, byte(len(payload))}, payload...))
		case op <= binaryOp:
			if message = append(message, payload...); head[0]&finBit != 0 && len(message) < 126 {
				c.Write(append([]byte{finBit | binaryOp, byte(len(message))}, message...))
				message = nil
			}
		}
	}
}

func TestPlantedWeb(t *testing.T) {
	t.Parallel()
	const byTimeOut = 3 * time.Second
	var turn sync.Mutex
	late := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush() // the head alone is not an event
		turn.Lock()
		<-time.After(75 * time.Millisecond) // what each start costs
		turn.Unlock()
		events(w, r)
	}
	raw := func(n naive) func(*testing.T) string {
		return func(t *testing.T) string { return "http://" + serveEach(t, n.serve) + "/page" }
	}
	socket := func(t *testing.T) string { return "ws://" + serveEach(t, naiveSocket) + "/" }
	patient := func(h http.HandlerFunc) func(*testing.T) string {
		return func(t *testing.T) string { return serveNetHTTP(t, &http.Server{Handler: h}) + "/page" }
	}
	for _, c := range []struct {
		fault    string
		start    func(*testing.T) string
		scenario string
		want     Verdict
		words    string // of the finding or its notes
	}{
		{"no head time-out", patient(web), "slow-heads", NotFoundOut, "are still open after 3s: no limit"},
		{"a time-out between bytes alone", raw(naive{between: 5 * byTimeOut / 6}), "slow-heads", NotFoundOut, "8 of 8 heads that trickle are still open after 3s"},
		{"unbounded buffer for a head", raw(naive{}), "endless-heads", NotFoundOut, "took 4.00 MiB without an answer of fields in a head, and of one value"},
		{"event streams that start late", patient(late), "event-streams", Fell, "streams that start at once have their first event after up to"},
		{"answers are held without bound", func(t *testing.T) string { return "http://" + serveEach(t, hoards) + "/page" }, "never-reads", Fell, "and held more than 32.0 MiB of answers"},
		{"what comes after some requests is discarded", raw(naive{most: 100}), "never-reads", Survived, "takes all of 64.0 MiB"},
		{"codings are ignored", raw(naive{}), "request-smuggling", Fell, "a length, then chunked (RFC 9112 §6.1): gives 2 answers: it believed a length that the coding overrides"},
		{"any coding is decoded", raw(naive{decodesAny: "chunked"}), "request-smuggling", Fell, "xchunked (RFC 9112 §6.1): gives 3 answers where at most 2 are right, one of them to the hidden request, whose path it names"},
		{"no answer to a malformed head", raw(naive{silent: "x-a :"}), "malformed-requests", Fell, "a space before the colon (RFC 9112 §5.1): neither answers nor closes"},
		{"fragments buffered without bound", socket, "endless-messages", NotFoundOut, "took 4.00 MiB without an answer of a message in fragments of 4 KiB"},
		{"no time-out for messages", socket, "slow-messages", NotFoundOut, "messages that trickle are still open"},
		{"handshakes are not checked", socket, "bad-handshakes", Survived, "the version 12 (RFC 6455 §4.2.1): accepts the handshake"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			at := c.start(t)
			target := codec.Target(codec.HTTP{URL: at})
			if strings.HasPrefix(at, "ws") {
				target = codec.WebSocket{URL: at}
			}
			a := arena(t, target, Limits{Few: 8, Conns: 60, Bytes: 64 << 20, Within: time.Minute, Wait: byTimeOut, Answer: 2 * time.Second})
			f := attackWith(t, c.scenario, a)
			if f.Verdict != c.want {
				t.Errorf("%s instead of %s", f.Verdict, c.want)
			}
			if told := f.Words + "\n" + strings.Join(slices.Concat(a.notes, a.inputs), "\n"); !strings.Contains(told, c.words) {
				t.Errorf("nothing says %q", c.words)
			}
		})
	}
}
