package secure

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// hello returns the message of a ClientHello.
func hello(t *testing.T) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		tls.Client(client, &tls.Config{ServerName: "test"}).Handshake()
	}()
	var head [5]byte
	if _, err := io.ReadFull(server, head[:]); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(server, message); err != nil {
		t.Fatal(err)
	}
	return message
}

// split splits a message into records.
func split(message []byte, size func() int) (all []byte) {
	for len(message) > 0 {
		n := min(size(), len(message))
		all = append(binary.BigEndian.AppendUint16(append(all, 22, 3, 1), uint16(n)), message[:n]...)
		message = message[n:]
	}
	return all
}

// However its message is split into records, a ClientHello lacks something until its last byte has
// arrived, and never more than really follows.
func TestHelloLacks(t *testing.T) {
	message := hello(t)
	for _, size := range []func() int{
		func() int { return 1 << 14 },
		func() int { return 1 },
		func() int { return 3 },
		func() int { return 1 + rand.IntN(600) },
	} {
		all := split(message, size)
		for n := range len(all) {
			if lacks := HelloLacks(all[:n]); lacks <= 0 || lacks > len(all)-n {
				t.Fatalf("%d of %d bytes lack %d", n, len(all), lacks)
			}
		}
		for _, whole := range [][]byte{all, append(all, 22, 3, 3)} {
			if lacks := HelloLacks(whole); lacks != 0 {
				t.Errorf("a whole hello lacks %d", lacks)
			}
		}
	}
	for _, other := range [][]byte{
		[]byte("G"), {22, 3, 1, 0, 0}, split([]byte{1, 0, 0, 0}, func() int { return 4 }), {22, 3, 1, 0, 1, 1, 23},
		split(append([]byte{1, 1, 0, 0}, make([]byte, mostHello)...), func() int { return 100 }), // too large
		append([]byte{22, 3, 1, 255, 255, 1, 1, 0, 0}, make([]byte, mostHello-9)...),
		{22, 3, 1, 0, 4, 1, 255, 255, 255}, // crypto/tls refuses it at once
	} {
		if lacks := HelloLacks(other); lacks != 0 {
			t.Errorf("%.10x lacks %d", other, lacks)
		}
	}
	for in := []byte{22, 3, 1, 255, 255, 1, 1, 0, 0}; len(in) < mostHello; in = append(in, bytes.Repeat([]byte{0}, HelloLacks(in))...) {
		if lacks := HelloLacks(in); lacks <= 0 || len(in)+lacks > mostHello {
			t.Fatalf("%d bytes of an endless record lack %d", len(in), lacks)
		}
	}
}
