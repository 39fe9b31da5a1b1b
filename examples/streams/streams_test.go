package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/hone-go/hone/engine"
)

// Commands that arrive together are served in one visit. Those that never wait work without
// an engine.
func TestCommands(t *testing.T) {
	sum := fmt.Sprintf("%08x\n", crc32.ChecksumIEEE([]byte("hello world")))
	some := string(appendBytes(nil, 0, 5))
	for _, test := range []struct {
		name, in, want string
		used           int
		err            error
	}{
		{"nothing", "", "", 0, nil},
		{"an upload", "put 11\nhello world", sum, 18, nil},
		{"an upload of nothing", "put 0\n", "00000000\n", 6, nil},
		{"a download", "get 5\n", "5\n" + some, 6, nil},
		{"a download of nothing", "get 0\n", "0\n", 6, nil},
		{"carriage return", "get 5\r\n", "5\n" + some, 7, nil},
		{"pipelined", "get 5\nput 11\nhello worldget 0\n", "5\n" + some + sum + "0\n", 30, nil},
		{"unfinished", "get 0\nget 1", "0\n", 6, nil},
		{"part of an upload", "put 11\nhello", "", 0, errors.ErrUnsupported}, // waiting requires an engine
		{"unknown", "get 0\npot 5\nget 0\n", "0\nerror: malformed\n", 12, engine.Malformed},
		{"no number", "get five\n", "error: malformed\n", 9, engine.Malformed},
		{"less than nothing", "put -1\n", "error: malformed\n", 7, engine.Malformed},
		{"more than 2^40", "get 1099511627776\n", "error: malformed\n", 18, engine.Malformed},
		{"a feed without pause", "feed 0\n", "error: malformed\n", 7, engine.Malformed},
		{"a line too long", "get 0\n" + string(make([]byte, maxLine)), "0\nerror: too_large\n", 70, engine.TooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			var turn engine.Turn
			used, _, err := Protocol{}.Advance(&turn, []byte(test.in))
			if string(turn.Out) != test.want || used != test.used || err != test.err {
				t.Errorf("%q: answered %q, %d used, %v; want %q, %d, %v", test.in, turn.Out, used, err, test.want, test.used, test.err)
			}
		})
	}
}

// The sequence does not depend on how it is split, and no chunk occurs twice.
func TestAppendBytes(t *testing.T) {
	whole := appendBytes(nil, 0, 3*chunk+5)
	var parts []byte
	for at := int64(0); at < int64(len(whole)); at += 8 {
		parts = appendBytes(parts, at, min(8, int64(len(whole))-at))
	}
	if !bytes.Equal(parts, whole) {
		t.Error("in parts the sequence is another")
	}
	if bytes.Equal(whole[:chunk], whole[chunk:2*chunk]) {
		t.Error("two chunks are the same")
	}
}

func TestCommandsAllocate0(t *testing.T) {
	in := []byte("get 5\nget 0\nput 3\nabc")
	turn := engine.Turn{Out: make([]byte, 0, 64)}
	if n := testing.AllocsPerRun(100, func() {
		turn.Out = turn.Out[:0]
		Protocol{}.Advance(&turn, in)
	}); n > 1 { // fmt has its own allocation
		t.Errorf("%v allocations per visit, want at most 1", n)
	}
}
