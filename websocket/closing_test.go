package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// ended are the arguments of Upgrader.Closed.
type ended struct {
	code Code
	why  engine.Reason
}

// tellsEnds makes u.Closed send to a channel.
func tellsEnds(u *Upgrader) <-chan ended {
	ends := make(chan ended, 100)
	u.Closed = func(_ Conn, code Code, why engine.Reason) { ends <- ended{code, why} }
	return ends
}

// A client's Close is answered with its code, and Closed receives it.
func TestCloseByTheClient(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo}
		ends := tellsEnds(u)
		addr := at.serve(u)
		for _, c := range []struct {
			payload string
			answer  []byte
			told    ended
		}{
			{"", closing(NoStatus, ""), ended{NoStatus, engine.PeerClosed}},
			{"\x03\xe8", closing(NormalClosure, ""), ended{NormalClosure, engine.PeerClosed}},
			{"\x03\xe9leaving", closing(GoingAway, ""), ended{GoingAway, engine.PeerClosed}},
			{"\x0f\xa0private", closing(4000, ""), ended{4000, engine.PeerClosed}},
			{"\x03", closing(ProtocolError, faultCloseLength.String()), ended{ProtocolError, engine.Malformed}},
			{"\x03\xed", closing(ProtocolError, faultCloseCode.String()), ended{ProtocolError, engine.Malformed}},
			{"\x03\xe8\xff", closing(InvalidPayload, faultCloseText.String()), ended{InvalidPayload, engine.Malformed}},
		} {
			p, _ := upgraded(t, addr)
			p.send(append(frame(opText, "before"), frame(opClose, c.payload)...))
			p.want(served(opText, "before"))
			p.want(c.answer)
			p.wantEnd()
			if got := heard(t, ends, "the end"); got != c.told {
				t.Errorf("after Close with %q, Closed got %v, want %v", c.payload, got, c.told)
			}
		}
	})
}

// Input after a Close frame is dropped, and late replies come before our Close frame.
func TestCloseComesLast(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		replies := make(chan Reply, 1)
		p, _ := upgraded(t, at.serve(&Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			replies <- c.Later()
			return nil, nil
		}}))
		p.send(bytes.Join([][]byte{frame(opText, "1"), frame(opClose, "\x03\xe8"), frame(opText, "2")}, nil))
		r := heard(t, replies, "the message")
		if err := r.Text([]byte("la"), []byte("te")); err != nil {
			t.Error(err)
		}
		p.want(served(opText, "late"))
		p.want(closing(NormalClosure, ""))
		p.wantEnd()
		eventually(t, "ErrClosed", func() bool { return errors.Is(r.Text(nil), ErrClosed) })
	})
}

// An error of Message closes the connection with its code; a code that must not be sent is sent
// as none.
func TestCloseByAnError(t *testing.T) {
	long := strings.Repeat("ö", 100)
	for _, c := range []struct {
		err  error
		want []byte
		code Code
		why  engine.Reason
	}{
		{PolicyViolation, closing(PolicyViolation, ""), PolicyViolation, engine.ClosedHere},
		{fmt.Errorf("wrapped: %w", Code(4711)), closing(4711, ""), 4711, engine.ClosedHere},
		{&CloseError{TryAgainLater, "later"}, closing(TryAgainLater, "later"), TryAgainLater, engine.ClosedHere},
		{&CloseError{4000, long}, closing(4000, long[:122]), 4000, engine.ClosedHere},
		{errors.New("secret"), closing(InternalError, ""), InternalError, engine.ClosedHere},
		{AbnormalClosure, []byte{finBit | byte(opClose), 0}, AbnormalClosure, engine.ClosedHere},
		{MessageTooBig, closing(MessageTooBig, ""), MessageTooBig, engine.TooLarge},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			run(t, func(t *testing.T, at *place) {
				u := &Upgrader{Message: func(call Call, dst, msg []byte) ([]byte, error) {
					if string(msg) == "fail" {
						return append(dst, "what fails has no answer"...), c.err
					}
					return append(dst, msg...), nil
				}}
				ends := tellsEnds(u)
				p, _ := upgraded(t, at.serve(u))
				p.send(bytes.Join([][]byte{frame(opText, "good"), frame(opText, "fail"), frame(opText, "never")}, nil))
				p.want(served(opText, "good"))
				p.want(c.want)
				p.wantEnd()
				if got := heard(t, ends, "the end"); got != (ended{c.code, c.why}) {
					t.Errorf("Closed got %v", got)
				}
			})
		})
	}
}

// Protocol violations and exceeded limits end the connection with the code of RFC 6455, after
// the answers to earlier messages.
func TestCloseOnProtocolError(t *testing.T) {
	unmasked := served(opText, "hello")
	for _, c := range []struct {
		name string
		sent []byte
		want fault
		why  engine.Reason
	}{
		{"not masked", unmasked, faultUnmasked, engine.Malformed},
		{"reserved bit", appendMasked(nil, 0x91, nil), faultReserved, engine.Malformed},
		{"compressed without leave", appendMasked(nil, 0xC1, nil), faultCompressed, engine.Malformed},
		{"continuation of nothing", piece(opContinuation, true, "x"), faultContinuation, engine.Malformed},
		{"message in a message", append(piece(opText, false, "x"), piece(opText, true, "y")...), faultInterleaved, engine.Malformed},
		{"ping in pieces", piece(opPing, false, "x"), faultControlFragment, engine.Malformed},
		{"not UTF-8", frame(opText, "ab\xffcd"), faultText, engine.Malformed},
		{"half a character", frame(opText, "\xce"), faultText, engine.Malformed},
		{"too long", frame(opBinary, strings.Repeat("x", 1001)), faultTooBig, engine.TooLarge},
		{"too long in pieces", append(piece(opText, false, strings.Repeat("x", 600)), piece(opContinuation, true, strings.Repeat("x", 600))...), faultTooBig, engine.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, at *place) {
				u := &Upgrader{Message: echo, MessageSize: 1000}
				ends := tellsEnds(u)
				p, _ := upgraded(t, at.serve(u))
				p.send(append(frame(opText, "good"), c.sent...))
				p.want(served(opText, "good"))
				p.want(closing(c.want.code(), c.want.String()))
				p.wantEnd()
				if got := heard(t, ends, "the end"); got != (ended{c.want.code(), c.why}) {
					t.Errorf("Closed got %v", got)
				}
			})
		})
	}
}

// Conn.Close sends its code after everything sent before, and nothing can be sent afterwards.
func TestCloseByTheServer(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		conns := make(chan Conn, 1)
		u := &Upgrader{Message: echo}
		u.Open = func(c Conn, _ *http.Request) error { conns <- c; return nil }
		ends := tellsEnds(u)
		p, _ := upgraded(t, at.serve(u))
		c := heard(t, conns, "the connection")
		c.SetValue("mine")
		if err := errors.Join(c.Text([]byte("1")), c.Binary(), c.Close(GoingAway, "enough")); err != nil {
			t.Error(err)
		}
		if err := c.Close(NormalClosure, ""); err != ErrClosed {
			t.Errorf("closed twice: %v", err)
		}
		p.want(served(opText, "1"))
		p.want(served(opBinary, ""))
		p.want(closing(GoingAway, "enough"))
		p.send(frame(opClose, "\x03\xe9"))
		p.wantEnd()
		if got := heard(t, ends, "the end"); got != (ended{GoingAway, engine.ClosedHere}) {
			t.Errorf("Closed got %v", got)
		}
		eventually(t, "the end", func() bool { return !c.RemoteAddr().IsValid() })
		for _, err := range []error{c.Text(nil), c.Binary(nil), c.Send(Prepared{}), c.Close(NormalClosure, "")} {
			if err != ErrClosed {
				t.Errorf("after the end: %v", err)
			}
		}
		if c.Value() != nil {
			t.Error("the value outlives the connection")
		}
	})
}

// The engine closes a connection with the code for its reason. A Close that comes after it
// changes nothing, and Closed receives the code that was sent.
func TestCloseByTheEngine(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		conns := make(chan Conn, 1)
		u := &Upgrader{Message: echo}
		u.Open = func(c Conn, _ *http.Request) error { conns <- c; return nil }
		ends := tellsEnds(u)
		addr := at.serve(u)
		for _, c := range []struct {
			why  engine.Reason
			code Code
			text string
		}{
			{engine.IdleTimeout, PolicyViolation, "idle for too long"},
			{engine.FrameTimeout, PolicyViolation, "a message took too long"},
			{engine.AuthTimeout, PolicyViolation, "not authenticated in time"},
			{engine.InputBudget, TryAgainLater, ""},
			{engine.ShuttingDown, GoingAway, "the server is shutting down"},
		} {
			p, _ := upgraded(t, addr)
			conn := heard(t, conns, "the connection")
			conn.conn.Close(c.why)
			p.want(closing(c.code, c.text))
			if err := conn.Close(4000, "too late"); err != ErrClosed {
				t.Errorf("closed after %v: %v", c.why, err)
			}
			p.wantEnd()
			if got := heard(t, ends, "the end"); got != (ended{c.code, c.why}) {
				t.Errorf("Closed got %v, want %v", got, ended{c.code, c.why})
			}
		}
	})
}

// Closed reports a connection that ended without a Close frame as such.
func TestEndWithoutClose(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo}
		ends := tellsEnds(u)
		addr := at.serve(u)
		p, _ := upgraded(t, addr)
		p.Close()
		if got := heard(t, ends, "the end"); got != (ended{AbnormalClosure, engine.PeerClosed}) {
			t.Errorf("Closed got %v", got)
		}
		p, _ = upgraded(t, addr)
		p.Conn.(*net.TCPConn).SetLinger(0)
		p.Close()
		if got := heard(t, ends, "the end"); got != (ended{AbnormalClosure, engine.PeerReset}) {
			t.Errorf("Closed got %v", got)
		}
	})
}

// A handler that panics ends its own connection and no other.
func TestPanic(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: func(_ Call, dst, msg []byte) ([]byte, error) {
			if string(msg) == "panic" {
				panic("as asked")
			}
			return append(dst, msg...), nil
		}}
		ends := tellsEnds(u)
		addr := at.serve(u)
		other, _ := upgraded(t, addr)
		p, _ := upgraded(t, addr)
		p.send(append(frame(opText, "good"), frame(opText, "panic")...))
		p.want(served(opText, "good"))
		p.want(closing(InternalError, ""))
		p.wantEnd()
		if got := heard(t, ends, "the end"); got != (ended{InternalError, engine.Panicked}) {
			t.Errorf("Closed got %v", got)
		}
		other.send(frame(opText, "still here"))
		other.want(served(opText, "still here"))
		if n := at.stats().Panics; n != 1 {
			t.Errorf("%d panics counted", n)
		}
	})
}

// A handler that closes its connection still answers; later messages are not served.
func TestCloseInHandler(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: func(c Call, dst, msg []byte) ([]byte, error) {
			return append(dst, msg...), c.Conn().Close(NormalClosure, "done")
		}}
		ends := tellsEnds(u)
		p, _ := upgraded(t, at.serve(u))
		p.send(append(frame(opText, "last"), frame(opText, "never")...))
		p.want(served(opText, "last"))
		p.want(closing(NormalClosure, "done"))
		p.wantEnd()
		if got := heard(t, ends, "the end"); got != (ended{NormalClosure, engine.ClosedHere}) {
			t.Errorf("Closed got %v", got)
		}
	})
}
