package httpdiff

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// server is net/http or http1 on an engine.
type server struct {
	addr     string
	visits   sync.Map // the client's address → *visit
	shutdown func(context.Context) error
	close    func()
	ours     *http1.Server // nil: net/http
}

// start starts a server with the settings that s asks for: http1 on e, with changed handlers if
// twist is not nil, or net/http if e is nil.
func start(e *engine.Engine, s *stream, twist func(http.Handler) http.Handler) *server {
	sv := &server{}
	std := &http.Server{Handler: sv, ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: maxHead, ReadHeaderTimeout: s.ReadHeaderTimeout, ReadTimeout: s.ReadTimeout}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	sv.addr = ln.Addr().String()
	var serving sync.WaitGroup
	serve, end := std.Serve, std.Close
	sv.shutdown = std.Shutdown
	if e != nil {
		sv.ours = &http1.Server{Std: std, Engine: *e}
		serve, end, sv.shutdown = sv.ours.Serve, sv.ours.Close, sv.ours.Shutdown
		if twist != nil {
			std.Handler = twist(sv)
		}
	}
	serving.Go(func() { serve(ln) })
	sv.close = func() {
		end()
		serving.Wait()
	}
	return sv
}

const (
	maxHead  = 22_000  // not close to what draw makes of its fields
	moreHead = 4 << 10 // net/http reads that much more
)

// visit is what the handlers of one connection see.
type visit struct {
	mu      sync.Mutex
	ran     []string
	running int
}

// ServeHTTP records the request and calls its handler.
func (sv *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	known, _ := sv.visits.LoadOrStore(r.RemoteAddr, &visit{})
	v := known.(*visit)
	v.mu.Lock()
	at := len(v.ran)
	v.ran = append(v.ran, "")
	v.running++
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.running--
	}()
	serve(&call{w, r, func(format string, args ...any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.ran[at] += address.ReplaceAllString(fmt.Sprintf(format+"; ", args...), "address")
	}})
}

// address is one that errors name.
var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// seen waits until no handler runs, and returns what they noted.
func (v *visit) seen() []string {
	for ; ; <-time.After(time.Millisecond) {
		v.mu.Lock()
		ran, running := slices.Clone(v.ran), v.running
		v.mu.Unlock()
		if running == 0 {
			return ran
		}
	}
}

const (
	patience = 8 * time.Second        // a server that takes longer has stopped
	answerIn = 150 * time.Millisecond // a client that waits for an answer does so for that long, then sends the next request
	quietFor = 400 * time.Millisecond // a client to which nothing comes for that long half-closes
	tick     = 50 * time.Millisecond
)

// outcome is the result of a stream.
type outcome struct {
	Ran     []string // what each handler saw
	Answers []string // complete responses
	Rest    string   // what came after them
	End     string
	Down    string // how a Shutdown ended
}

// client plays a stream.
type client struct {
	*stream
	nc         *net.TCPConn
	sv         *server
	down       chan error  // the result of Shutdown
	sent, over atomic.Bool // everything is sent; the connection has ended
	broken     atomic.Bool // a write has failed: the kernel reports a reset once, to reads or to writes
	mu         sync.Mutex
	received   []byte
}

// play sends s to the server.
func (sv *server) play(s *stream) outcome {
	nc, err := net.Dial("tcp", sv.addr)
	if err != nil {
		return outcome{End: err.Error()}
	}
	v, key := &visit{}, nc.LocalAddr().String()
	sv.visits.Store(key, v)
	defer sv.visits.Delete(key)
	c := &client{stream: s, nc: nc.(*net.TCPConn), sv: sv}
	var sending sync.WaitGroup
	sending.Go(c.send)
	o := outcome{End: c.receive()}
	c.nc.SetLinger(0) // a port in TIME_WAIT could not be used again
	c.nc.Close()
	sending.Wait()
	if c.down != nil {
		o.Down = fmt.Sprintf("Shutdown returned %v", <-c.down)
	}
	o.Ran = v.seen()
	o.Answers, o.Rest = answers(string(c.received), strings.HasSuffix(o.End, closed))
	return o
}

// send sends everything, with cuts and pauses.
func (c *client) send() {
	defer c.sent.Store(true)
	all := c.bytes()
	ends := c.ends()
	stops := slices.Concat([]int{0, len(all)}, c.Cuts)
	for _, p := range c.Pauses {
		stops = append(stops, p.At)
	}
	if c.Waits {
		stops = append(stops, ends...)
	}
	slices.Sort(stops)
	at := 0
	for _, stop := range slices.Compact(stops) {
		stop = min(stop, len(all))
		if at < stop {
			if _, err := io.WriteString(c.nc, all[at:stop]); err != nil {
				c.broken.Store(true)
				return
			}
			at = stop
		}
		for _, p := range c.Pauses {
			if p.At == stop {
				c.pause(p)
			}
		}
		if i := slices.Index(ends, stop); c.Waits && i >= 0 && i < len(ends)-1 {
			c.await(i + 1)
		} else if c.Pace > 0 && stop < len(all) {
			<-time.After(c.Pace)
		}
		if c.over.Load() {
			return
		}
	}
	if c.Half {
		c.nc.CloseWrite()
	}
}

func (c *client) pause(p pause) {
	if p.Shutdown {
		<-time.After(p.For / 2)
		p.For /= 2
		c.down = make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			c.down <- c.sv.shutdown(ctx)
		}()
	}
	<-time.After(p.For)
}

// await waits for n final answers, but not for ever: the server may see fewer requests.
func (c *client) await(n int) {
	for end := time.Now().Add(answerIn); time.Now().Before(end) && !c.over.Load(); <-time.After(time.Millisecond / 4) {
		c.mu.Lock()
		complete, _ := answers(string(c.received), false)
		c.mu.Unlock()
		complete = slices.DeleteFunc(complete, func(a string) bool { return strings.HasPrefix(a, "HTTP/1.1 1") })
		if len(complete) >= n {
			return
		}
	}
}

// How a connection ends.
const (
	closed = "closed"
	reset  = "reset"
	silent = "silent"      // nothing, even after a half-close
	open   = "open, then " // the server waited for more, and the client half-closed
)

// receive reads until the connection ends.
func (c *client) receive() (end string) {
	defer c.over.Store(true)
	quiet := quietFor
	if c.timed() {
		quiet += 2 * cmp.Or(c.ReadTimeout, c.ReadHeaderTimeout)
	}
	<-time.After(c.Late)
	buf := make([]byte, 32<<10)
	last, half := time.Now(), c.Half
	for {
		c.nc.SetReadDeadline(time.Now().Add(tick))
		n, err := c.nc.Read(buf)
		if n > 0 {
			last = time.Now()
			c.mu.Lock()
			c.received = append(c.received, buf[:n]...)
			c.mu.Unlock()
		}
		switch {
		case err == nil:
		case err == io.EOF && !c.broken.Load():
			return end + closed
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return end + reset
		case !c.sent.Load():
			last = time.Now()
		case half && time.Since(last) > patience:
			return end + silent
		case !half && time.Since(last) > quiet:
			end, half, last = open, true, time.Now()
			c.nc.CloseWrite()
		}
	}
}

// answers splits what a server sent into complete responses, without their dates and with their
// bodies decoded, and the rest. ended reports that the server has closed.
func answers(text string, ended bool) (complete []string, rest string) {
	for text = date.ReplaceAllString(text, ""); text != ""; {
		head, body, ok := strings.Cut(text, "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		if i := slices.Index(lines, "Connection: close"); i > 0 { // to where net/http has it since Go 1.27, after a body over its limit
			lines = append(slices.Delete(lines, i, i+1), "Connection: close")
			head = strings.Join(lines, "\r\n")
		}
		framing := slices.DeleteFunc(slices.Clone(lines[1:]), func(line string) bool {
			return !framingField.MatchString(line)
		})
		asked := &http.Request{}
		if m := seenMethod.FindStringSubmatch(head); m != nil {
			asked.Method = m[1]
		}
		text = strings.Join(append(lines[:1], framing...), "\r\n") + "\r\n\r\n" + body // without fields that clients refuse
		source := strings.NewReader(text)
		in := bufio.NewReader(source)
		resp, err := http.ReadResponse(in, asked)
		if err != nil || !ok {
			return complete, brief(head + body)
		}
		decoded, err := io.ReadAll(resp.Body)
		shown := fmt.Sprintf("%s\n%s %v", strings.ReplaceAll(head, "\r\n", "\n"), brief(string(decoded)), resp.Trailer)
		untilClosed := resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.Body != http.NoBody
		if err != nil || untilClosed && !ended {
			return complete, shown
		}
		complete = append(complete, shown)
		text = text[len(text)-source.Len()-in.Buffered():]
	}
	return complete, ""
}

var (
	date         = regexp.MustCompile(`Date: [^\r]+ GMT\r\n`)
	seenMethod   = regexp.MustCompile(seenField + `: (\S+)`)
	framingField = regexp.MustCompile(`^(Content-Length: \d+|Transfer-Encoding: chunked)$`)
)
