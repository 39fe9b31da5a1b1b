package http1

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzSniff compares the detected content types with net/http's.
func FuzzSniff(f *testing.F) {
	for _, s := range []string{
		"", "a", "hello", "{\"a\": 1}", "[1]", "<html>", " <!doctype html>", "<?xml", "%PDF-", "%!PS-Adobe-", "BM", "B", "BMx", "GIF87a", "GIF89a",
		"RIFF1234WEBPVP", "RIFF1234AVI ", "RIFF1234WAVE", "FORM1234AIFF", "ID3", "OggS\x00", "MThd\x00\x00\x00\x06", "OTTO", "ttcf", "wOFF", "wOF2",
		"PK\x03\x04", "Rar!\x1a\x07\x00", "\x1f\x8b\x08", "\x00asm", "\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "\xef\xbb\xbfx", "\xfe\xffx", "\xff\xfex",
		"\x1a\x45\xdf\xa3", "\x00\x00\x01\x00", "\x00\x01\x00\x00",
		strings.Repeat("x", 34) + "LP", strings.Repeat("x", 34) + "LPx", strings.Repeat("x", 33) + "LPx", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "    ftypmp41", "abcdftypmp4\x0c    mp4",
		strings.Repeat("x", 511) + "\x00", strings.Repeat("x", 512) + "\x00", strings.Repeat("x", 20) + "\x01" + strings.Repeat("x", 20), "tab\tand\x1bescape\f", "\x0b", "\x7f", "ümläut\x80\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := sniff(data), http.DetectContentType(data); got != want {
			t.Errorf("%q: %s, want %s", data, got, want)
		}
		for i := range min(len(data), 40) { // also shorter and shifted input, because signatures are short
			for _, part := range [][]byte{data[:i], data[i:]} {
				if got, want := sniff(part), http.DetectContentType(part); got != want {
					t.Errorf("%q: %s, want %s", part, got, want)
				}
			}
		}
	})
}

// Tries all pairs of first bytes, because the fast path decides by those.
func TestSniffAllPrefixes(t *testing.T) {
	t.Parallel()
	tails := []string{"", "F", "F87a", "F89a", "FF1234WEBPVP", "FF1234AVI ", "FF1234WAVE", "RM1234AIFF", "3", "gS\x00", "hd\x00\x00\x00\x06", "TO", "cf", "FF", "F2", "\x03\x04", "r!\x1a\x07\x00", "DF-", "PS-Adobe-", "text"}
	data := make([]byte, 0, 64)
	for a := range 256 {
		for b := range 256 {
			for _, tail := range tails {
				data = append(append(data[:0], byte(a), byte(b)), tail...)
				if got, want := sniff(data), http.DetectContentType(data); got != want {
					t.Fatalf("%q: %s, want %s", data, got, want)
				}
			}
		}
	}
}

func BenchmarkSniff(b *testing.B) {
	for name, data := range map[string]string{"hello": "Hello, World!", "json512": `{"a":"` + strings.Repeat("x", 500) + `"}`} {
		b.Run(name+"/fast", func(b *testing.B) {
			for b.Loop() {
				sniff([]byte(data))
			}
		})
		b.Run(name+"/nethttp", func(b *testing.B) {
			for b.Loop() {
				http.DetectContentType([]byte(data))
			}
		})
	}
}
