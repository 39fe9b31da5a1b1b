package websocket

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// Kind is the declared type of a message.
type Kind uint8

const (
	Text   Kind = 1 // UTF-8, which the receiver validates
	Binary Kind = 2 // any bytes
)

// opcode is a frame's type: the low four bits of its first byte.
type opcode byte

const (
	opContinuation = opcode(0)
	opText         = opcode(Text)
	opBinary       = opcode(Binary)
	opClose        = opcode(8)
	opPing         = opcode(9)
	opPong         = opcode(10)
)

// The other bits of a frame's first two bytes.
const (
	finBit        = 0x80 // the last frame of its message
	compressedBit = 0x40 // RSV1: permessage-deflate, on the first frame of a message
	reservedBits  = 0x30 // RSV2 and RSV3, which have no meaning
	opcodeBits    = 0x0F
	maskBit       = 0x80
	lengthBits    = 0x7F
	length16      = 126 // a 16-bit length follows
	length64      = 127 // a 64-bit length follows
)

const (
	mostControl = 125 // the longest payload of a control frame
	mostHead    = 14  // the longest head of a frame: two bytes, length, masking key
)

// headSize returns the length of the head of an unmasked frame with n bytes of payload.
func headSize(n int) int {
	switch {
	case n < length16:
		return 2
	case n <= 0xFFFF:
		return 4
	}
	return 10
}

// putHead writes the head of an unmasked frame with n bytes of payload to p, which must have
// headSize(n) bytes. first is the frame's first byte.
func putHead(p []byte, first byte, n int) {
	p[0] = first
	switch len(p) {
	case 2:
		p[1] = byte(n)
	case 4:
		p[1] = length16
		binary.BigEndian.PutUint16(p[2:], uint16(n))
	default:
		p[1] = length64
		binary.BigEndian.PutUint64(p[2:], uint64(n))
	}
}

// appendHead appends the head of a server's frame with n bytes of payload; first is its first byte.
func appendHead(dst []byte, first byte, n int) []byte {
	switch headSize(n) {
	case 2:
		return append(dst, first, byte(n))
	case 4:
		return append(dst, first, length16, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, first, length64), uint64(n))
}

// appendFrame appends a server's frame.
func appendFrame(dst []byte, first byte, payload []byte) []byte {
	n := len(payload)
	return append(appendHead(slices.Grow(dst, headSize(n)+n), first, n), payload...)
}

// appendMasked appends a client's frame, masked with a random key of its own.
func appendMasked(dst []byte, first byte, payload []byte) []byte {
	return appendMaskedWith(dst, rand.Uint32(), first, payload)
}

func appendMaskedWith(dst []byte, key uint32, first byte, payload []byte) []byte {
	start := len(dst)
	dst = appendHead(slices.Grow(dst, mostHead+len(payload)), first, len(payload))
	dst[start+1] |= maskBit
	dst = append(binary.LittleEndian.AppendUint32(dst, key), payload...)
	mask(dst[len(dst)-len(payload):], key)
	return dst
}

// beginFrame appends room for the head of a server's frame with an expected payload size.
// The caller appends the payload after it and then calls endFrame.
func beginFrame(dst []byte, expected int) []byte {
	return append(dst, make([]byte, headSize(expected))...)
}

// endFrame writes the head of the frame that beginFrame started, at dst[start:body]; the
// payload extends to the end of dst. It moves the payload only if its length needs a head of
// another size than expected.
func endFrame(dst []byte, start, body int, first byte) []byte {
	n := len(dst) - body
	have, want := body-start, headSize(n)
	if want > have {
		dst = append(dst, make([]byte, want-have)...)
	}
	if want != have {
		copy(dst[start+want:], dst[body:body+n])
		dst = dst[:start+want+n]
	}
	putHead(dst[start:start+want], first, n)
	return dst
}
