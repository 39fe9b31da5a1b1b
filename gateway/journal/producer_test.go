package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
)

// TestProducers holds a producer's entry and its record to docs/log-format.md.
func TestProducers(t *testing.T) {
	p := Producer{Client: "a", ID: "bc", Epoch: 1, Seq: 2, Seen: 3}
	var e Encoder
	e.Begin(0)
	must(t, e.Producer(&p))
	must(t, e.Record(&Record{Client: "a", Attributes: []Attribute{{Topic, []byte("t")}, {ContentType, []byte("c")}, p.Attribute()}}))
	good := bytes.Clone(e.Bytes())
	want := "89" + "0000001c" + "01" + "61" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "6263" + "01"
	if got := hex.EncodeToString(good[headerSize:][:len(want)/2]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	d, err := Decode(good)
	must(t, err)
	if got := slices.Collect(d.Producers()); !slices.Equal(got, []Producer{p}) {
		t.Errorf("got %+v", got)
	}
	for r := range d.Records() {
		said, is := r.Producer()
		if said.Seen = p.Seen; !is || said != p || r.Text(Topic) != "t" || r.Text(ContentType) != "c" || r.Text(Property) != "" {
			t.Errorf("got %+v, %v; topic %q, type %q", said, is, r.Text(Topic), r.Text(ContentType))
		}
	}
	if _, is := (&Record{Attributes: []Attribute{{Producing, make([]byte, 16)}}}).Producer(); is {
		t.Error("a producer without an id")
	}
	e.Begin(0)
	must(t, e.Producer(&Producer{Client: "a"}))
	if _, err := Decode(e.Bytes()); !errors.Is(err, ErrMalformed) {
		t.Errorf("an entry without an id: %v", err)
	}
}
