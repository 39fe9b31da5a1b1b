package torture

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

// The environment of a test binary that is to be a server with a planted fault.
const (
	plantedFault = "TORTURE_PLANTED"
	plantedAt    = "TORTURE_ADDR"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(plantedAt); at != "" {
		servePlanted(at, os.Getenv(plantedFault))
		return
	}
	testrun.SideBySide(16)
	code := m.Run()
	// net/http rests for half a second before it closes a connection whose request it refused.
	if err := goleak.Find(goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The planted faults. A sound server has none of them.
const (
	sound             = ""
	noHeadTimeout     = "no-head-timeout"
	unboundedBuffer   = "unbounded-buffer"
	leaksMemory       = "leaks-memory"
	leaksDescriptors  = "leaks-descriptors"
	leaksResets       = "leaks-resets"   // a goroutine and 16 KiB of each connection that was reset
	leaksTimeouts     = "leaks-timeouts" // or timed out
	lockedWhileWrites = "locked-while-it-writes"
	panicsOnReset     = "panics-on-reset"
	stallsAtEnd       = "stalls-at-sigterm"
	losesOnHalfClose  = "loses-on-half-close"
	losesUnsent       = "loses-what-is-unsent-on-half-close"
	crashesOnLength   = "crashes-on-length-3"
	spinsOnReset      = "spins-after-a-reset"
	wrongAfterReset   = "wrong-answers-after-a-reset"
	sharesBuffer      = "shares-a-buffer"
	webServer         = "http"         // a sound server of net/http
	lateStreams       = "late-streams" // HTTP: event streams that start late
	keepsTargets      = "keeps-targets"
	quadraticHeads    = "quadratic-heads"
	cutsAtEnd         = "cuts-at-sigterm"
	hundredSlots      = "100-slots" // and further clients wait for one
	endsWithoutFiles  = "ends-accepting-without-descriptors"
	bodyAsRequest     = "takes-the-body-of-a-GET-for-a-request"
	firstLength       = "takes-the-first-of-two-lengths"
	lineFeeds         = "takes-LF-for-the-end-of-a-chunk-size"
	noBodyLimit       = "no-body-limit"
	unboundedHead     = "unbounded-head"
	noMask            = "no-mask"       // is asked of a client of WebSocket
	withoutTurns      = "without-turns" // each newcomer delays everybody
	secondVersion     = "h2"            // sound, and speaks HTTP/2, too
	keepsResets       = "h2-keeps-resets"
	panicsOnWindow    = "h2-panics-on-windows"
	largeLists        = "h2-large-lists"
	slowSettings      = "h2-slow-settings"
	slowPings         = "h2-slow-pings"
	panicsOnTable     = "h2-panics-on-table-sizes"
	waitsForBodies    = "h2-waits-for-bodies"
)

// webFaults are those of serveWeb, with the path of its target.
var webFaults = map[string]string{webServer: "", bodyAsRequest: "", firstLength: "", lineFeeds: "", noBodyLimit: "", unboundedHead: "", lateStreams: "events", keepsTargets: "", quadraticHeads: "", cutsAtEnd: "",
	secondVersion: "", keepsResets: "", panicsOnWindow: "", largeLists: "", slowSettings: "", slowPings: "", panicsOnTable: "", waitsForBodies: ""}

// The limits of the planted server.
const (
	headLimit  = 5 * time.Second / 2 // a busy machine needs more than a second for a request in pieces
	idleLimit  = 2 * time.Second
	writeLimit = time.Second
	webLimit   = 4 * time.Second
	mostLength = 1 << 20
	stallTime  = 5 * time.Second
)

// planted echoes messages with a length of four bytes, or speaks HTTP.
type planted struct {
	fault    string
	mu       sync.Mutex
	spin     sync.Once
	wrong    atomic.Bool
	leaked   [][]byte
	buffer   []byte
	kept     []net.Conn // so that no finalizer closes them
	conns    map[net.Conn]bool
	slots    chan struct{}
	ending   bool
	handlers sync.WaitGroup
}

func servePlanted(at, fault string) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		panic(err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if _, web := webFaults[fault]; web && fault != unboundedHead {
		serveWeb(listener, fault, terminated)
		return
	}
	p := &planted{fault: fault, conns: map[net.Conn]bool{}, slots: make(chan struct{}, 1<<16)}
	if fault == hundredSlots {
		p.slots = make(chan struct{}, 100)
	}
	go p.accept(listener)
	<-terminated
	if fault == stallsAtEnd {
		p.mu.Lock()
		<-time.After(stallTime)
		p.mu.Unlock()
	}
	listener.Close()
	p.mu.Lock()
	p.ending = true
	for nc := range p.conns {
		nc.SetReadDeadline(time.Now())
	}
	p.mu.Unlock()
	p.handlers.Wait()
}

func (p *planted) accept(listener net.Listener) {
	for {
		p.slots <- struct{}{}
		nc, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) || err != nil && p.fault == endsWithoutFiles {
			return
		}
		if err != nil {
			<-time.After(10 * time.Millisecond) // no descriptors
			<-p.slots
			continue
		}
		p.mu.Lock()
		p.conns[nc] = true
		p.mu.Unlock()
		p.handlers.Go(func() {
			switch p.fault {
			case unboundedHead:
				naive{}.serve(nc)
				nc.Close()
			case noMask:
				naiveSocket(nc)
				nc.Close()
			default:
				p.serve(nc)
			}
			<-p.slots
		})
	}
}

// serve reads messages; another goroutine answers them.
func (p *planted) serve(nc net.Conn) {
	if p.fault == withoutTurns {
		p.mu.Lock()
		<-time.After(10 * time.Millisecond)
		p.mu.Unlock()
	}
	answers := newBacklog(64)
	if p.fault == unboundedBuffer || p.fault == losesUnsent {
		answers.most = 1 << 30
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		p.answer(nc, answers)
	}()
	err := p.read(nc, answers)
	answers.end()
	switch {
	case p.fault == wrongAfterReset && errors.Is(err, syscall.ECONNRESET):
		p.wrong.Store(true)
	case p.fault == panicsOnReset && errors.Is(err, syscall.ECONNRESET):
		panic("reset")
	case p.fault == losesOnHalfClose && errors.Is(err, io.EOF):
		nc.Close()
	case p.fault == losesUnsent && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)): // the last request may be cut
		if answers.left() > 60_000 { // more than the kernel takes
			nc.Close()
		}
	case p.fault == spinsOnReset && errors.Is(err, syscall.ECONNRESET):
		p.spin.Do(func() {
			for !p.wrong.Load() { // it never is
			}
		})
	}
	<-answered
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, nc)
	switch {
	case p.fault == leaksMemory,
		p.fault == leaksResets && errors.Is(err, syscall.ECONNRESET),
		p.fault == leaksTimeouts && errors.Is(err, os.ErrDeadlineExceeded):
		p.leaked = append(p.leaked, slices.Repeat([]byte{1}, 16<<10))
	case p.fault == leaksDescriptors:
		p.kept = append(p.kept, nc)
		return
	}
	nc.Close()
}

func (p *planted) read(nc net.Conn, answers *backlog) error {
	in := bufio.NewReader(nc)
	for {
		p.mu.Lock()
		ending := p.ending
		if !ending && p.fault != hundredSlots { // on a busy machine silent ones would give theirs back before newcomers give up
			nc.SetReadDeadline(time.Now().Add(idleLimit))
		}
		p.mu.Unlock()
		if ending {
			return nil
		}
		if _, err := in.Peek(1); err != nil {
			return err
		}
		if p.fault != noHeadTimeout {
			nc.SetReadDeadline(time.Now().Add(headLimit))
		} else {
			nc.SetReadDeadline(time.Time{})
		}
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head[:])
		if p.fault == crashesOnLength && length == 3 {
			panic(head[length:][:4][5])
		}
		if length > mostLength {
			return errors.New("too long")
		}
		message := make([]byte, 4+length)
		copy(message, head[:])
		if _, err := io.ReadFull(in, message[4:]); err != nil {
			return err
		}
		if p.fault == losesOnHalfClose {
			<-time.After(100 * time.Microsecond) // answers lag behind
		}
		if p.wrong.Load() && length > 0 {
			message[4]++
		}
		answers.push(message)
	}
}

func (p *planted) answer(nc net.Conn, answers *backlog) {
	for {
		message := answers.next()
		if message == nil {
			return
		}
		if p.fault == losesOnHalfClose {
			<-time.After(200 * time.Microsecond)
		}
		if p.fault == lockedWhileWrites || p.fault == withoutTurns {
			p.mu.Lock()
		}
		if p.fault == sharesBuffer && answers.left() > 4 { // of all connections, for the next answer
			p.mu.Lock()
			p.buffer = append(p.buffer[:0], message...)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
			message = slices.Clone(p.buffer)
			p.mu.Unlock()
		}
		if p.fault == unboundedBuffer || p.fault == losesUnsent || p.fault == lockedWhileWrites {
			nc.SetWriteDeadline(time.Now().Add(20 * time.Second))
		} else {
			nc.SetWriteDeadline(time.Now().Add(writeLimit))
		}
		_, err := nc.Write(message)
		if p.fault == lockedWhileWrites || p.fault == withoutTurns {
			p.mu.Unlock()
		}
		if err != nil {
			nc.Close()
			answers.end()
			return
		}
	}
}

// backlog is what waits to be written on a connection.
type backlog struct {
	mu    sync.Mutex
	moved sync.Cond
	all   [][]byte
	most  int
	ended bool
}

func newBacklog(most int) *backlog {
	b := &backlog{most: most}
	b.moved.L = &b.mu
	return b
}

func (b *backlog) push(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.all) >= b.most && !b.ended {
		b.moved.Wait()
	}
	b.all = append(b.all, message)
	b.moved.Broadcast()
}

func (b *backlog) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// next returns nil when there is nothing left and nothing comes.
func (b *backlog) next() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.all) == 0 && !b.ended {
		b.moved.Wait()
	}
	if len(b.all) == 0 {
		return nil
	}
	first := b.all[0]
	b.all = b.all[1:]
	b.moved.Broadcast()
	return first
}

func (b *backlog) end() {
	b.mu.Lock()
	b.ended = true
	b.moved.Broadcast()
	b.mu.Unlock()
}

// serveWeb serves a page, and a stream of events that starts at once or late.
func serveWeb(listener net.Listener, fault string, terminated <-chan os.Signal) {
	var streams sync.Mutex
	mux := http.NewServeMux()
	ending := make(chan struct{})
	var mu sync.Mutex
	kept := map[string][]byte{}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch fault {
		case keepsTargets:
			mu.Lock()
			if kept[r.RequestURI] == nil {
				kept[r.RequestURI] = slices.Repeat([]byte{1}, 12<<10)
			}
			mu.Unlock()
		case quadraticHeads: // "which of them are the same?"
			names := slices.Collect(maps.Keys(r.Header))
			for i, a := range names {
				if slices.Contains(names[:i], a) {
					return
				}
			}
		}
		if strings.HasPrefix(fault, secondVersion) || fault == noBodyLimit {
			io.Copy(io.Discard, r.Body)
		}
		io.WriteString(w, "hello\n")
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if fault == lateStreams { // one after the other
			streams.Lock()
			<-time.After(20 * time.Millisecond)
			streams.Unlock()
		}
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-ending:
		}
	})
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols), ReadHeaderTimeout: webLimit, ReadTimeout: webLimit, WriteTimeout: webLimit, IdleTimeout: webLimit}
	server.Protocols.SetHTTP1(true)
	if server.Protocols.SetUnencryptedHTTP2(strings.HasPrefix(fault, secondVersion)); server.Protocols.UnencryptedHTTP2() && fault != largeLists {
		server.MaxHeaderBytes = 16 << 10
	}
	if fault == waitsForBodies || fault == largeLists || fault == noBodyLimit { // no time limits
		server.ReadTimeout, server.WriteTimeout = 0, 0
	}
	listener = misread{spies{listener, &spy{fault: fault}}, misreadings()[fault]}
	server.RegisterOnShutdown(func() { close(ending) })
	go server.Serve(listener)
	<-terminated
	if fault == cutsAtEnd {
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stallTime)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

// misreadings say what a server takes for what, where it reads the beginning of a connection.
func misreadings() map[string]misreading {
	return map[string]misreading{
		bodyAsRequest: {regexp.MustCompile(`(GET [^\r]*\r\nHost: [^\r]*\r\n)Content-Length: \d+\r\n`), "$1"},
		firstLength:   {regexp.MustCompile(`(Content-Length: \d+\r\n)Content-Length: \d+\r\n`), "$1"},
		lineFeeds:     {regexp.MustCompile(`(\r\n\r\n[0-9a-f]+)\n`), "$1\r\n"},
	}
}

type misreading struct {
	what *regexp.Regexp // nil: nothing
	as   string
}

// misread is a listener of connections that are misread.
type misread struct {
	net.Listener
	misreading
}

type misreader struct {
	net.Conn
	misreading
}

func (m misread) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if m.what != nil && err == nil {
		c = misreader{c, m.misreading}
	}
	return c, err
}

func (m misreader) Read(p []byte) (int, error) {
	const longer = 1 // what is misread may become
	if len(p) <= longer {
		return m.Conn.Read(p)
	}
	n, err := m.Conn.Read(p[:len(p)-longer])
	return copy(p, m.what.ReplaceAll(p[:n], []byte(m.as))), err
}
