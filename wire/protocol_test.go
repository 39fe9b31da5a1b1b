package wire_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/wire"
)

// protocolPage returns docs/protocol.md; the tests here compare it with the code.
func protocolPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// resultName returns the name of r on the page.
func resultName(r wire.Result) string { return strings.TrimPrefix(r.Error(), "wire: ") }

func TestProtocolPageListsTheResults(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z ]+) \| [^|]+ \| (stays|closes) \|$`)
	rows := row.FindAllStringSubmatch(protocolPage(t), -1)
	for i, r := range rows {
		if r[1] != strconv.Itoa(i) {
			t.Fatalf("row %d of the result table is for the code %s", i, r[1])
		}
		if want := resultName(wire.Result(i)); r[2] != want {
			t.Errorf("result %d is %q in the page and %q in the code", i, r[2], want)
		}
	}
	// The first code that prints as a number is the first without a row.
	named := 0
	for resultName(wire.Result(named)) != fmt.Sprintf("result %d", named) {
		named++
	}
	if len(rows) != named || named != int(wire.Internal)+1 {
		t.Errorf("the page lists %d results, the code names %d, the last constant is %d", len(rows), named, wire.Internal)
	}
}

func TestProtocolPageListsThePackets(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (\w+) \| 0x([0-9a-f]{2}) \| (client|server) \|`)
	rows := row.FindAllStringSubmatch(protocolPage(t), -1)
	if len(rows) != len(commands) {
		t.Fatalf("the page lists %d packets, the code knows %d", len(rows), len(commands))
	}
	for i, r := range rows {
		c := commands[i]
		if r[1] != c.String() {
			t.Errorf("packet %d is %s in the page and %v in the code", i, r[1], c)
		}
		if code := wire.Append(nil, wire.Packet{Command: c})[wire.HeaderSize]; r[2] != fmt.Sprintf("%02x", code) {
			t.Errorf("%v is 0x%s in the page and 0x%02x in the code", c, r[2], code)
		}
		if fromClient := c == wire.Conn || c == wire.Submit; fromClient != (r[3] == "client") {
			t.Errorf("%v: the page says that the %s sends it", c, r[3])
		}
	}
}

func TestProtocolPageConversation(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(client|server)  ([0-9a-f ]+?) +# (.+)$`)
	lines := line.FindAllStringSubmatch(protocolPage(t), -1)
	if len(lines) == 0 {
		t.Fatal("the page shows no conversation")
	}
	seen := map[wire.Command]bool{}
	for _, l := range lines {
		in := unhex(t, l[2])
		payload, need, err := wire.Frame(in, limit)
		if need != 0 || err == nil && wire.HeaderSize+len(payload) != len(in) {
			t.Errorf("not one whole frame: %s", l[0])
			continue
		}
		var p wire.Packet
		if err == nil {
			p, err = wire.Parse(payload)
		}
		said := fmt.Sprint(err)
		if err == nil {
			seen[p.Command] = true
			said = fmt.Sprint(p.Command, " ", p.ID)
			if isAck(p.Command) {
				said += " " + resultName(p.Result)
			}
			if len(p.Content) > 0 {
				said += fmt.Sprintf(" %q", p.Content)
			}
		}
		if said != l[3] {
			t.Errorf("the bytes of this line say %s: %s", said, l[0])
		}
	}
	if len(seen) != len(commands) {
		t.Errorf("the conversation shows only the packets %v", seen)
	}
}
