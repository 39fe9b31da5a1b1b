package websocket

import (
	"bytes"
	"encoding/hex"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestInflateRFC decompresses the examples of RFC 7692 §7.2.3.
func TestInflateRFC(t *testing.T) {
	var c Compression
	for name, payload := range map[string]string{
		"a compressed block":            "f2 48 cd c9 c9 07 00",
		"two blocks":                    "f2 48 05 00 00 00 ff ff ca c9 c9 07 00",
		"a stored block":                "00 05 00 fa ff 48 65 6c 6c 6f 00",
		"a last block":                  "f3 48 cd c9 c9 07 00 00",
		"a last block and nothing more": "f3 48 cd c9 c9 07 00",
	} {
		got, f := c.inflate([]byte("dst "), unhex(t, payload), 5, true)
		if f != 0 || string(got) != "dst Hello" {
			t.Errorf("%s: %q, %v", name, got, f)
		}
	}
}

func TestInflateFaults(t *testing.T) {
	var c Compression
	big := c.deflate(nil, mostWindow, make([]byte, 1<<20))
	for _, test := range []struct {
		name    string
		payload []byte
		limit   int
		text    bool
		want    fault
	}{
		{"fits", big, 1 << 20, false, 0},
		{"one byte too many", big, 1<<20 - 1, false, faultTooBig},
		{"a bomb", big, 1000, false, faultTooBig},
		{"truncated", big[:len(big)-2], 1 << 20, false, faultInflate},
		{"a reserved block type", []byte{0x06}, 100, false, faultInflate},
		{"a stored block with a bad length", unhex(t, "00 05 00 fa fe 48"), 100, false, faultInflate},
		{"nothing at all", nil, 100, false, faultInflate},
		{"more after the last block", unhex(t, "f3 48 cd c9 c9 07 00 f2 48 cd c9 c9 07 00"), 100, false, faultInflate},
		{"a text that is not UTF-8", c.deflate(nil, mostWindow, []byte("\xff")), 100, true, faultText},
		{"the same as binary", c.deflate(nil, mostWindow, []byte("\xff")), 100, false, 0},
		{"half a character", c.deflate(nil, mostWindow, []byte("\xc3")), 100, true, faultText},
	} {
		got, f := c.inflate(make([]byte, 0, 16), test.payload, test.limit, test.text)
		if f != test.want || f != 0 && len(got) != 0 || len(got) > test.limit {
			t.Errorf("%s: %d bytes, %v; want %v", test.name, len(got), f, test.want)
		}
		if most := test.limit + 1024; cap(got) > 2*most {
			t.Errorf("%s: allocated %d bytes for a limit of %d", test.name, cap(got), test.limit)
		}
	}
}

// TestDeflate checks that messages of many sizes, in parts, survive a round trip with every
// window, and that a decompressor with only that window can read them.
func TestDeflate(t *testing.T) {
	c := &Compression{}
	text := []byte(strings.Repeat("a message that repeats itself, ", 3000))
	for window := uint8(leastWindow); window <= mostWindow; window++ {
		for _, n := range []int{0, 1, 255, 256, 257, 1000, 65535, len(text)} {
			dst := []byte("before")
			got := c.deflate(dst, window, text[:n/3], nil, text[n/3:n])
			payload, ok := bytes.CutPrefix(got, dst)
			if !ok {
				t.Fatalf("window %d: %d bytes: dst is lost", window, n)
			}
			if n > 256 && len(payload) > n/2 {
				t.Errorf("window %d: %d bytes became %d", window, n, len(payload))
			}
			back, f := c.inflate(nil, payload, n, true)
			if f != 0 || !bytes.Equal(back, text[:n]) {
				t.Errorf("window %d: %d bytes came back as %d, %v", window, n, len(back), f)
			}
			if far := farthest(t, payload); far > 1<<window {
				t.Errorf("window %d: %d bytes: refers %d back", window, n, far)
			}
		}
	}
}

func TestCompressionLevel(t *testing.T) {
	text := bytes.Repeat([]byte("a message that repeats itself, "), 100)
	for level := range 10 {
		c := &Compression{Level: level}
		if got := c.deflate(nil, mostWindow, text); len(got) > len(text)/2 {
			t.Errorf("level %d: %d bytes became %d", level, len(text), len(got))
		}
	}
	for _, level := range []int{-1, 10} {
		c := &Compression{Level: level}
		for range 2 * runtime.GOMAXPROCS(0) { // a panic must not lose a compressor
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("level %d does not panic", level)
					}
				}()
				c.deflate(nil, mostWindow, text)
			}()
		}
	}
}

// TestCompressionShared shares one Compression among many goroutines: it creates no more
// compressors and decompressors than there are CPUs.
func TestCompressionShared(t *testing.T) {
	c := &Compression{}
	text := []byte(strings.Repeat("a message that repeats itself, ", 100))
	var all sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for range 20 {
				if back, f := c.inflate(nil, c.deflate(nil, mostWindow, text), len(text), true); f != 0 || !bytes.Equal(back, text) {
					t.Errorf("%d bytes came back as %d, %v", len(text), len(back), f)
				}
			}
		})
	}
	all.Wait()
	if n := runtime.GOMAXPROCS(0); len(c.deflaters) != n || cap(c.deflaters) != n || len(c.inflaters) != n || cap(c.inflaters) != n {
		t.Errorf("%d compressors and %d decompressors of %d were returned", len(c.deflaters), len(c.inflaters), n)
	}
}

func TestPrepared(t *testing.T) {
	c := &Compression{}
	long := []byte(strings.Repeat("again ", 100))
	for _, test := range []struct {
		name     string
		p        Prepared
		window   uint8
		first    byte
		deflated bool
	}{
		{"zero", Prepared{}, 0, 0x81, false},
		{"short", Prepare(Binary, []byte("short"), c), mostWindow, 0x82, false},
		{"not agreed on", Prepare(Text, long, c), 0, 0x81, false},
		{"a smaller window", Prepare(Text, long, c), 9, 0x81, false},
		{"agreed on", Prepare(Text, long, c), mostWindow, 0xc1, true},
		{"without Compression", Prepare(Text, long, nil), mostWindow, 0x81, false},
	} {
		frame := test.p.frame(test.window)
		d := decoder{limit: 1000, window: mostWindow}
		e, f := d.next(frame)
		if f != 0 || e.used != len(frame) || e.compressed != test.deflated || frame[0] != test.first {
			t.Errorf("%s: %v, %+v of %x", test.name, f, e, frame)
		}
	}
}

func FuzzInflate(f *testing.F) {
	f.Add([]byte("f2"), 10)
	c := &Compression{}
	f.Add(c.deflate(nil, mostWindow, []byte("hello hello hello")), 17)
	f.Fuzz(func(t *testing.T, payload []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		got, fault := c.inflate(nil, payload, limit, false)
		if fault != 0 && len(got) > 0 || len(got) > limit {
			t.Fatalf("%d bytes and %v, with limit %d", len(got), fault, limit)
		}
		if fault != 0 {
			return
		}
		back, fault := c.inflate(nil, c.deflate(nil, 9, got), limit, false)
		if fault != 0 || !bytes.Equal(back, got) {
			t.Fatalf("%d bytes came back as %d, %v", len(got), len(back), fault)
		}
	})
}
