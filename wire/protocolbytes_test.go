package wire_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/hone-go/hone/wire"
)

// demoConversation is that of docs/protocol.md in the dialect "demo", with ids that are the text "00000001" to "00000003".
const demoConversation = `
demo client  00 00 00 10  01  30 30 30 30 30 30 30 31  6b 65 79        # Conn 3472328296227680305 "key"
demo server  00 00 00 0e  80  30 30 30 30 30 30 30 31  00              # ConnAck 3472328296227680305 ok
demo client  00 00 00 12  02  30 30 30 30 30 30 30 32  68 65 6c 6c 6f  # Submit 3472328296227680306 "hello"
demo server  00 00 00 0e  81  30 30 30 30 30 30 30 32  00              # SubmitAck 3472328296227680306 ok
demo client  00 00 00 12  02  30 30 30 30 30 30 30 33  77 6f 72 6c 64  # Submit 3472328296227680307 "world"
demo server  00 00 00 0e  81  30 30 30 30 30 30 30 33  01              # SubmitAck 3472328296227680307 failed
demo client  00 00 00 03                                               # wire: malformed
demo server  00 00 00 0e  80  00 00 00 00 00 00 00 00  01              # ConnAck 0 failed
`

// The bytes of the conversations, in docs/protocol.md and in the demo's dialect, are what the
// codec writes for the packets next to them; those of the demo are also parsed.
func TestProtocolPageBytes(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(demo )?(client|server)  ([0-9a-f ]+?) +# (\w+) (\d+) ?([a-z ]+?)? ?("[^"]*")?$`)
	seen := map[wire.Dialect]int{}
	for _, l := range line.FindAllStringSubmatch(protocolPage(t)+demoConversation, -1) {
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
		t.Errorf("%v packets are shown for the two dialects", seen)
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
