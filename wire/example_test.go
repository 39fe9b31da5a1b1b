package wire_test

import (
	"bytes"
	"fmt"

	"github.com/hone-go/hone/wire"
)

// The inner loop of a server: take the whole frames out of the buffer, append each reply
// after the last one, and keep the rest until more bytes arrive.
func Example() {
	const limit = 64 << 10

	in := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 7, Content: []byte("hello")})
	in = wire.Append(in, wire.Packet{Command: wire.Submit, ID: 8, Content: []byte("world")})
	in = in[:len(in)-3] // the rest has not arrived yet

	var out []byte
	for {
		payload, need, err := wire.Frame(in, limit)
		if err != nil {
			fmt.Println("refuse and close:", err)
			break
		}
		if need > 0 {
			fmt.Println("wait for", need, "bytes")
			break
		}
		in = in[wire.HeaderSize+len(payload):]

		request, err := wire.Parse(payload)
		if err != nil {
			fmt.Println("refuse and close:", err)
			break
		}
		start := len(out)
		out = wire.BeginAck(out, request.Command, request.ID)
		out = append(out, bytes.ToUpper(request.Content)...)
		out = wire.EndAck(out, start, wire.OK)
	}
	fmt.Printf("% x\n", out)
	// Output:
	// wait for 3 bytes
	// 00 00 00 13 82 00 00 00 00 00 00 00 07 00 48 45 4c 4c 4f
}

// The client's side of the same: an ack's result is an error when it is not OK.
func ExampleParse() {
	frame := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 7, Result: wire.TooLarge})

	payload, _, err := wire.Frame(frame, 64<<10)
	if err != nil {
		fmt.Println(err)
		return
	}
	ack, err := wire.Parse(payload)
	if err == nil && ack.Result != wire.OK {
		err = ack.Result
	}
	fmt.Println(ack.Command, ack.ID, err)
	// Output: SubmitAck 7 wire: too large
}
