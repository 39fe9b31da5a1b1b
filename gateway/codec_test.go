package gateway

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestMessageBytes: the bytes of each message are those that docs/gateway.md and docs/readers.md describe, they say what was
// written, and no part of them says as much.
func TestMessageBytes(t *testing.T) {
	position := &Position{Log: [16]byte{1, 15: 16}, Number: 3<<16 | 2, Sum: 5}
	parse := map[string]func([]byte) (any, error){
		"hello":       func(b []byte) (any, error) { v, err := parseHello(b); return v, err },
		"welcome":     func(b []byte) (any, error) { v, err := parseWelcome(b); return v, err },
		"opening":     func(b []byte) (any, error) { v, err := parseOpening(b); return v, err },
		"readWelcome": func(b []byte) (any, error) { v, err := parseReadWelcome(b); return v, err },
	}
	for _, c := range []struct {
		message interface{ append([]byte) []byte }
		want    string
	}{
		{hello{level: Disk, epoch: 7, next: 9, client: "c", token: "t", instance: 11, welcomed: true}, "6867773202000000000000000700000000000000090163000174010008000000000000000b020000"},
		{welcome{level: Disk, epoch: 7, last: 8, window: 9, most: 10, idle: 11 * time.Second, expiry: time.Hour, summed: true, sum: 12}, "686777320200000000000000070000000000000008000000090000000a0000000b00000e100100040000000c"},
		{opening{start: FromTime, anew: true, yields: true, at: 2, share: 1, shares: 3, window: 4, name: "r", token: "t", client: "c", prefix: "p", own: position, instance: 6, resume: position, topic: "a/"}, "686772310309000000000000000200010003000000040172000174010001630200017003001c0100000000000000000000000000001000000000000300020000000504001c010000000000000000000000000000100000000000030002000000050500080000000000000006060002612f"},
		{readWelcome{log: position.Log, number: 1, generation: 2, window: 3, share: 4, shares: 5, idle: 6 * time.Second}, "686772310100000000000000000000000000001000000000000000010000000000000002000000030004000500000006"},
		{Gap{From: 1, To: 2, Reason: Damaged}, "020200000000000000010000000000000002"},
		{acknowledgement{1, 2, 3}, "000000000000000100000000000000020000000000000003"},
	} {
		b := c.message.append(nil)
		if got := fmt.Sprintf("%x", b); got != c.want {
			t.Errorf("%T: %s", c.message, got)
		}
		parses := parse[reflect.TypeOf(c.message).Name()]
		if parses == nil {
			continue
		}
		for n := range b {
			if got, err := parses(b[:n]); err == nil && reflect.DeepEqual(got, c.message) {
				t.Errorf("%T: the first %d of %d bytes say everything", c.message, n, len(b))
			}
		}
		if got, err := parses(b); err != nil || !reflect.DeepEqual(got, c.message) {
			t.Errorf("%+v was read as %+v, %v", c.message, got, err)
		}
	}
}

// A negative window is a mistake of the programmer, and the panic names the field.
func TestNegativeWindowPanics(t *testing.T) {
	addrs := []string{"127.0.0.1:1"}
	testrun.WantPanic(t, "gateway: Client.Window is negative; ", func() { (&Client{Addrs: addrs, ID: "c", Window: -1}).Open(t.Context()) })
	testrun.WantPanic(t, "gateway: Reader.Window is negative; ", func() { (&Reader{Addrs: addrs, Name: "r", Window: -1}).Open(t.Context()) })
}
