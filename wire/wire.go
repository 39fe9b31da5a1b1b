// Package wire encodes and decodes frames and packets. It does no I/O, keeps no state,
// and depends on the standard library alone.
//
// A frame is a length and a payload; the length counts its own four bytes:
//
//	0               4         5                    13
//	+---------------+---------+--------------------+- - - - - - -+
//	| length uint32 | command | id, 8 bytes        | content     |   Conn, Submit, Deliver
//	+---------------+---------+--------------------+- - - - - - -+
//
//	0               4         5                    13       14
//	+---------------+---------+--------------------+--------+- - - - - - -+
//	| length uint32 | command | id, 8 bytes        | result | content     |   ConnAck, SubmitAck
//	+---------------+---------+--------------------+--------+- - - - - - -+
//
// Numbers are big-endian. [Frame] returns the payload of the first frame in a buffer,
// [Parse] decodes it, and [Append] encodes a packet as one whole frame. A
// server that builds its reply in place uses [BeginAck] and [EndAck]
// instead, which copy nothing.
//
// Every function is safe for concurrent use on different memory. Decoding copies nothing:
// payloads and contents alias the input and are valid as long as it is.
//
// The protocol itself, for clients in any language, is in docs/protocol.md.
package wire

import "encoding/binary"

const (
	// HeaderSize is the size of the length field before every payload: a big-endian
	// unsigned 32-bit count of the whole frame, itself included.
	HeaderSize = 4

	// MinFrame is the length of the shortest valid frame: a length field and a command.
	MinFrame = HeaderSize + 1
)

// Frame returns the payload of the first frame in in, which may hold part of a frame or
// many frames.
//
//   - The frame is complete: payload is not empty and aliases in. Its
//     capacity ends with it, so appending to it cannot reach the next frame. The
//     frame took HeaderSize+len(payload) bytes of in.
//   - The frame is incomplete: need is at least 1 and nothing else is returned. need is what
//     the length still lacks while the length is incomplete, and then exactly
//     what the frame still lacks, so reading need bytes never reads too far.
//   - The frame is invalid: err is [Malformed] when the length is under [MinFrame],
//     else [TooLarge] when it is over limit. Both are returned as soon as the length
//     is complete, whatever follows it, and before anything is allocated.
//
// limit bounds the whole frame including its length field; Frame panics when it is not
// positive. The length is unsigned on every platform.
//
// Cost: 2 to 3 ns, no allocations (BenchmarkFrame).
func Frame(in []byte, limit int) (payload []byte, need int, err error) {
	if limit <= 0 {
		panic("wire: Frame needs a positive limit")
	}
	if len(in) < HeaderSize {
		return nil, HeaderSize - len(in), nil
	}
	length := binary.BigEndian.Uint32(in)
	if length < MinFrame {
		return nil, 0, Malformed
	}
	if uint64(length) > uint64(limit) {
		return nil, 0, TooLarge
	}
	end := int(length) // fits: it is at most limit
	if len(in) < end {
		return nil, end - len(in), nil
	}
	return in[HeaderSize:end:end], 0, nil
}
