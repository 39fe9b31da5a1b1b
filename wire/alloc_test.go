package wire_test

import (
	"testing"

	"github.com/hone-go/hone/wire"
)

func TestNoAllocations(t *testing.T) {
	var errorSink error // keeps f's result, or the compiler drops the conversion to an error
	content := make([]byte, 100)
	dst := make([]byte, 0, 4096)
	submit := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: content})
	ack := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 1, Result: wire.Failed, Content: content})
	for name, f := range map[string]func(){
		"Frame whole":          func() { _, _, errorSink = wire.Frame(submit, limit) },
		"Frame incomplete":     func() { _, _, errorSink = wire.Frame(submit[:7], limit) },
		"Frame malformed":      func() { _, _, errorSink = wire.Frame([]byte{0, 0, 0, 4}, limit) },
		"Frame too large":      func() { _, _, errorSink = wire.Frame([]byte{0x40, 0, 0, 0}, limit) },
		"Parse Submit":         func() { _, errorSink = wire.Parse(submit[wire.HeaderSize:]) },
		"Parse SubmitAck":      func() { _, errorSink = wire.Parse(ack[wire.HeaderSize:]) },
		"Parse malformed":      func() { _, errorSink = wire.Parse(submit[wire.HeaderSize:10]) },
		"Parse unknown":        func() { _, errorSink = wire.Parse(content) },
		"Append Submit":        func() { dst = wire.Append(dst[:0], wire.Packet{Command: wire.Submit, Content: content}) },
		"Append SubmitAck":     func() { dst = wire.Append(dst[:0], wire.Packet{Command: wire.SubmitAck, Content: content}) },
		"Split":                func() { dst, _ = wire.Split(dst[:0], &wire.Packet{Command: wire.SubmitAck, Content: content}) },
		"BeginAck, EndAck":     func() { dst = wire.EndAck(append(wire.BeginAck(dst[:0], wire.Submit, 1), content...), 0, wire.OK) },
		"Result.Error":         func() { _ = wire.TooLarge.Error() },
		"Command.String":       func() { _ = wire.SubmitAck.String() },
		"Result as error, any": func() { errorSink = resultOf(dst) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	_ = errorSink
}

// resultOf returns a Result that the compiler does not know.
//
//go:noinline
func resultOf(b []byte) wire.Result { return wire.Result(len(b)) }
