package websocket

import (
	"encoding/binary"
	"math/bits"
)

// mask applies a masking key to p in place; the same operation masks and unmasks. The key's
// lowest byte applies to p[0]. For a piece that begins n bytes into its frame, pass
// rotated(key, n).
//
// 1 KiB takes about 20 ns and no allocations (BenchmarkMask).
func mask(p []byte, key uint32) {
	k := uint64(key)<<32 | uint64(key)
	for len(p) >= 64 {
		w := (*[64]byte)(p)
		binary.LittleEndian.PutUint64(w[0:], binary.LittleEndian.Uint64(w[0:])^k)
		binary.LittleEndian.PutUint64(w[8:], binary.LittleEndian.Uint64(w[8:])^k)
		binary.LittleEndian.PutUint64(w[16:], binary.LittleEndian.Uint64(w[16:])^k)
		binary.LittleEndian.PutUint64(w[24:], binary.LittleEndian.Uint64(w[24:])^k)
		binary.LittleEndian.PutUint64(w[32:], binary.LittleEndian.Uint64(w[32:])^k)
		binary.LittleEndian.PutUint64(w[40:], binary.LittleEndian.Uint64(w[40:])^k)
		binary.LittleEndian.PutUint64(w[48:], binary.LittleEndian.Uint64(w[48:])^k)
		binary.LittleEndian.PutUint64(w[56:], binary.LittleEndian.Uint64(w[56:])^k)
		p = p[64:]
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		p = p[8:]
	}
	if len(p) >= 4 {
		binary.LittleEndian.PutUint32(p, binary.LittleEndian.Uint32(p)^key)
		p = p[4:]
	}
	for i := range p {
		p[i] ^= byte(k)
		k >>= 8
	}
}

// rotated is the key as it applies n bytes into a frame.
func rotated(key uint32, n int) uint32 { return bits.RotateLeft32(key, -8*(n&3)) }
