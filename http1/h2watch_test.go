package http1

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

// frame is one frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
}

const (
	tableSize  = "\x00\x01\x00\x00\x00\x00"
	windowSize = "\x00\x04\x00\x00\xff\xff"
	ping       = "12345678"
	oneMore    = "\x00\x00\x00\x01"
)

// received reads what the client has sent, up to where something is to be inserted.
func (w *h2watch) received(p []byte) (n int) {
	for n < len(p) && (n == 0 || !w.inserts()) {
		n += w.pass(fromClient, p[n:])
	}
	return n
}

func TestWatch(t *testing.T) {
	reset, update := frame(frameReset, 0, 1, "\x00\x00\x00\x08"), frame(8, 0, 1, oneMore)
	hello := frame(frameSettings, 0, 0, tableSize+windowSize)
	answer := frame(frameHeaders, 4, 1, "\x88")
	for name, x := range map[string]struct {
		once string
		each string // what the client sends, over and over
		sent string // and the server, after it
		want int    // how many are passed; 0: all
	}{
		"resets":                         {each: reset, want: dueBurst + 1},
		"resets of answered requests":    {each: reset, sent: answer},
		"resets that the client caused":  {each: frame(frameHeaders, 5, 1, "\x82"), sent: frame(frameReset, 0, 1, oneMore), want: dueBurst + 1},
		"PING":                           {each: frame(6, 0, 0, ping), sent: frame(6, flagAck, 0, ping), want: dueBurst + 1},
		"a PING for each part received":  {each: frame(6, 0, 0, ping) + update + update, sent: frame(frameData, 0, 1, "x")},
		"window updates":                 {each: update, want: dueBurst + 1},
		"window updates of a reader":     {each: update + update + update + update, sent: frame(frameData, 0, 1, string(make([]byte, 16384)))},
		"SETTINGS":                       {each: frame(frameSettings, 0, 0, windowSize), want: dueBurst/9 + 1},
		"empty SETTINGS":                 {each: frame(frameSettings, 0, 0, ""), want: dueBurst/8 + 1},
		"empty CONTINUATION":             {each: frame(9, 0, 1, ""), want: dueBurst + 1},
		"empty DATA":                     {each: frame(frameData, 0, 1, ""), want: dueBurst + 1},
		"DATA of padding":                {each: frame(frameData, flagPadded, 1, "\x03\x00\x00\x00"), want: dueBurst + 1},
		"ends of streams":                {each: frame(frameData, flagEnd, 1, "")},
		"DATA":                           {each: frame(frameData, 0, 1, "x")},
		"requests":                       {each: frame(frameHeaders, 5, 1, "\x82"), sent: answer},
		"PRIORITY":                       {each: frame(2, 0, 1, "\x00\x00\x00\x00\x10"), want: dueBurst + 1},
		"unknown frames":                 {each: frame(77, 0, 1, "what"), want: dueBurst + 1},
		"another size of table":          {each: frame(frameSettings, 0, 0, windowSize+tableSize), want: 1},
		"SETTINGS whose values are it":   {each: frame(frameSettings, 0, 0, "\x00\x04\x00\x01\x00\x01\x01\x01\x00\x00\x00\x00"), want: dueBurst/10 + 1},
		"SETTINGS acknowledged with one": {each: frame(frameSettings, flagAck, 0, tableSize), want: dueBurst + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time stands still
				w := newWatch()
				if n := w.received([]byte(hello)); n != len(hello) || w.found != 0 {
					t.Fatalf("the first SETTINGS: %d, %d", n, w.found)
				}
				for i := 1; i <= 3*dueBurst; i++ {
					n := w.received([]byte(x.each))
					for n := 0; n < len(x.sent); {
						n += w.pass(fromServer, []byte(x.sent)[n:])
					}
					if w.found == http2Flood || w.inserts() {
						if i != x.want || n != len(x.each) {
							t.Errorf("ended with number %d after %d bytes, want %d", i, n, x.want)
						}
						return
					}
				}
				if x.want != 0 {
					t.Errorf("passed, want the end with number %d", x.want)
				}
			})
		})
	}
}

// net/http does not see a late change of the table's size, in whatever pieces it arrives.
func TestLateTableSizeIsHidden(t *testing.T) {
	sent := frame(frameSettings, 0, 0, tableSize) + frame(frameSettings, 0, 0, windowSize+tableSize)
	want := sent[:len(sent)-5] + "\xff" + sent[len(sent)-4:]
	for _, piece := range []int{1, 2, 7, len(sent)} {
		w, got := newWatch(), []byte(sent)
		for n := 0; n < len(got); {
			n += w.received(got[n:min(n+piece, len(got))])
		}
		if string(got) != want || w.found != http2Resized {
			t.Errorf("in pieces of %d: %q, %d", piece, got, w.found)
		}
	}
}

// What costs nothing for a while may come again, and light work stays light.
func TestWatchForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, one := newWatch(), []byte(frame(6, 0, 0, ping))
		w.received([]byte(frame(frameSettings, 0, 0, "")))
		for range 10 * dueBurst {
			pass(refill)
			if w.received(one); w.found != 0 || w.work.level > 2 {
				t.Fatalf("found %d, work %d", w.found, w.work.level)
			}
		}
		for i := range dueBurst - 1 { // the last one counts
			if w.received(one); w.found != 0 || w.work.level != i+2 {
				t.Fatalf("ended with number %d of a burst; work %d", i, w.work.level)
			}
		}
		if w.received(one); w.found != http2Flood {
			t.Error("passed what is more than a burst")
		}
		w = newWatch()
		if w.received([]byte(frame(frameHeaders, 5, 1, strings.Repeat("\x82", 10*workBytes)))); w.work.level != 11 {
			t.Errorf("a large head makes work %d", w.work.level)
		}
	})
}

// Streams count while they wait for their client, heads by their size until they are answered.
func TestWatchCounts(t *testing.T) {
	w := newWatch()
	says := func(from, want int, what string) {
		t.Helper()
		for p := []byte(what); len(p) > 0; {
			p = p[w.pass(from, p):]
		}
		if w.holds != want {
			t.Errorf("%d bytes after %q, want %d", w.holds, what, want)
		}
	}
	const head = 100 * (1 + fieldHolds)
	long := strings.Repeat("\x82", usualHead+100)
	says(fromClient, 0, frame(frameSettings, 0, 0, ""))
	says(fromClient, head, frame(frameHeaders, flagEnd|flagEndHeaders, 1, long)) // the server's turn
	says(fromClient, head+streamHolds, frame(frameHeaders, flagEndHeaders, 3, "\x82"))
	says(fromClient, 2*(head+streamHolds), frame(frameHeaders, 0, 5, long[:9])+frame(frameContinuation, flagEndHeaders, 5, long[9:]))
	says(fromServer, 2*head+streamHolds, frame(frameHeaders, flagEndHeaders, 3, "\x88"))
	says(fromClient, 2*head, frame(frameData, flagEnd, 5, "abc"))
	says(fromServer, 2*head+streamHolds, frame(frameHeaders, flagEndHeaders, 5, "\x88")+frame(frameData, 0, 5, strings.Repeat("x", 65535))) // its window is closed
	says(fromClient, 2*head+streamHolds, frame(frameWindow, 0, 0, oneMore))
	says(fromClient, head, frame(frameReset, 0, 5, oneMore))
	says(fromServer, 0, frame(frameReset, 0, 1, oneMore))
	if w.holds != 0 || len(w.streams) != 1 {
		t.Errorf("%d bytes, %d streams", w.holds, len(w.streams))
	}
	large := strings.Repeat("\x82", 4096)
	says(fromClient, 4096-usualHead+mostFields+streamHolds, frame(frameHeaders, flagEndHeaders, 7, large))
	says(fromClient, 8192-usualHead+2*mostFields, frame(frameHeaders, flagEnd|flagEndHeaders, 7, large)) // its trailer
}

// FuzzWatch splits a stream at random: the verdict is the same, at the same place, and nothing but the
// identifiers of late table sizes is changed.
func FuzzWatch(f *testing.F) {
	f.Add([]byte(frame(frameSettings, 0, 0, tableSize)+frame(frameData, 0, 1, "abc")+frame(frameSettings, 0, 0, windowSize+tableSize)), uint64(1))
	f.Add(bytes.Repeat([]byte(frame(frameReset, 0, 1, oneMore)), dueBurst+2), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		synctest.Test(t, func(t *testing.T) { // time stands still
			whole := bytes.Clone(stream)
			one, at := newWatch(), 0
			for at < len(whole) && !one.inserts() {
				at += one.received(whole[at:])
			}
			parts := bytes.Clone(stream)
			random := rand.New(rand.NewPCG(seed, 0))
			two, done := newWatch(), 0
			for done < len(parts) && !two.inserts() {
				done += two.received(parts[done:min(len(parts), done+1+random.IntN(20))])
			}
			if done != at || two.found != one.found || two.insert != one.insert || !bytes.Equal(whole, parts) || len(one.streams) != len(two.streams) {
				t.Fatalf("in parts %d and %d, whole %d and %d", done, two.found, at, one.found)
			}
			for id, st := range one.streams {
				if other := two.streams[id]; other == nil || *other != *st {
					t.Fatalf("in parts %+v, whole %+v", other, st)
				}
			}
			for i := range stream {
				if whole[i] != stream[i] && (stream[i] != 1 || whole[i] != 0xff) {
					t.Fatalf("byte %d was changed", i)
				}
			}
		})
	})
}
