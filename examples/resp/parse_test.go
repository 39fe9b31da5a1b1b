package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// command is a command as an array.
func command(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		in   string
		want []string
		size int
		err  error
	}{
		{command("SET", "a key", "with\r\nlines") + "*", []string{"SET", "a key", "with\r\nlines"}, 42, nil},
		{command("ECHO", ""), []string{"ECHO", ""}, 20, nil},
		{"*0\r\n", nil, 4, nil},
		{"  set a\tb \r\nget", []string{"set", "a", "b"}, 12, nil},
		{"\r\n", nil, 2, nil},
		{"*1\r\n+OK\r\n", nil, 0, engine.Malformed},
		{"*1\r\n$2\r\nabc\r\n", nil, 0, engine.Malformed},
		{"*1\r\n$-1\r\n", nil, 0, engine.Malformed},
		{"*x\r\n", nil, 0, engine.Malformed},
		{"*1\n$1\r\na\r\n", nil, 0, engine.Malformed},
		{"*1025\r\n", nil, 0, engine.TooLarge},
		{"*99999999999999999999\r\n", nil, 0, engine.TooLarge},
		{"*1\r\n$3000\r\n", nil, 0, engine.TooLarge},
		{"*2\r\n$1990\r\n" + string(make([]byte, 1990)) + "\r\n$10\r\n", nil, 0, engine.TooLarge},
		{string(bytes.Repeat([]byte("x"), mostLine)), nil, 0, engine.TooLarge},
	} {
		words, size, need, err := parse([]byte(test.in), nil, 2000)
		var got []string
		for _, word := range words {
			got = append(got, string(word))
		}
		if test.err != nil && errors.Is(err, test.err) {
			continue // what was read before the fault does not matter
		}
		if !slices.Equal(got, test.want) || size != test.size || need != 0 || err != test.err {
			t.Errorf("%.60q: %q, size %d, need %d, %v; want %q, size %d, %v", test.in, got, size, need, err, test.want, test.size, test.err)
		}
	}
}

// FuzzParse finds inputs whose result depends on how they arrive, and needs that are larger than what
// is missing: an engine would wait for bytes that never come.
func FuzzParse(f *testing.F) {
	for _, in := range []string{
		command("SET", "key", "value"), command("DEL", "a", "", "b"), "*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\n",
		"GET a\r\n", "*0\r\n", "*1\r\n$-1\r\n", "*3\r\n$1\r\nx\r\n+", "\r\n", "*12\r", strings.Repeat("a", 512) + "\n",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const most = 512
		words, size, _, err := parse(in, nil, most)
		if size == 0 || err != nil {
			return
		}
		if size > len(in) {
			t.Fatalf("%q has a command of %d bytes", in, size)
		}
		for n := range size {
			_, got, need, err := parse(in[:n:n], nil, most)
			if got != 0 || err != nil || need < 1 || need > size-n {
				t.Fatalf("the first %d of %q: size %d, need %d, %v; the command has %d bytes", n, in, got, need, err, size)
			}
		}
		again, _, _, err := parse(in[:size:size], nil, most)
		if err != nil || !slices.EqualFunc(words, again, bytes.Equal) {
			t.Fatalf("%q alone is %q, %v, and was %q", in[:size], again, err, words)
		}
	})
}
