package engine_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// After a loan the connection is served as before it: requests are answered, at once and
// later, and pushes are sent, whatever deadlines user code has left on the socket.
func TestServedAsBeforeAfterALoan(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "lend":
				t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
					nc.SetDeadline(time.Unix(1, 0))
					return unread, true
				})
				return errHandedOver
			case "later":
				owed <- t.Later()
				return nil
			}
			return echoing(t, line)
		}})
		c := s.dial(t)
		for range 3 {
			c.send("lend\nlater\n")
			reply := heard(t, owed, "the request behind the loan")
			if err := errors.Join(reply.Send([]byte("late\n")), reply.Conn().Push([]byte("pushed\n"))); err != nil {
				t.Fatalf("after the loan: %v", err)
			}
			c.want("late\npushed\n")
			c.ask("at once", "at once")
		}
	})
}

// A drain also serves what has arrived during a loan and user code has not read.
func TestDrainServesWhatALoanLeaves(t *testing.T) {
	reports := func(g ground) bool { return !g.isAdapter() } // of an adapter nobody knows what has arrived
	onEach(t, everywhere(reports), func(t *testing.T, g ground) {
		block, lent := newGate(t), make(chan struct{}, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "block":
				block.pass()
			case "lend":
				t.TakeOver(func(nc net.Conn, _ []byte) ([]byte, bool) {
					lent <- struct{}{}
					_, err := io.ReadFull(nc, make([]byte, len("read\n")))
					return nil, err == nil
				})
				return errHandedOver
			}
			return echoing(t, line)
		}})
		c := s.dial(t)
		c.send("block\n")
		heard(t, block.entered, "a handler")
		c.send("lend\n")
		done := s.drain(t)
		block.open()
		heard(t, lent, "the loan")
		c.send("read\nleft\n")
		c.wantEnd("block\nleft\n" + refusal(engine.ShuttingDown))
		inPeace(t, done, 1)
	})
}
