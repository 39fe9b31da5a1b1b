package simulation

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
)

// Script is what one guest says and hears, in the language of a protocol.
type Script interface {
	// Ask returns a request.
	Ask() []byte
	// Hear judges what has arrived, and returns an error for what no server may say.
	Hear(p []byte) error
	// Owed returns how many requests are not answered. Requests behind one that ends the connection by
	// what they ask for do not count.
	Owed() int
	// Told reports whether the server has said, or was asked to say, that it ends the connection.
	Told() bool
}

// manner is how a guest behaves.
type manner int

const (
	honest   manner = iota // asks, reads what comes, and half-closes in the end
	halting                // the same, with pauses within a request
	deserter               // resets in the middle
	hangsOn                // stays until the server ends the connection
	gorged                 // asks and reads nothing, for longer than the server bears
	slow                   // reads little at a time, but goes on
	manners
)

// guest is a client.
type guest struct {
	w      *World
	scene  Scene
	id     int
	r      *rand.Rand
	manner manner
	reads  int // most bytes at a time

	nc     *fakenet.Conn
	conn   net.Conn // nc, or TLS on it
	number int      // of the connection, as the listener counts
	script Script

	mu       sync.Mutex
	heard    time.Time // when something was read last, or asked
	asked    time.Time // when the last request was sent as a whole
	sent     int       // requests sent as a whole
	over     bool      // the reader has seen the end
	endedBy  error     // of the connection, as the reader saw it
	halfDone bool      // this side is closed
	reset    bool      // by this guest
	failed   int       // requests that could not be sent as a whole
	bored    bool      // it read nothing for longer than the server bears
	endedAt  time.Time
}

func newGuest(w *World, s Scene, id int) *guest {
	r := rand.New(rand.NewPCG(w.seed, 100+uint64(id)))
	return &guest{w: w, scene: s, id: id, r: r, manner: manner(r.IntN(int(manners))), reads: 1 + r.IntN(64<<10), script: s.Guest(r)}
}

// pause waits, until an instant of this guest's writer.
func (g *guest) pause(d time.Duration) { Pause(firstGuest+2*g.id, d) }

// draws returns a time up to d, mostly much shorter.
func (g *guest) draws(d time.Duration) time.Duration {
	return time.Duration(float64(d) * g.r.Float64() * g.r.Float64() * g.r.Float64())
}

func (g *guest) run() {
	g.pause(g.draws(30 * time.Second))
	nc, err := g.w.listener.Dial()
	if err != nil {
		if since, _ := g.w.ending(); since.IsZero() {
			g.w.fail("guest %d cannot connect: %v", g.id, err)
		}
		return
	}
	g.nc, g.number = nc, nc.LocalAddr().(*net.TCPAddr).Port-2
	g.conn = &paced{nc, g, rand.New(rand.NewPCG(g.w.seed, 500+uint64(g.id)))}
	g.w.Note("guest %d (manner %d) is connection %d", g.id, g.manner, g.number)
	if g.w.client != nil {
		secured := tls.Client(g.conn, g.w.client)
		if err := secured.Handshake(); err != nil {
			g.w.Note("guest %d has no handshake: %v", g.id, err)
			g.endedBy = io.EOF
			nc.Close()
			g.judge()
			return
		}
		g.conn = secured
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.read()
	}()
	g.write()
	<-done
	nc.Close()
	g.judge()
}

// write asks, and then leaves as its manner is.
func (g *guest) write() {
	for range 1 + g.r.IntN(6) {
		g.pause(g.draws(g.scene.Idle / 2))
		for range 1 + g.r.IntN(1+g.r.IntN(8)) {
			if !g.ask() {
				return
			}
		}
		if g.manner == deserter && g.r.IntN(3) == 0 {
			g.pause(g.draws(time.Second))
			g.mu.Lock()
			g.reset = true
			g.mu.Unlock()
			g.w.Note("guest %d resets", g.id)
			g.nc.SetLinger(0)
			g.nc.Close()
			return
		}
	}
	if g.manner == deserter || g.manner == gorged || g.manner == hangsOn {
		return
	}
	// An honest one leaves when it is answered, or at once: then the answers still come.
	waited := g.r.IntN(2) == 0
	for i := 0; i < 60 && waited; i++ {
		g.mu.Lock()
		done := g.script.Owed() == 0 || g.over
		g.mu.Unlock()
		if done {
			break
		}
		g.pause(time.Second)
	}
	g.mu.Lock()
	g.halfDone = true
	if owed := g.script.Owed(); owed > 0 && waited && !g.over && !g.script.Told() && g.manner != slow {
		g.mu.Unlock()
		g.w.fail("guest %d has waited a minute for %d answers", g.id, owed)
		g.mu.Lock()
	}
	g.mu.Unlock()
	g.w.Note("guest %d half-closes", g.id)
	if secured, ok := g.conn.(*tls.Conn); ok {
		secured.CloseWrite()
	}
	g.nc.CloseWrite()
}

// ask sends a request, and reports whether that was possible.
func (g *guest) ask() bool {
	g.mu.Lock()
	p := g.script.Ask()
	g.mu.Unlock()
	n, first := len(p), p[:min(len(p), 30)]
	for len(p) > 0 {
		k := len(p)
		if g.manner == halting && k > 1 {
			k = 1 + g.r.IntN(k-1)
		}
		if _, err := g.conn.Write(p[:k]); err != nil {
			g.w.Note("guest %d cannot write: %v", g.id, err)
			g.mu.Lock()
			g.failed = 1
			g.mu.Unlock()
			return false
		}
		if p = p[k:]; len(p) > 0 {
			g.w.Note("guest %d has asked %d bytes of them", g.id, k)
			g.pause(g.draws(100 * time.Millisecond))
		}
	}
	g.mu.Lock()
	g.sent++
	g.asked = time.Now()
	g.mu.Unlock()
	g.w.Note("guest %d has asked %d bytes, %q", g.id, n, first)
	g.pause(g.draws(20 * time.Millisecond))
	return true
}

// paced is a connection that is read at instants of its guest's reader, a moment after there is something.
type paced struct {
	*fakenet.Conn
	g *guest
	r *rand.Rand
}

func (c *paced) Read(p []byte) (int, error) {
	c.Await()
	wait := time.Duration(c.r.IntN(2000)) * time.Microsecond
	if c.g.manner == slow {
		wait += 20 * time.Millisecond
	}
	Pause(firstGuest+2*c.g.id+1, wait)
	return c.Conn.Read(p)
}

// read reads until the end.
func (g *guest) read() {
	buf := make([]byte, g.reads)
	if g.manner == gorged {
		Pause(firstGuest+2*g.id+1, 2*g.scene.Stall+time.Minute)
		g.mu.Lock()
		g.bored = true
		g.mu.Unlock()
	}
	if g.manner == slow {
		buf = buf[:min(len(buf), 2<<10)]
	}
	for {
		n, err := g.conn.Read(buf)
		g.mu.Lock()
		if n > 0 {
			g.heard = time.Now()
			if wrong := g.script.Hear(buf[:n]); wrong != nil {
				g.mu.Unlock()
				g.w.fail("guest %d: %v", g.id, wrong)
				g.nc.Close()
				g.mu.Lock()
				err = wrong
			}
		}
		if err != nil {
			g.over, g.endedBy, g.endedAt = true, err, time.Now()
		}
		g.mu.Unlock()
		if n > 0 {
			g.w.Note("guest %d reads %d bytes", g.id, n)
		}
		if err != nil {
			g.w.Note("guest %d sees the end: %v", g.id, err)
			return
		}
	}
}

// judge says whether the server may have ended this connection as it did.
func (g *guest) judge() {
	if g.reset || g.bored || g.w.Failure() != "" {
		return
	}
	since, hurried := g.w.ending()
	clean := errors.Is(g.endedBy, io.EOF) || g.failed > 0
	owed, told := max(0, g.script.Owed()-g.failed), g.script.Told()
	idle := g.endedAt.Sub(g.asked) > g.scene.Idle*9/10 && g.endedAt.Sub(g.heard) > g.scene.Idle*9/10
	switch {
	case told && (clean || g.scene.Abrupt) && owed == 0, hurried:
	case g.halfDone && clean && owed == 0:
	case !since.IsZero() && clean && (owed == 0 || g.asked.After(since.Add(-time.Millisecond))):
	case !since.IsZero() && g.scene.Abrupt && errors.Is(g.endedBy, syscall.ECONNRESET) && owed > 1: // which destroys the last answer: as net/http
	case idle && clean && owed == 0:
	case g.w.excuses(g.number):
	default:
		g.w.fail("guest %d (manner %d, connection %d) ended by %v, told %v, with %d answers owed, half-closed %v", g.id, g.manner, g.number, g.endedBy, told, owed, g.halfDone)
	}
}
