package codec

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/hone-go/hone/wire"
)

// must fails the test if the call has failed.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// framing and match parse their text.
func framing(tb testing.TB, text string) (f Framing) {
	tb.Helper()
	if err := f.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return f
}

func match(tb testing.TB, text string) (m Match) {
	tb.Helper()
	if err := m.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestFraming(t *testing.T) {
	for text, want := range map[string]string{ // of the content "hello"
		"line":         "68656c6c6f0a",
		"len16be":      "000568656c6c6f",
		"len16le":      "050068656c6c6f",
		"len32be":      "0000000568656c6c6f",
		"len32le":      "0500000068656c6c6f",
		"len16be+incl": "000768656c6c6f",
		"len16le+incl": "070068656c6c6f",
		"len32be+incl": "0000000968656c6c6f",
		"len32le+incl": "0900000068656c6c6f",
		"fixed:5":      "68656c6c6f",
	} {
		f := framing(t, text)
		message := f.Append(nil, []byte("hello"))
		if got := hex.EncodeToString(message); got != want || f.String() != text {
			t.Errorf("%s: %s, want %s; it prints as %v", text, got, want, f)
		}
		for n := range message {
			if content, used, err := f.Cut(message[:n], 5); used != 0 || err != nil {
				t.Errorf("%s: %d bytes of %d are %q, %d, %v", text, n, len(message), content, used, err)
			}
		}
		if content, used, err := f.Cut(append(message, message...), 5); string(content) != "hello" || used != len(message) || err != nil {
			t.Errorf("%s: %q, %d, %v", text, content, used, err)
		}
		if _, _, err := f.Cut(message, 4); err == nil || Explain(err).Kind != Garbage {
			t.Errorf("%s: a limit of 4 bytes lets 5 through: %v", text, err)
		}
	}
	if content, used, err := framing(t, "line").Cut([]byte("+PONG\r\n"), 9); string(content) != "+PONG" || used != 7 || err != nil {
		t.Errorf("%q, %d, %v", content, used, err)
	}
	if _, _, err := framing(t, "len32be+incl").Cut([]byte{0, 0, 0, 3, 1}, 9); err == nil {
		t.Error("a length of 3 that counts its own 4 bytes was taken")
	}
	for _, text := range []string{"", "len8", "len32", "line+incl", "fixed:5+incl", "fixed:", "fixed:0", "fixed:-1", "fixed:x", "len32be+", "LINE"} {
		if err := new(Framing).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		} else if line := err.Error(); !strings.HasPrefix(line, "load: ") {
			t.Errorf("%q: %s", text, line)
		}
	}
}

func TestMatch(t *testing.T) {
	for text, want := range map[string]string{ // of the number 0x0102 in eight bytes 0xee
		"id@0:1": "02eeeeeeeeeeeeee",
		"id@2:2": "eeee0102eeeeeeee",
		"id@0:8": "0000000000000102",
		"id@5:3": "eeeeeeeeee000102",
	} {
		m, content := match(t, text), bytes.Repeat([]byte{0xee}, 8)
		m.put(content, 0x0102)
		if got := hex.EncodeToString(content); got != want || m.String() != text {
			t.Errorf("%s: %s, want %s; it prints as %v", text, got, want, m)
		}
		if v := m.get(content); v != 0x0102&(1<<(8*m.Len)-1) && m.Len < 8 || m.Len == 8 && v != 0x0102 {
			t.Errorf("%s: %#x", text, v)
		}
	}
	for _, text := range []string{"", "id", "id@", "id@4", "id@4:0", "id@4:9", "id@-1:4", "id@4:4:be", "id@4:4:le", "4:4", "orders"} {
		if err := new(Match).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		} else if line := err.Error(); !strings.HasPrefix(line, "load: ") {
			t.Errorf("%q: %s", text, line)
		}
	}
}

// Numbers are unique among the outstanding requests, whatever their length.
func TestNumbersAreUnique(t *testing.T) {
	for _, c := range []struct {
		match string
		depth int
	}{{"id@0:1", 256}, {"id@0:2", 65_535}, {"id@0:8", 65_535}} {
		m := match(t, c.match)
		caller := Messages{Framing: framing(t, "fixed:8"), Match: m}.Codec()
		content, seen := make([]byte, 8), map[uint64]bool{}
		var first []byte
		for id := range uint64(c.depth) {
			request := caller.AppendRequest(nil, id+1, content, nil)
			if number := m.get(request); seen[number] {
				t.Fatalf("%s: number %d twice among %d", c.match, number, c.depth)
			} else if seen[number] = true; first == nil {
				first = request
			}
		}
		var a Answer
		if used, err := caller.Decode(&a, first); used != 8 || err != nil || a.ID != 1 {
			t.Fatalf("%s: %d, %v, %+v", c.match, used, err, a)
		}
		if _, err := caller.Decode(&a, append([]byte(nil), first...)); c.depth > 256 && err == nil {
			t.Errorf("%s: a second answer was taken", c.match)
		}
	}
}

// FuzzMessages splits a stream in any pieces into the same messages.
func FuzzMessages(f *testing.F) {
	for i, name := range []string{"line", "len16be", "len32le+incl", "fixed:3"} {
		f.Add(framing(f, name).Append(framing(f, name).Append(nil, []byte("abc")), []byte("xyz")), uint8(i), uint8(2))
	}
	names := []string{"line", "len16be", "len32be", "len32be+incl", "len32le", "len16le", "fixed:3"}
	f.Fuzz(func(t *testing.T, stream []byte, which, step uint8) {
		fr := framing(t, names[int(which)%len(names)])
		cutAll := func(step int) (text string) {
			var in []byte
			for rest := stream; len(rest) > 0; {
				n := min(step, len(rest))
				in, rest = append(in, rest[:n]...), rest[n:]
				for {
					content, used, err := fr.Cut(in, 1000)
					if err != nil {
						return text + " error"
					}
					if used == 0 {
						break
					}
					text += fmt.Sprintf(" %q", content)
					in = in[used:]
				}
			}
			return text
		}
		if a, b := cutAll(max(len(stream), 1)), cutAll(int(step)%9+1); a != b {
			t.Fatalf("%v: %s at once, %s in pieces", fr, a, b)
		}
	})
}

func TestMomentsQueue(t *testing.T) {
	var m Queue[int64]
	var want []int64
	random := rand.New(rand.NewPCG(3, 3))
	for i := range int64(10_000) {
		if random.IntN(9) < 5 {
			m.Push(i)
			want = append(want, i)
		} else if len(want) > 0 {
			if got := m.Pop(); got != want[0] {
				t.Fatalf("step %d: popped %d, want %d", i, got, want[0])
			}
			want = want[1:]
		}
		if m.Len() != len(want) || len(want) > 0 && m.First() != want[0] {
			t.Fatalf("step %d: %d held, want %d", i, m.Len(), len(want))
		}
	}
}

// Next finds an answer behind messages that it skips.
func TestNextSkips(t *testing.T) {
	c := Frames{}.Codec()
	c.Forget(1)
	late := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 1})
	in := wire.Append(late, wire.Packet{Command: wire.SubmitAck, ID: 2, Content: []byte("x")})
	var a Answer
	if used, err := Next(c, &a, in); used != len(in) || err != nil || a.ID != 2 || string(a.Content) != "x" {
		t.Errorf("%d of %d bytes, %v, id %d, %q", used, len(in), err, a.ID, a.Content)
	}
	c.Forget(1)
	if used, err := Next(c, &a, in[:len(late)+1]); used != len(late) || err != nil || a.ID != 0 {
		t.Errorf("%d bytes, %v, id %d, want %d", used, err, a.ID, len(late))
	}
}

func TestWebSocketHandshakeRequest(t *testing.T) {
	target := must[*wsTarget](t)(WebSocket{URL: "wss://example.com/a?b", Header: http.Header{"Origin": {"https://x"}}}.target())
	if target.network != "tcp" || target.address != "example.com:443" || target.tls.ServerName != "example.com" {
		t.Error(target.network, target.address)
	}
	if head := string(target.before) + "*" + string(target.behind); !strings.Contains(head, "GET /a?b HTTP/1.1\r\nHost: example.com\r\n") || !strings.Contains(head, "\r\nOrigin: https://x\r\n") || !strings.Contains(head, "\r\nSec-Websocket-Key: *\r\n") {
		t.Errorf("%q", head)
	}
}

func TestHTTPFindsItsServer(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1":                   "tcp 127.0.0.1:80 127.0.0.1 /",
		"https://example.com":                "tcp example.com:443 example.com /",
		"http://[::1]:8080/a%20b?c=d":        "tcp [::1]:8080 [::1]:8080 /a%20b?c=d",
		"http://unix:/run/s.sock":            "unix /run/s.sock localhost /",
		"http://unix:s.sock:/a:b?c=http://d": "unix s.sock localhost /a:b?c=http://d",
		"https://unix:/run/s.sock:/a":        "unix /run/s.sock localhost /a",
	} {
		h, err := locate(text, "http", "https", nil)
		if got := strings.Join([]string{h.network, h.address, h.host, h.uri}, " "); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
