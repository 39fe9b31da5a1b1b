package engine

import (
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// borrowed is a protocol that lends the connection for each message, with the message unused.
type borrowed struct{}

func (borrowed) Advance(t *Turn, in []byte) (used, need int, err error) {
	if len(in) < 2 || len(in) < 2+int(binary.BigEndian.Uint16(in)) {
		return 0, 1, nil
	}
	return 0, 0, t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
		nc.Write(append(unread[2:], '\n'))
		return nil, true
	})
}

func (borrowed) Refuse(dst, _ []byte, why Reason) []byte { return append(dst, why.String()+"\n"...) }

// The time of a message that has arrived in pieces ends when user code has it.
func TestMessageOfALoanHasNoTime(t *testing.T) {
	virtually(t, borrowed{}, Limits{}, func(r *running) {
		c := r.dial(r.t)
		for _, text := range []string{"one", "two"} {
			whole := message(text)
			c.send(whole[:3])
			pause(time.Millisecond)
			c.send(whole[3:])
			c.want(text)
		}
		begun := time.Now()
		c.want("idle_timeout")
		c.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)
	})
}
