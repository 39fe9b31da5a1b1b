package wire_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/hone-go/hone/wire"
)

// The bytes of the conversation in docs/protocol.md are what the codec writes for the packets next
// to them.
func TestProtocolPageBytes(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(client|server)  ([0-9a-f ]+?) +# (\w+) (\d+) ?([a-z ]+?)? ?("[^"]*")?$`)
	lines := line.FindAllStringSubmatch(protocolPage(t), -1)
	for _, l := range lines {
		p, ok := packetOf(l[3], l[4], l[5], l[6])
		if !ok {
			t.Errorf("cannot parse this line: %s", l[0])
			continue
		}
		if want := unhex(t, l[2]); !bytes.Equal(wire.Append(nil, p), want) {
			t.Errorf("%v is % x, but on the page: %s", p, wire.Append(nil, p), l[0])
		}
	}
	if len(lines) < 7 {
		t.Errorf("%d packets are shown", len(lines))
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
