package wire_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/hone-go/hone/wire"
)

// The bytes of the conversations in docs/protocol.md, in both dialects, are what the
// codec writes for the packets next to them; those of the demo are also parsed.
func TestProtocolPageBytes(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(demo )?(client|server)  ([0-9a-f ]+?) +# (\w+) (\d+) ?([a-z ]+?)? ?("[^"]*")?$`)
	seen := map[wire.Dialect]int{}
	for _, l := range line.FindAllStringSubmatch(protocolPage(t), -1) {
		d := wire.Standard
		if l[1] != "" {
			d = wire.Demo
		}
		p, ok := packetOf(l[4], l[5], l[6], l[7])
		if !ok {
			t.Errorf("cannot parse this line: %s", l[0])
			continue
		}
		seen[d]++
		want := unhex(t, l[3])
		if got := d.Append(nil, p); !bytes.Equal(got, want) {
			t.Errorf("%v: %v is % x, but on the page: %s", d, p, got, l[0])
		}
		payload, need, err := wire.Frame(want, limit)
		if err != nil || need != 0 {
			t.Errorf("%v, %d: not one whole frame: %s", err, need, l[0])
			continue
		}
		got, err := d.Parse(payload)
		if err != nil || got.Command != p.Command || got.ID != p.ID || got.Result != p.Result || !bytes.Equal(got.Content, p.Content) {
			t.Errorf("%v: read as %v, %v: %s", d, got, err, l[0])
		}
	}
	if seen[wire.Standard] < 7 || seen[wire.Demo] < 7 {
		t.Errorf("the page shows %v packets for the two dialects", seen)
	}
}

// packetOf makes the packet that a line of the page describes.
func packetOf(command, id, result, content string) (p wire.Packet, ok bool) {
	for _, c := range commands {
		if c.String() == command {
			p.Command, ok = c, true
		}
	}
	var err error
	if p.ID, err = strconv.ParseUint(id, 10, 64); err != nil {
		return p, false
	}
	if content != "" {
		text, err := strconv.Unquote(content)
		if err != nil {
			return p, false
		}
		p.Content = []byte(text)
	}
	if result == "" {
		return p, ok
	}
	for r := wire.OK; r <= wire.Internal; r++ {
		if resultName(r) == result {
			p.Result = r
			return p, ok
		}
	}
	return p, false
}

// TestPacketOf checks the parser of the lines.
func TestPacketOf(t *testing.T) {
	if p, ok := packetOf("SubmitAck", "3", "too large", `"x"`); !ok || p.Command != wire.SubmitAck || p.ID != 3 || p.Result != wire.TooLarge || string(p.Content) != "x" {
		t.Errorf("%v, %v", p, ok)
	}
	for _, wrong := range [][4]string{{"Ask", "3"}, {"Submit", "x"}, {"SubmitAck", "3", "so so"}, {"Submit", "3", "", "x"}} {
		if p, ok := packetOf(wrong[0], wrong[1], wrong[2], wrong[3]); ok {
			t.Errorf("%q is %s", wrong, fmt.Sprint(p))
		}
	}
}
