package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
)

// What FuzzLoop's clients ask for, and the protocol that does it.

// A message is 4 bytes: what to do, a size, and the request's number; doMore has a body
// behind it. An answer is a kind, the client, the number, which part it is, the size of
// what follows, and that.
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

// bodySize is how much follows a message of doMore of that size.
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

// panicsLate says of doFlush that it panics when a part has gone, and keepsSocket of
// doLend that it does not give the socket back.
func panicsLate(what, size byte) bool { return what == doFlush && size%16 == 15 }
func keepsSocket(size byte) bool      { return size%8 == 7 }

// fuzzProtocol does what its messages say.
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
			p.t.Fatalf("client %d's message comes from another", id)
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

// flush answers in parts.
func (p fuzzProtocol) flush(t *Turn, a *actor, size byte, seq uint16) error {
	for i := range int(size)%5 + 1 {
		part := answerOf(saidPart, a.id, seq, 32*int(size))
		part[4] = byte(i)
		t.Out = append(t.Out, part...)
		if err := t.Flush(); err != nil {
			return err
		}
		if len(t.Out) > 0 {
			p.t.Fatal("Flush leaves something")
		}
		if panicsLate(doFlush, size) {
			panic(errors.New("as the script says, in the middle of an answer"))
		}
	}
	return nil
}

// read reads a body, which it gives back at once or at the end.
func (p fuzzProtocol) read(t *Turn, a *actor, in []byte, used int, size byte, seq uint16) (rest []byte, at int, err error) {
	lacks, keeps := bodySize(size), seq%2 == 1
	for {
		part := in[used:min(len(in), used+lacks)]
		if len(bytes.Trim(part, string(a.id))) > 0 {
			p.t.Fatalf("client %d: request %d reads what does not belong to it", a.id, seq)
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

// hold has a push come behind the answer, which goes in pieces.
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

// lend gives the socket to user code, which answers.
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
				a.broken = true // the kernel takes no more, or the client has left
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
	for _, a := range p.actors { // whose connection this is, the words do not say
		a.broken = true
	}
	return dst
}
