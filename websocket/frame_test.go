package websocket

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// sizes are those at which a frame's head changes, and others.
var sizes = []int{0, 1, 5, 124, 125, 126, 127, 1000, 65534, 65535, 65536, 70000}

// TestFramesRFC checks the examples of RFC 6455 §5.7.
func TestFramesRFC(t *testing.T) {
	hello := []byte("Hello")
	for _, test := range []struct {
		name, want string
		got        []byte
	}{
		{"an unmasked text", "81 05 48 65 6c 6c 6f", appendFrame(nil, 0x81, hello)},
		{"a masked text", "81 85 37 fa 21 3d 7f 9f 4d 51 58", appendMaskedWith(nil, 0x3d21fa37, 0x81, hello)},
		{"the first fragment", "01 03 48 65 6c", appendFrame(nil, 0x01, hello[:3])},
		{"the second fragment", "80 02 6c 6f", appendFrame(nil, 0x80, hello[3:])},
		{"an unmasked ping", "89 05 48 65 6c 6c 6f", appendFrame(nil, 0x89, hello)},
		{"a masked pong", "8a 85 37 fa 21 3d 7f 9f 4d 51 58", appendMaskedWith(nil, 0x3d21fa37, 0x8a, hello)},
		{"256 bytes", "82 7e 01 00" + strings.Repeat("00", 256), appendFrame(nil, 0x82, make([]byte, 256))},
		{"64 KiB", "82 7f 00 00 00 00 00 01 00 00" + strings.Repeat("00", 65536), appendFrame(nil, 0x82, make([]byte, 65536))},
	} {
		if want := unhex(t, test.want); !bytes.Equal(test.got, want) {
			t.Errorf("%s: %.40x, want %.40x", test.name, test.got, want)
		}
		d := decoder{limit: 1 << 20, server: test.got[1]&maskBit != 0}
		e, f := d.next(bytes.Clone(test.got))
		fin := test.got[0]&finBit != 0 && test.got[0]&opcodeBits != 0
		if fin && (f != 0 || e.used != len(test.got) || byte(e.op) != test.got[0]&opcodeBits) {
			t.Errorf("%s: read as %+v, %v", test.name, e, f)
		}
	}
}

// TestFrames decodes frames of every size of head, made in every way.
func TestFrames(t *testing.T) {
	for _, n := range sizes {
		payload := bytes.Repeat([]byte("0123456789abcdef~"), n/17+1)[:n]
		for name, frame := range map[string][]byte{
			"a server's": appendFrame([]byte("before"), 0x82, payload),
			"a client's": appendMasked([]byte("before"), 0x82, payload),
		} {
			frame, ok := bytes.CutPrefix(frame, []byte("before"))
			d := decoder{limit: n, server: name == "a client's"}
			e, f := d.next(frame)
			if !ok || f != 0 || e.op != opBinary || e.used != len(frame) || !bytes.Equal(e.payload, payload) {
				t.Errorf("%s, %d bytes: %v, %d used of %d", name, n, f, e.used, len(frame))
			}
		}
	}
}

// TestBeginEndFrame builds a payload after every size of head.
func TestBeginEndFrame(t *testing.T) {
	for _, expected := range sizes {
		for _, n := range sizes {
			payload := bytes.Repeat([]byte("0123456789abcdef~"), n/17+1)[:n]
			begun := beginFrame([]byte("before"), expected)
			got := endFrame(append(begun, payload...), len("before"), len(begun), 0x81)
			if want := appendFrame([]byte("before"), 0x81, payload); !bytes.Equal(got, want) {
				t.Errorf("%d bytes where %d were expected: %.40x, want %.40x", n, expected, got, want)
			}
		}
	}
}

func TestMask(t *testing.T) {
	buf := make([]byte, 200)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	for start := range 9 {
		for n := range 150 {
			for from := range 4 {
				key := [4]byte{0x11, 0x22, 0x84, 0xF8}
				p := bytes.Clone(buf)
				mask(p[start:start+n], rotated(binary.LittleEndian.Uint32(key[:]), from))
				for i := range p {
					want := buf[i]
					if i >= start && i < start+n {
						want ^= key[(i-start+from)%4]
					}
					if p[i] != want {
						t.Fatalf("%d bytes at %d, %d into the frame: byte %d is %x, want %x", n, start, from, i, p[i], want)
					}
				}
			}
		}
	}
}

// TestMaskingKeys checks that masking keys differ from frame to frame.
func TestMaskingKeys(t *testing.T) {
	keys := make(map[string]bool)
	for range 100 {
		keys[string(appendMasked(nil, 0x82, nil)[2:6])] = true
	}
	if len(keys) < 99 {
		t.Errorf("100 frames have %d masking keys", len(keys))
	}
}
