package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

// sample is an envelope of n records of 128 bytes, from client, with sequences from seq.
func sample(client string, seq uint64, n int) []byte {
	var e Encoder
	e.Begin(0)
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, 128)
		if err := e.Record(&Record{Client: client, Epoch: 1, Seq: seq + uint64(i), Time: 1_700_000_000_000, Data: data}); err != nil {
			panic(err)
		}
	}
	return bytes.Clone(e.Bytes())
}

// reseal gives an envelope that a test has changed the checksum of its bytes.
func reseal(b []byte) []byte {
	end := len(b) - trailerSize
	binary.BigEndian.PutUint32(b[end:], checksum(b[:end]))
	return b
}

// TestEnvelopeBytes holds the encoder to docs/envelope.md.
func TestEnvelopeBytes(t *testing.T) {
	var e Encoder
	e.Begin(9)
	if err := e.Record(&Record{Client: "ab", Epoch: 1, Seq: 2, Time: 3, Data: []byte("xyz")}); err != nil {
		t.Fatal(err)
	}
	records := "484e4556" + "01" + "01" + "00" + "00" + "00000001" + "00000022" + "0000000000000009" +
		"02" + "6162" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "00000003" + "78797a"
	if got := hex.EncodeToString(e.Bytes()); got != records+got[len(records):] || len(got) != len(records)+8 {
		t.Errorf("records: got  %s\nwant %s and a checksum", got, records)
	}
	e.BeginCheckpoint(First|Last, 0)
	if err := e.State(&State{Client: "é", Epoch: 1, Last: 2, Expiry: 3}); err != nil {
		t.Fatal(err)
	}
	states := "484e4556" + "01" + "02" + "03" + "00" + "00000001" + "0000001b" + "0000000000000000" +
		"02" + "c3a9" + "0000000000000001" + "0000000000000002" + "0000000000000003"
	if got := hex.EncodeToString(e.Bytes()); got != states+got[len(states):] || len(got) != len(states)+8 {
		t.Errorf("states: got  %s\nwant %s and a checksum", got, states)
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	want := []Record{
		{Client: "a", Epoch: 1, Seq: 1, Time: -1, Data: []byte{}},
		{Client: "a", Epoch: 1, Seq: 2, Time: 5, Data: []byte("hello")},
		{Client: strings.Repeat("b", MaxClient), Epoch: 1 << 63, Seq: 1<<64 - 1, Time: 1 << 62, Data: make([]byte, 70_000)},
	}
	var e Encoder
	e.Begin(7)
	for i := range want {
		if err := e.Record(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	size := e.Size()
	b := e.Bytes()
	if len(b) != size {
		t.Errorf("Size says %d before Bytes returns %d", size, len(b))
	}
	got, err := Decode(b)
	if err != nil || got.Kind != Records || got.Base != 7 || got.Count != len(want) {
		t.Fatalf("got %v, %v, base %d, count %d", err, got.Kind, got.Base, got.Count)
	}
	same := func(a, b Record) bool {
		return a.Client == b.Client && a.Epoch == b.Epoch && a.Seq == b.Seq && a.Time == b.Time && bytes.Equal(a.Data, b.Data)
	}
	if all := slices.Collect(got.Records()); !slices.EqualFunc(all, want, same) {
		t.Errorf("got %d records that differ from the %d written", len(all), len(want))
	}
	states := []State{{"a", 1, 2, 3}, {"b", 4, 5, -6}}
	e.BeginCheckpoint(Last, 3)
	for i := range states {
		if err := e.State(&states[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err = Decode(e.Bytes())
	if err != nil || got.Kind != Checkpoint || got.Part != Last || got.Base != 3 {
		t.Fatalf("got %v, %v, part %d, base %d", err, got.Kind, got.Part, got.Base)
	}
	if all := slices.Collect(got.States()); !slices.Equal(all, states) {
		t.Errorf("got %v, want %v", all, states)
	}
}

// TestEnvelopeFlips flips each bit of an envelope: each is noticed.
func TestEnvelopeFlips(t *testing.T) {
	good := sample("client", 1, 3)
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := Decode(bad); !errors.Is(err, ErrMalformed) {
			t.Fatalf("bit %d flipped: got %v", i, err)
		}
	}
	for n := range len(good) {
		if _, err := Decode(good[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut after %d bytes: got %v", n, err)
		}
	}
}

// TestEnvelopeRefusals changes fields and corrects the checksum.
func TestEnvelopeRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
	}{
		{"another version", func(b []byte) []byte { b[4] = 2; return b }},
		{"an unknown kind", func(b []byte) []byte { b[5] = 3; return b }},
		{"a part of records", func(b []byte) []byte { b[6] = 1; return b }},
		{"the reserved byte", func(b []byte) []byte { b[7] = 1; return b }},
		{"too many entries", func(b []byte) []byte { b[11]++; return b }},
		{"too few entries", func(b []byte) []byte { b[11]--; return b }},
		{"a longer body", func(b []byte) []byte { b[15]++; return b }},
		{"no client", func(b []byte) []byte { b[headerSize] = 0; return b }},
		{"a client that is not UTF-8", func(b []byte) []byte { b[headerSize+1] = 0xff; return b }},
		{"bytes after the entries", func(b []byte) []byte {
			b = slices.Insert(b, len(b)-trailerSize, 0)
			binary.BigEndian.PutUint32(b[12:], uint32(len(b)-headerSize-trailerSize))
			return b
		}},
	} {
		if _, err := Decode(reseal(c.change(sample("client", 1, 3)))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestEncoderLimits(t *testing.T) {
	var e Encoder
	e.Begin(0)
	for _, client := range []string{"", strings.Repeat("x", MaxClient+1), "\xff"} {
		if err := e.Record(&Record{Client: client}); !errors.Is(err, ErrMalformed) {
			t.Errorf("client %q: got %v", client, err)
		}
	}
	most := MaxEnvelope - headerSize - trailerSize - recordSize - len("c")
	if err := e.Record(&Record{Client: "c", Data: make([]byte, most+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: got %v", err)
	}
	if e.Count() != 0 {
		t.Errorf("%d entries after refusals", e.Count())
	}
	if err := e.Record(&Record{Client: "c", Data: make([]byte, most)}); err != nil {
		t.Errorf("the largest record: got %v", err)
	}
	if b := e.Bytes(); len(b) != MaxEnvelope {
		t.Errorf("%d bytes, want %d", len(b), MaxEnvelope)
	} else if _, err := Decode(b); err != nil {
		t.Errorf("the largest envelope: got %v", err)
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	var e Encoder
	r := Record{Client: "client", Epoch: 1, Data: make([]byte, 128)}
	build := func() {
		e.Begin(0)
		for range 530 {
			r.Seq++
			if e.Record(&r) != nil {
				t.Fatal("no room")
			}
		}
		e.Bytes()
	}
	build()
	if n := testing.AllocsPerRun(100, build); n != 0 {
		t.Errorf("%v allocations an envelope, want 0", n)
	}
}

// FuzzDecode: no input crashes, and what Decode accepts encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(sample("client", 1, 3), false)
	var e Encoder
	e.BeginCheckpoint(First, 4)
	if err := e.State(&State{Client: "a", Epoch: 1, Last: 2, Expiry: 3}); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(e.Bytes()), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if sealed && len(b) >= trailerSize {
			b = reseal(bytes.Clone(b)) // else the checksum would keep the fuzzer out
		}
		got, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var again Encoder
		if got.Kind == Records {
			again.Begin(got.Base)
			for r := range got.Records() {
				err = errors.Join(err, again.Record(&r))
			}
		} else {
			again.BeginCheckpoint(got.Part, got.Base)
			for s := range got.States() {
				err = errors.Join(err, again.State(&s))
			}
		}
		if err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("accepted, and encodes differently (%v)", err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var e Encoder
	r := Record{Client: "client", Epoch: 1, Data: make([]byte, 128)}
	b.ReportAllocs()
	for range b.N {
		e.Begin(0)
		for range 530 {
			if err := e.Record(&r); err != nil {
				b.Fatal(err)
			}
		}
		e.Bytes()
	}
}

func BenchmarkDecode(b *testing.B) {
	envelope := sample("client", 1, 530)
	b.ReportAllocs()
	for range b.N {
		if _, err := Decode(envelope); err != nil {
			b.Fatal(err)
		}
	}
}
