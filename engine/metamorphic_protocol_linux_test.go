package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
)

// The server's side of a history: protocols that run the requests' programs, and what
// they record for the judge.

// frame is the head of a message to a client, without its content.
type frame struct {
	kind, tongue byte
	id           uint16 // the client
	seq          uint16 // the request, the number of a push, or the reason of a refusal
	part         uint16 // of the reply, or which promise of the request
	size         uint32
}

// The kinds of frames.
const (
	anAnswer byte = iota + 1
	aPart
	aLoan // written by user code that has the socket
	aRefusal
	aWord // of Conn.End
	aLate
	aPush
)

const (
	frameHead   = 12
	requestHead = 8 // client, request, length of what follows
)

// parts returns the frame's head and content.
func (f frame) parts() [][]byte {
	head := binary.BigEndian.AppendUint16([]byte{f.kind, f.tongue}, f.id)
	head = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(head, f.seq), f.part)
	return [][]byte{binary.BigEndian.AppendUint32(head, f.size), filling(f.id, int(f.size))}
}

// bytes returns the frame as one piece.
func (f frame) bytes() []byte { return bytes.Join(f.parts(), nil) }

// frameOf decodes a head.
func frameOf(b []byte) frame {
	two := binary.BigEndian.Uint16
	return frame{kind: b[0], tongue: b[1], id: two(b[2:]), seq: two(b[4:]), part: two(b[6:]), size: binary.BigEndian.Uint32(b[8:])}
}

// filling returns n bytes that only the client with that number may see.
func filling(id uint16, n int) []byte { return fillings()[id%(mostGuests+1)][:n] }

var fillings = sync.OnceValue(func() (all [mostGuests + 1][]byte) {
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte('A' + i)}, 160<<10)
	}
	return all
})

// encode returns a request as its client sends it.
func (a asked) encode(id uint16) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, id), a.seq)
	b = binary.BigEndian.AppendUint32(b, uint32(a.body))
	return append(b, filling(id, a.body+a.tail)...)
}

// post is a late reply or a push that the server has accepted.
type post struct {
	frame
	held bool // posted in a visit that holds it: it follows the reply to request after
	at   uint16
}

// debt is an owed reply.
type debt struct {
	reply Reply
	seq   uint16
	part  uint16
}

// tongue is a protocol of a history. All do the same, but mark their replies; those from
// endsWell on are Enders.
type tongue struct {
	l *playing
	n uint8
}

const (
	_ uint8 = iota
	endsWell
	endsByPanic
	endsByExit
	tongues = iota
)

// ender is a tongue that is an Ender.
type ender struct{ *tongue }

// newTongue returns protocol n.
func newTongue(l *playing, n uint8) Protocol {
	if t := (&tongue{l, n}); n < endsWell {
		return t
	} else {
		return &ender{t}
	}
}

// errOnPurpose is what handlers panic with.
var errOnPurpose = errors.New("the history says so")

func (p *ender) Ended(c Conn, state uint64, why Reason) {
	g := p.l.guestOf(c)
	g.mu.Lock()
	g.farewells++
	if g.farewells > 1 || g.closed > 0 || g.tongue != p.n || state != g.state {
		p.l.fail("Ended", "client %d: Ended for the %dth time, after %d calls of OnClose, of protocol %d with %d; it speaks %d with %d", g.id, g.farewells, g.closed, p.n, state, g.tongue, g.state)
	}
	g.mu.Unlock()
	switch p.n {
	case endsByPanic:
		panic(errOnPurpose)
	case endsByExit:
		runtime.Goexit()
	}
}

// GivesWay lets connections of one protocol make room for others.
func (p *tongue) GivesWay() bool { return p.n == endsWell }

func (p *tongue) Refuse(dst, unserved []byte, why Reason) []byte {
	f := frame{kind: aRefusal, tongue: p.n, seq: uint16(why)}
	if why == Panicked && len(unserved) >= requestHead {
		f.id = binary.BigEndian.Uint16(unserved)
	}
	return append(dst, f.parts()[0]...)
}

func (p *tongue) Advance(t *Turn, in []byte) (used, need int, err error) {
	for {
		rest := in[used:]
		if len(rest) < requestHead {
			return used, requestHead - len(rest), nil
		}
		whole := requestHead + int(binary.BigEndian.Uint32(rest[4:]))
		if len(rest) < whole {
			return used, whole - len(rest), nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		v := &service{Turn: t, l: p.l, seq: binary.BigEndian.Uint16(rest[2:]), in: in, used: used + whole}
		v.g = p.l.guests[min(int(binary.BigEndian.Uint16(rest)), mostGuests)].Load()
		if v.g == nil || p.l.guestOf(t.Conn()) != v.g || len(bytes.Trim(rest[requestHead:whole], string(filling(v.g.id, 1)))) > 0 {
			p.l.fail("input", "a request of another client, or foreign bytes: %.20q", rest)
			return used, 0, Malformed
		}
		v.g.consumed.Add(int64(whole))
		if done, err := v.serve(p.n); done || err != nil {
			return v.used, 0, err
		}
		in, used = v.in, v.used
	}
}

// service is a request being served.
type service struct {
	*Turn
	l        *playing
	g        *guest
	r        *request
	seq      uint16
	in       []byte // the visit's input
	used     int    // of it
	parts    uint16
	promised uint16
	held     bool
}

// serve runs the request's program, and reports whether Advance must return.
func (v *service) serve(tongue uint8) (done bool, err error) {
	g := v.g
	g.note(func() {
		g.running++
		if v.r = g.asked[v.seq].request; int(v.seq) != g.served || g.tongue != tongue || g.running > 1 {
			v.l.fail("requests", "client %d: request %d is served after %d others, by protocol %d instead of %d; %d are running", g.id, v.seq, g.served, tongue, g.tongue, g.running)
		}
		g.state++
	})
	v.State++
	defer g.note(func() { g.running--; g.served++ })
	for _, a := range v.r.acts {
		if done, err = v.play(a); done || err != nil {
			return done, err
		}
	}
	v.answer()
	return false, nil
}

// answer ends the reply, unless it was promised.
func (v *service) answer() {
	if v.promised == 0 {
		v.Out = append(v.Out, v.frame(anAnswer, v.r.size).bytes()...)
	}
}

func (v *service) frame(kind byte, size int) frame {
	return frame{kind: kind, tongue: v.g.tongue, id: v.g.id, seq: v.seq, size: uint32(size)}
}

// play does one step of a program, and reports whether it was the last.
func (v *service) play(a act) (done bool, err error) {
	g, c := v.g, v.Conn()
	switch a.do {
	case "hold":
		v.Hold()
		v.held = true
	case "push":
		g.push(a.n, v)
	case "part":
		f := v.frame(aPart, a.n)
		f.part = v.parts
		v.parts++
		v.Out = append(v.Out, f.bytes()...)
	case "flush":
		return false, v.Flush()
	case "later":
		g.promise(debt{v.Later(), v.seq, v.promised})
		v.promised++
	case "answer":
		g.settle(func(p debt) bool { return p.seq == v.seq }, a.n, v)
	case "leave":
		v.Leave()
	case "gate":
		if v.l.inline {
			v.Leave()
		}
		g.pass()
	case "watch":
		ctx := v.Context(context.Background())
		g.note(func() { g.contexts = append(g.contexts, ctx) })
	case "store":
		if was := c.Value(); was != nil && was != g {
			v.l.fail("Value", "client %d: Value returned another client's", g.id)
		}
		c.SetValue(g)
	case "more":
		return false, v.more()
	case "panic":
		v.l.failing.Store(true)
		g.revoke(v.seq)
		panic(errOnPurpose)
	case "exit":
		v.l.failing.Store(true)
		g.revoke(v.seq)
		runtime.Goexit()
	case "close":
		c.Close(ClosedHere)
	case "say":
		c.End(ClosedHere, v.frame(aWord, a.n).bytes())
	case "refuse":
		v.Out = append(v.Out, frame{kind: aRefusal, tongue: g.tongue, id: g.id, seq: uint16(Malformed)}.parts()[0]...)
		return true, Malformed
	case "become":
		v.answer()
		err = v.Become(v.l.tongues[a.n])
		g.note(func() { g.tongue, g.state = uint8(a.n), 0 })
		return true, err
	case "give":
		return true, v.give()
	default: // lend
		return true, v.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) { return v.borrowed(a, nc, unread) })
	}
	return false, nil
}

// more waits for the request's tail.
func (v *service) more() error {
	tail := v.r.tail
	in, err := v.More(v.used, max(0, tail-(len(v.in)-v.used)))
	if v.in, v.used = in, 0; err != nil {
		return err
	}
	if len(in) < tail || len(bytes.Trim(in[:tail], string(filling(v.g.id, 1)))) > 0 {
		v.l.fail("input", "client %d: More returned %d bytes instead of %d, or foreign ones", v.g.id, len(in), tail)
		return Malformed
	}
	v.used = tail
	v.g.consumed.Add(int64(tail))
	return nil
}

// borrowed is the code that gets the socket.
func (v *service) borrowed(a act, nc net.Conn, unread []byte) (left []byte, back bool) {
	g := v.g
	g.note(func() { g.running++ })
	defer g.note(func() { g.running-- })
	if a.n > 0 {
		g.pass()
	}
	if _, err := nc.Write(v.frame(aLoan, 0).parts()[0]); errors.Is(err, os.ErrDeadlineExceeded) && !v.l.forced.Load() {
		v.l.fail("loan", "client %d: a limit was enforced on a lent socket", g.id)
	}
	switch a.do {
	case "lend ahead":
		more := make([]byte, max(0, g.written.Load()-g.consumed.Load()-int64(len(unread))))
		if v.seq%2 == 1 { // over TLS, crypto/tls has read more than that
			more = more[:len(more)/2]
		}
		if n, err := io.ReadFull(nc, more); err != nil {
			more = more[:n]
			if errors.Is(err, os.ErrDeadlineExceeded) && !v.l.forced.Load() {
				v.l.fail("loan", "client %d: a limit was enforced on a lent socket", g.id)
			}
		}
		return append(unread, more...), true
	case "lend keep":
		return nil, false
	case "lend panic":
		panic(errOnPurpose)
	case "lend exit":
		v.l.failing.Store(true)
		runtime.Goexit()
	}
	return unread, true
}

// give takes the socket for good, and writes one frame.
func (v *service) give() error {
	nc, err := v.Socket()
	if err != nil {
		return err
	}
	nc.SetDeadline(v.l.deadline)
	v.l.users.Go(func() {
		defer nc.Close()
		nc.Write(v.frame(aLoan, 0).parts()[0])
		nc.(interface{ CloseWrite() error }).CloseWrite()
		io.Copy(io.Discard, nc)
	})
	return nil
}

// push pushes to the client; v is the visit that does, or nil.
func (g *guest) push(size int, v *service) (err error) {
	g.note(func() {
		f := frame{kind: aPush, id: g.id, seq: g.pushes, size: uint32(size)}
		g.pushes++
		err = g.post(f, v, g.conn.Push(f.parts()...))
	})
	return err
}

// settle sends the last owed reply that is meant, if there is one.
func (g *guest) settle(meant func(debt) bool, size int, v *service) (seq uint16, err error) {
	g.note(func() {
		for i := len(g.owed) - 1; i >= 0; i-- {
			if p := g.owed[i]; meant(p) {
				g.owed = append(g.owed[:i:i], g.owed[i+1:]...)
				f := frame{kind: aLate, id: g.id, seq: p.seq, part: p.part, size: uint32(size)}
				if seq = p.seq; size == 0 {
					err = p.reply.Send()
				} else {
					err = g.post(f, v, p.reply.Send(f.parts()...))
				}
				if again := p.reply.Send(f.parts()...); again == nil {
					g.l.fail("settled", "client %d: a reply was sent twice", g.id)
				}
				return
			}
		}
		err = errNothingOwed
	})
	return seq, err
}

var errNothingOwed = errors.New("no reply is owed")

// post records what was posted. mu held.
func (g *guest) post(f frame, v *service, err error) error {
	if err == nil {
		p := post{frame: f}
		if v != nil {
			p.held, p.at = v.held || g.l.srv.ordered, v.seq
		}
		g.posts = append(g.posts, p)
	} else if why := Reason(0); err != ErrClosed && !(errors.As(err, &why) && (why == SlowReader || why == OutputBudget)) {
		g.l.fail("settled", "client %d: posting %+v returned %v", g.id, f, err)
	}
	return err
}

func (g *guest) promise(p debt) { g.note(func() { g.owed = append(g.owed, p) }) }

// revoke forgets the promises of a handler that is about to fail: they can be sent no
// more, which is checked at the end.
func (g *guest) revoke(seq uint16) {
	g.note(func() {
		var kept []debt
		for _, p := range g.owed {
			if p.seq == seq {
				g.revoked = append(g.revoked, p.reply)
			} else {
				kept = append(kept, p)
			}
		}
		g.owed = kept
	})
}

// pass waits at a gate.
func (g *guest) pass() {
	g.note(func() { g.entered++ })
	<-g.permits
	g.note(func() { g.passed++ })
}

// opened is Server.OnOpen.
func (l *playing) opened(c Conn) {
	l.mu.Lock()
	g := l.opening
	l.opening = nil
	if g == nil {
		l.fail("callbacks", "OnOpen without a new connection")
		l.mu.Unlock()
		return
	}
	l.byConn[c] = g
	l.mu.Unlock()
	g.note(func() { g.conn, g.isOpen = c, true })
}

// ended is Server.OnClose.
func (l *playing) ended(c Conn, why Reason) {
	g := l.guestOf(c)
	if g == nil {
		l.fail("callbacks", "OnClose without OnOpen")
		return
	}
	g.note(func() {
		if g.closed++; g.closed > 1 || g.running > 0 {
			l.fail("callbacks", "client %d: OnClose for the %dth time, while %d handlers run", g.id, g.closed, g.running)
		}
		g.why = why
	})
}
