package torture

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// tlsScenarios attack the handshake and the records of TLS.
var tlsScenarios = []Scenario{
	{Name: "handshake-flood", Kinds: AllKinds, TLS: true, Attack: handshakeFlood,
		Title: "Clients make new TLS handshakes as fast as they can."},
	{Name: "no-handshake", Kinds: AllKinds, TLS: true, Attack: noHandshake,
		Title: "Clients send plain requests, random bytes and broken records instead of a TLS handshake."},
	{Name: "forged-record", Kinds: AllKinds, TLS: true, Attack: each(20, (*target).Bare, "closed %d connections with a forged record", forgedRecord),
		Title: "Clients send a record that is not encrypted after a good handshake."},
	{Name: "half-handshake", Kinds: AllKinds, TLS: true, Waits: true, Attack: halfHandshake,
		Title: "Clients send a part of the TLS handshake and no more."},
}

func handshakeFlood(ctx context.Context, a *Arena) Finding {
	const clients = 16
	until := time.Now().Add(a.Answer)
	var made, failed atomic.Int64
	atOnce(clients, func(int) (none struct{}) {
		for time.Now().Before(until) && ctx.Err() == nil {
			c, err := a.Open(ctx, (*target).Bare)
			if err != nil {
				failed.Add(1)
				continue
			}
			made.Add(1)
			c.Close()
		}
		return none
	})
	if made.Load() == 0 {
		return unknown("none of %d handshakes succeeded", failed.Load())
	}
	return survives("%d handshakes, %d more refused", made.Load(), failed.Load())
}

func noHandshake(ctx context.Context, a *Arena) Finding {
	inputs := [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"), {0x16}, {0x16, 3, 1, 0xff, 0xff}, {0x16, 3, 1, 0, 0}, {0x80, 0x80, 1, 3, 1},
		{0x16, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, {0x15, 3, 3, 0, 2, 2, 40}, {0x17, 3, 3, 0, 5, 'h', 'e', 'l', 'l', 'o'},
	}
	const random = 40
	for range random {
		inputs = append(inputs, a.junk(1+a.Rand.IntN(2000)))
	}
	return each(len(inputs), (*target).Plain, "%d inputs instead of a handshake", func(ctx context.Context, c *Conn, i int) Finding {
		_, err := c.Write(inputs[i])
		a.noteError(err, "input %d", i+1)
		if i%8 > 0 {
			return Finding{}
		}
		return a.serves(ctx, "after %d inputs", i+1)
	})(ctx, a)
}

func forgedRecord(_ context.Context, c *Conn, _ int) Finding {
	a := c.arena
	_, err := c.tcp.Write(append([]byte{0x17, 3, 3, 0, 32}, a.junk(32)...))
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(a.Answer))
	}
	if err != nil {
		return unknown("%s", plain(err))
	}
	if _, err := io.Copy(io.Discard, c.Conn); isTimeout(err) {
		return falls("a forged record does not end the connection within %v", a.Answer)
	}
	return Finding{}
}

// hello returns a good first message of TLS.
func (a *Arena) hello(ctx context.Context) []byte {
	ours, theirs := net.Pipe()
	said := make(chan []byte, 1)
	go func() {
		b := make([]byte, 16<<10)
		n, _ := theirs.Read(b) // nothing when ctx has ended
		theirs.Close()
		said <- b[:n]
	}()
	_ = tls.Client(ours, a.target.tls).HandshakeContext(ctx) // it fails: nobody answers
	ours.Close()
	return <-said
}

func halfHandshake(ctx context.Context, a *Arena) Finding {
	hello := a.hello(ctx)
	return a.waits(ctx, "connections with a part of a handshake", (*target).Plain, drip, func(c *Conn, peer int) error {
		_, err := c.Write(hello[:len(hello)*((peer+1)%4+1)/4]) // every fourth sends all of it, and does not go on
		return err
	})
}
