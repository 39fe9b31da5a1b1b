package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// Each connection says hello with a name of its own, and is good for requests once it is welcome.
func TestHello(t *testing.T) {
	said := make(chan string, 8)
	greeting := func(nc net.Conn) {
		answering(nil, func(dst []byte, p wire.Packet) []byte {
			if p.Command == wire.Submit {
				return echo(dst, p)
			}
			said <- string(p.Content)
			dst = wire.Append(dst, wire.Packet{Command: wire.ConnAck, ID: p.ID, Content: []byte("welcome")})
			return wire.Append(dst, wire.Packet{Command: wire.Deliver, Content: []byte("pushed at once, as to a room")})
		})(nc)
	}
	target := serveWith(t, "tcp", greeting)
	target.Hello = "I am ################!"
	r := measured(t, Plan{Target: target, Conns: 2, Requests: 100})
	close(said)
	seen := map[string]bool{}
	for hello := range said {
		seen[hello] = true
		if len(hello) != len(target.Hello) || strings.Contains(hello, "#") || hello[:5] != "I am " {
			t.Errorf("a connection said %q", hello)
		}
	}
	if r.Requests != 100 || r.Errors["total"] != 0 || len(seen) < 2 {
		t.Errorf("%d requests, errors %v, hellos %v", r.Requests, r.Errors, seen)
	}
}

// A hello is a message of the target's framing, whatever is answered, and its failure is the server's.
func TestHelloAnswers(t *testing.T) {
	for _, c := range []struct {
		framing, hello, answer, want string
	}{
		{"resp", "AUTH secret", "+OK\r\n", ""},
		{"resp", "AUTH wrong", "-WRONGPASS\r\n", `the server refuses the hello (the server answers "WRONGPASS")`},
		{"line", "LOGIN", "any\n", ""},
		{"line", "LOGIN", "any\nmore", "what nobody has asked for"},
		{"line", "LOGIN", strings.Repeat("x", 128<<10), "longer than the limit"},
		{"line", "LOGIN", "", "closed the connection within the handshake"},
		{"hone", "hello", "\x00\x00\x00\x0e\x81\x00\x00\x00\x00\x00\x00\x00\x01\x00", ""},
		{"hone", "hello", "\x00\x00\x00\x0e\x81\x00\x00\x00\x00\x00\x00\x00\x01\x06", "the server refuses the hello (wire: unauthorised)"},
		{"hone", "hello", "\x00\x00\x00\x0e\x82\x00\x00\x00\x00\x00\x00\x00\x01\x00", "the server answers with a SubmitAck"},
	} {
		t.Run(fmt.Sprintf("%s %s %.10q", c.framing, c.hello, c.answer), func(t *testing.T) {
			at := serveWith(t, "unix", func(nc net.Conn) {
				if nc.Read(make([]byte, DefaultSize)); c.answer != "" {
					io.WriteString(nc, c.answer)
				}
			})
			target := codec.Target(codec.Frames{Network: at.Network, Address: at.Address, Hello: c.hello})
			if c.framing != "hone" {
				target = codec.Messages{Network: at.Network, Address: at.Address, Framing: framing(t, c.framing), Hello: c.hello}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			nc, err := target.Dial(ctx)
			said := fmt.Sprint(err)
			if err == nil {
				nc.Close()
			}
			if (c.want == "") != (err == nil) || !strings.Contains(said, c.want) {
				t.Errorf("%s, want %q", said, c.want)
			}
		})
	}
}
