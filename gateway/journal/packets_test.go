package journal

import (
	"fmt"
	"testing"
)

// TestPackets: ids are read as they were written, and half of one makes an envelope malformed.
func TestPackets(t *testing.T) {
	var e Encoder
	e.Begin(0)
	err := e.Record(&Record{Client: "c", Epoch: 7, Seq: 3, Attributes: []Attribute{{PacketID, []byte{1, 2}}}})
	for _, more := range []error{
		e.Packets("c", 7, false, map[uint16]uint64{1: 2, 65535: 1 << 40}), e.Packets("c", 7, true, map[uint16]uint64{258: 3}), e.Packets("d", 8, false, nil),
	} {
		if err != nil || more != nil {
			t.Fatal(err, more)
		}
	}
	decoded, err := Decode(e.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for r := range decoded.Records() {
		if id := r.PacketID(); id != 258 {
			t.Errorf("the record's id is %d", id)
		}
	}
	got := ""
	decoded.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		got += fmt.Sprintln(client, epoch, released, seqs)
	})
	if want := "c 7 false map[1:2 65535:1099511627776]\nc 7 true map[258:3]\nd 8 false map[]\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, body := range []string{"", "\x01c", "\x01c\x00\x00\x00\x00\x00\x00\x00\x07", "\x01c\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x01"} {
		if wellFormed(packetsKind, []byte(body)) {
			t.Errorf("%q is well-formed", body)
		}
	}
}
