package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
)

// The requests of FuzzLoop's clients, and the protocol that serves them.

// A message is 4 bytes: an operation, a size, and the request's number; doMore is
// followed by a body. A reply is a kind, the client, the number, the part, the size of
// the content, and the content.
const (
	messageSize = 4
	answerHead  = 8
)

const (
	doEcho = iota
	doBig
	doLate
	doLateAtOnce
	doPush
	doClose
	doPanic
	doStuck
	doRefuse
	doFlush
	doMore
	doLeave
	doHold
	doContext
	doLend
	doEnd
)

// bodySize returns the length of the body after a doMore message of that size.
func bodySize(size byte) int { return 4 * int(size) }

const (
	saidAnswer = iota + 1
	saidLate
	saidPush
	saidRefusal
	saidPart
	saidHeld
)

func answerOf(kind, id byte, seq uint16, size int) []byte {
	b := []byte{kind, id, byte(seq >> 8), byte(seq), 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[4:], uint32(size))
	return append(b, bytes.Repeat([]byte{id}, size)...)
}

// panicsLate reports whether doFlush panics after sending a part, and keepsSocket whether
// doLend keeps the socket.
func panicsLate(what, size byte) bool { return what == doFlush && size%16 == 15 }
func keepsSocket(size byte) bool      { return size%8 == 7 }

// fuzzProtocol does what its messages request.
type fuzzProtocol struct{ *stage }

func (p fuzzProtocol) Advance(t *Turn, in []byte) (used, need int, err error) {
	for {
		if len(in)-used < messageSize {
			return used, messageSize - (len(in) - used), nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		m := in[used : used+messageSize : used+messageSize]
		what, id, size, seq := m[0]&15, m[0]>>4, int(m[1]), binary.BigEndian.Uint16(m[2:])
		if id == 0 || int(id) > len(p.actors) || p.actors[id-1].conn != t.Conn() {
			p.t.Fatalf("client %d's message arrived on another connection", id)
		}
		a := p.actors[id-1]
		t.Mark(used)
		used += messageSize
		switch what {
		case doBig:
			size *= 64
		case doLate, doLateAtOnce:
			r := t.Later()
			if p.late = append(p.late, lateAnswer{r, id, seq}); what == doLateAtOnce {
				p.answer(len(p.late) - 1)
			}
		case doPush:
			t.Conn().Push(answerOf(saidPush, id, 0, 32*size))
		case doClose:
			t.Conn().Close(ClosedHere)
		case doPanic:
			panic(errors.New("as the script says"))
		case doStuck:
			p.stuck()
		case doRefuse:
			return used - messageSize, 0, Malformed
		case doFlush:
			if err := p.flush(t, a, byte(size), seq); err != nil {
				return used, 0, err
			}
		case doMore:
			if in, used, err = p.read(t, a, in, used, byte(size), seq); err != nil {
				return 0, 0, err
			}
		case doLeave:
			t.Leave()
			if size%2 == 1 {
				p.stuck()
			}
		case doHold:
			if err := p.hold(t, a, size, seq); err != nil {
				return used, 0, err
			}
			continue
		case doContext:
			p.ctxs = append(p.ctxs, watchedBy{t.Context(p.s.ctx), id})
			if size%2 == 1 {
				p.late = append(p.late, lateAnswer{t.Later(), id, seq})
			}
		case doLend:
			if p.loan == nil {
				p.lend(t, a, byte(size), seq)
				return used, 0, nil
			}
		}
		if t.Promised() == 0 {
			t.Out = append(t.Out, answerOf(saidAnswer, id, seq, size)...)
		}
	}
}

// flush replies in parts.
func (p fuzzProtocol) flush(t *Turn, a *actor, size byte, seq uint16) error {
	for i := range int(size)%5 + 1 {
		part := answerOf(saidPart, a.id, seq, 32*int(size))
		part[4] = byte(i)
		t.Out = append(t.Out, part...)
		if err := t.Flush(); err != nil {
			return err
		}
		if len(t.Out) > 0 {
			p.t.Fatal("Flush left output")
		}
		if panicsLate(doFlush, size) {
			panic(errors.New("as the script says, in the middle of an answer"))
		}
	}
	return nil
}

// read reads a body, and consumes it at once or at the end.
func (p fuzzProtocol) read(t *Turn, a *actor, in []byte, used int, size byte, seq uint16) (rest []byte, at int, err error) {
	lacks, keeps := bodySize(size), seq%2 == 1
	for {
		part := in[used:min(len(in), used+lacks)]
		if len(bytes.Trim(part, string(a.id))) > 0 {
			p.t.Fatalf("client %d: request %d reads foreign bytes", a.id, seq)
		}
		switch {
		case len(part) == lacks:
			return in, used + lacks, nil
		case keeps:
			in, err = t.More(used, lacks-len(part))
		default:
			lacks -= len(part)
			in, err = t.More(used+len(part), min(lacks, 1+int(size)))
		}
		if used = 0; err != nil {
			return nil, 0, err
		}
	}
}

// hold holds a push until after its reply, which is sent in parts.
func (p fuzzProtocol) hold(t *Turn, a *actor, size int, seq uint16) error {
	t.Hold()
	push := func() {
		if t.Conn().Push(answerOf(saidHeld, a.id, seq, 8)) == nil {
			a.pushes[seq]--
		}
	}
	answer := answerOf(saidAnswer, a.id, seq, 64*size)
	push()
	if size%2 == 1 {
		t.Out = append(t.Out, answer[:5]...)
		if err := t.Flush(); err != nil {
			return err
		}
		answer = answer[5:]
		push()
	}
	t.Out = append(t.Out, answer...)
	return nil
}

// lend gives the socket to user code, which replies.
func (p fuzzProtocol) lend(t *Turn, a *actor, size byte, seq uint16) {
	o := &loan{conn: t.Conn(), entered: make(chan struct{}), goOn: make(chan struct{})}
	p.loan = o
	t.TakeOver(func(nc net.Conn, unread []byte) (left []byte, back bool) {
		o.entered <- struct{}{}
		<-o.goOn
		raw, err := nc.(syscall.Conn).SyscallConn()
		if err != nil {
			p.t.Errorf("a lent socket: %v", err)
			return nil, false
		}
		raw.Control(func(fd uintptr) {
			answer := answerOf(saidAnswer, a.id, seq, 0)
			if n, _ := syscall.Write(int(fd), answer); n < len(answer) {
				a.broken = true // the socket is full, or the client has disconnected
				return
			}
			back = !keepsSocket(size)
			b := make([]byte, size)
			if n, _ := syscall.Read(int(fd), b); n > 0 {
				unread = append(unread, b[:n]...)
			}
		})
		return unread, back
	})
}

func (p fuzzProtocol) Refuse(dst, unserved []byte, why Reason) []byte {
	for _, a := range p.actors { // the refusal does not identify the connection
		a.broken = true
	}
	return dst
}
