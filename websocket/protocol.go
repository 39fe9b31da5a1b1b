package websocket

import (
	"errors"

	"github.com/hone-go/hone/engine"
)

// protocol is WebSocket as engines see it. An Upgrader has one without compression and one for
// each window that a client may ask for. So the result of negotiation costs a connection no
// memory.
type protocol struct {
	upgrader *Upgrader
	limit    int   // of a message
	window   uint8 // for sending, as decoder.window; 0: no compression
}

// The layout of Turn.State once the protocol itself ends the connection: it no longer belongs
// to the decoder, and holds the Code of the first Close frame.
const (
	stateOver    = 1 << 63
	statePeer    = 1 << 62 // the peer sent that frame
	stateRefused = 1 << 61 // Open has refused the connection
)

// frameStart is how many bytes of a frame show whether it is valid. A client's frame has at
// least four more, but one that is not valid may have none.
const frameStart = 2

// Advance serves the frames at the front of in. It checks for output room before it decodes
// pings and messages, because decoding unmasks them in place.
func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if t.State&stateOver != 0 {
		return len(in), 0, engine.ClosedHere // after a refusal
	}
	d := decoder{limit: p.limit, server: true}
	d.load(t.State)
	for used < len(in) {
		if !t.Room() {
			break
		}
		op, payload, n, f := d.whole(in[used:])
		if f == 0 && op != opContinuation {
			if err := p.answer(t, used, Kind(op), payload); err != nil {
				return p.failed(t, in, err)
			}
			used += n
			continue
		}
		var e event
		if f == 0 {
			e, f = d.frame(in[used:])
		}
		if f != 0 {
			return p.end(t, in, f.code(), f.String(), 0)
		}
		switch e.op {
		case opContinuation:
			t.State = d.state()
			return used + e.used, e.need, nil
		case opText, opBinary:
			if err := p.message(t, used, e); err != nil {
				return p.failed(t, in, err)
			}
		case opPing:
			t.Out = appendFrame(t.Out, byte(opPong)|finBit, e.payload)
		case opPong:
			p.pong(t, used, e.payload)
		case opClose:
			code, _, _ := parseClose(e.payload)
			return p.end(t, in, code, "", statePeer)
		}
		used += e.used
	}
	t.State = d.state()
	if used == len(in) {
		need = frameStart
	}
	return used, need, nil
}

// failed ends the connection because Upgrader.Message returned an error.
func (p *protocol) failed(t *engine.Turn, in []byte, err error) (used, need int, end error) {
	code, text := codeOf(err)
	return p.end(t, in, code, text, 0)
}

// message answers a message that begins at in[used:] of Advance's input.
func (p *protocol) message(t *engine.Turn, used int, e event) error {
	if e.compressed {
		return p.inflated(t, used, e)
	}
	return p.answer(t, used, Kind(e.op), e.payload)
}

// inflated answers a compressed message.
func (p *protocol) inflated(t *engine.Turn, used int, e event) error {
	b := p.borrow()
	msg, f := p.upgrader.Compression.inflate(b.bytes[:0], e.payload, p.limit, e.op == opText)
	b.bytes = msg
	if f != 0 {
		p.giveBack(b)
		return &CloseError{Code: f.code(), Text: f.String()}
	}
	err := p.answer(t, used, Kind(e.op), msg)
	p.giveBack(b) // not after a panic: the handler may have kept it
	return err
}

// answer calls Upgrader.Message and sends the answer.
func (p *protocol) answer(t *engine.Turn, used int, kind Kind, msg []byte) error {
	t.Mark(used)
	// Room for the head comes first, so that the answer is built in its final place. t.Out
	// does not include it before Message has returned, or a panic would leave it behind.
	start := len(t.Out)
	out := beginFrame(t.Out, len(msg))
	body := len(out)
	t.Out = out[:start] // keeps the capacity that was added
	t.State = uint64(kind)
	dst := out[body:]
	content, err := p.upgrader.Message(Call{t, p, t.Serial(), kind}, dst, msg)
	switch {
	case err != nil:
		t.Rollback()
		return err
	case t.Promised() > 0 || content == nil:
		return nil
	case len(content) == 0:
	case cap(dst) > 0 && &content[0] == &dst[:1][0]:
		out = out[:body+len(content)]
	default:
		out = append(out, content...)
	}
	first := byte(t.State) | finBit
	if p.compresses(len(content)) {
		t.Out = p.endDeflated(out, start, body, first)
	} else {
		t.Out = endFrame(out, start, body, first)
	}
	return nil
}

// endDeflated is endFrame for a payload that is compressed if that makes it shorter.
func (p *protocol) endDeflated(out []byte, start, body int, first byte) []byte {
	end := len(out)
	out = p.upgrader.Compression.deflate(out, p.window, out[body:])
	n := len(out) - end
	if n >= end-body {
		return endFrame(out[:end], start, body, first)
	}
	return endFrame(out[:start+copy(out[start:], out[end-(body-start):])], start, body, first|compressedBit)
}

// end closes the connection with our Close frame as the last one, after everything owed to the
// peer. It drops the rest of the input.
func (p *protocol) end(t *engine.Turn, in []byte, code Code, text string, whose uint64) (used, need int, err error) {
	t.State = stateOver | whose | uint64(code)
	var room [2 + mostControl]byte
	t.Conn().End(reasonOf(code, whose), appendClose(room[:0], code, text))
	return len(in), frameStart, nil
}

// reasonOf is the engine's reason for a connection that ends with code.
func reasonOf(code Code, whose uint64) engine.Reason {
	switch {
	case whose == statePeer:
	case code == ProtocolError, code == InvalidPayload:
		return engine.Malformed
	case code == MessageTooBig:
		return engine.TooLarge
	}
	return engine.ClosedHere
}

// codeOf is the code and text with which an error of Upgrader.Message closes the connection.
func codeOf(err error) (Code, string) {
	if e, ok := errors.AsType[*CloseError](err); ok && e != nil {
		return e.Code, e.Text
	}
	if code, ok := errors.AsType[Code](err); ok {
		return code, ""
	}
	return InternalError, ""
}

// closures are the close codes for the engine's reasons. For reasons without a code no Close
// frame is sent.
var closures = [...]Code{
	engine.IdleTimeout:  PolicyViolation,
	engine.FrameTimeout: PolicyViolation,
	engine.AuthTimeout:  PolicyViolation,
	engine.TooLarge:     MessageTooBig,
	engine.Malformed:    ProtocolError,
	engine.Panicked:     InternalError,
	engine.InputBudget:  TryAgainLater,
	engine.Displaced:    TryAgainLater,
	engine.ShuttingDown: GoingAway,
}

// closure is the close code for why, or AbnormalClosure.
func closure(why engine.Reason) Code {
	if int(why) < len(closures) && closures[why] != 0 {
		return closures[why]
	}
	return AbnormalClosure
}

// Refuse appends the Close frame for the reason why the engine ends a connection.
func (p *protocol) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	code := closure(why)
	if code == AbnormalClosure {
		return dst
	}
	return appendClose(dst, code, closureTexts[why])
}

// closureTexts tell reasons with the same code apart.
var closureTexts = map[engine.Reason]string{
	engine.IdleTimeout:  "idle for too long",
	engine.FrameTimeout: "a message took too long",
	engine.AuthTimeout:  "not authenticated in time",
	engine.Displaced:    "silent for longest on a full server",
	engine.ShuttingDown: "the server is shutting down",
}

// GivesWay returns Upgrader.GiveWay.
func (p *protocol) GivesWay() bool { return p.upgrader.GiveWay }

// Ping is the ping for idle connections.
func (p *protocol) Ping() []byte { return []byte{byte(opPing) | finBit, 0} }

// Ended calls Upgrader.Closed.
func (p *protocol) Ended(c engine.Conn, state uint64, why engine.Reason) {
	if p.upgrader.Closed == nil || state&stateRefused != 0 {
		return
	}
	code := closure(why)
	switch a, _ := c.Value().(*attachment); {
	case state&stateOver != 0:
		if code = Code(state); state&statePeer != 0 {
			why = engine.PeerClosed
		}
	case a != nil && a.code != 0 && (why == engine.ClosedHere || why == engine.ShuttingDown):
		code = a.code
	case why == engine.ClosedHere: // the server closed it, but not through Conn.Close
		code = NoStatus
	}
	p.upgrader.Closed(Conn{c, p}, code, why)
}
