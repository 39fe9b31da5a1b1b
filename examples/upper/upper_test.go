package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// feed passes the pieces to p one by one, as an engine does: bytes that were not used come
// again, with more after them.
func feed(t *testing.T, p Protocol, pieces ...[]byte) (out string, err error) {
	t.Helper()
	var turn engine.Turn
	var in []byte
	for _, piece := range pieces {
		in = append(in, piece...)
		used, need, err := p.Advance(&turn, in)
		in = in[used:]
		switch {
		case err != nil:
			return string(turn.Out), err
		case need != 1:
			t.Fatalf("need %d after %q, want 1: only the end of the line must still come", need, piece)
		case bytes.IndexByte(in, '\n') >= 0:
			t.Fatalf("used %d bytes and left a complete line: %q", used, in)
		}
	}
	return string(turn.Out), nil
}

func TestLines(t *testing.T) {
	const tooLarge = "error: too_large, a line has at most 8 bytes\n"
	for _, test := range []struct {
		name, in, want string
		err            error
	}{
		{"nothing", "", "", nil},
		{"one", "hello\n", "HELLO\n", nil},
		{"two", "a\nb\n", "A\nB\n", nil},
		{"unfinished", "a\nb", "A\n", nil},
		{"empty", "\n\n", "\n\n", nil},
		{"carriage return", "a\r\nb\n", "A\r\nB\n", nil},
		{"not ASCII", "année\n", "ANNÉE\n", nil},
		{"not UTF-8", "a\xffb\n", "A\xffB\n", nil},
		{"longest", "1234567\n", "1234567\n", nil},
		{"too long", "a\n12345678\n", "A\n" + tooLarge, engine.TooLarge},
		{"too long already", "a\n12345678", "A\n" + tooLarge, engine.TooLarge},
		{"nothing after it", "12345678\na\n", tooLarge, engine.TooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := feed(t, Protocol{MaxLine: 8}, []byte(test.in))
			if out != test.want || err != test.err {
				t.Errorf("%q: answered %q, %v; want %q, %v", test.in, out, err, test.want, test.err)
			}
		})
	}
}

// oracle is a second implementation of the protocol, for complete input.
func oracle(in string, maxLine int) (out string, err error) {
	var b strings.Builder
	for line := range strings.Lines(in) {
		whole := strings.HasSuffix(line, "\n")
		switch {
		case len(line) > maxLine || !whole && len(line) == maxLine:
			b.Write(Protocol{MaxLine: maxLine}.Refuse(nil, nil, engine.TooLarge))
			return b.String(), engine.TooLarge
		case whole:
			b.Write(appendUpper(nil, []byte(line)))
		}
	}
	return b.String(), nil
}

// FuzzAnySplit checks that splitting the input anywhere does not change the answers.
func FuzzAnySplit(f *testing.F) {
	f.Add([]byte("hello\nworld\n"), []byte{1, 3, 2})
	f.Add([]byte("a\r\nbc"), []byte{2})
	f.Add([]byte("\n\n\xff\xc3\xa9\n"), []byte{1, 1, 1, 1})
	f.Add([]byte("short\nthis one is too long\n"), []byte{9, 9})
	f.Add([]byte("fifteen bytes, \n16 bytes it is.\n"), []byte{16})
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		const maxLine = 16
		var pieces [][]byte
		for rest := in; len(rest) > 0; {
			n := len(rest)
			if len(cuts) > 0 {
				n, cuts = min(n, int(cuts[0])), cuts[1:]
			}
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		out, err := feed(t, Protocol{MaxLine: maxLine}, pieces...)
		want, wantErr := oracle(string(in), maxLine)
		if out != want || err != wantErr {
			t.Errorf("%q in %d pieces: answered %q, %v; want %q, %v", in, len(pieces), out, err, want, wantErr)
		}
	})
}

// A line that arrives byte by byte is scanned once. Before each byte, the test overwrites
// the part that State says was scanned with newlines: scanning it again would find one.
func TestTrickleIsLinear(t *testing.T) {
	const length = 32 << 10
	var turn engine.Turn
	var scanned, overwritten int
	in := make([]byte, 0, length)
	for len(in) < length {
		in = append(in, 'x')
		if len(in) == length {
			in[length-1] = '\n'
		}
		scanned += len(in) - int(turn.State)
		used, need, err := Protocol{}.Advance(&turn, in)
		if err != nil {
			t.Fatal(err)
		}
		if len(in) == length {
			if used != length || len(turn.Out) != length || turn.State != 0 {
				t.Errorf("used %d, answered %d, state %d; want all %d, and 0", used, len(turn.Out), turn.State, length)
			}
			break
		}
		if used != 0 || need != 1 {
			t.Fatalf("after %d bytes: used %d, need %d; it scanned a byte twice", len(in), used, need)
		}
		for ; overwritten < int(turn.State); overwritten++ {
			in[overwritten] = '\n'
		}
	}
	if scanned != length {
		t.Errorf("scanned %d bytes for a line of %d", scanned, length)
	}
}

func TestAdvanceAllocates0(t *testing.T) {
	in := []byte("hello\ngrüß gott\r\n")
	turn := engine.Turn{Out: make([]byte, 0, 64)}
	if n := testing.AllocsPerRun(100, func() {
		turn.Out = turn.Out[:0]
		Protocol{}.Advance(&turn, in)
	}); n != 0 {
		t.Errorf("%v allocations per visit, want 0", n)
	}
}

func TestRefusalsAreLines(t *testing.T) {
	for why := engine.PeerClosed; why <= engine.Forced; why++ {
		said := string(Protocol{}.Refuse([]byte("A\n"), nil, why))
		if line, ok := strings.CutPrefix(said, "A\nerror: "+why.String()); !ok || strings.Count(line, "\n") != 1 {
			t.Errorf("%d: %q, want one line that names the reason", why, said)
		}
	}
	var asReason engine.Reason
	if _, err := feed(t, Protocol{MaxLine: 1}, []byte("a")); !errors.As(err, &asReason) {
		t.Errorf("Advance ends with %v, want a Reason", err)
	}
}
