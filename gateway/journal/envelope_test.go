package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
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

// TestAttributes: what a record says of its topic, its content type, its producer and its packet id is read as it was written.
func TestAttributes(t *testing.T) {
	r := Record{Client: "a", Attributes: []Attribute{{Topic, []byte("t")}, {ContentType, []byte("c")}, producer.Attribute(), {PacketID, []byte{1, 2}}}}
	said, is := r.Producer()
	if said.Seen = producer.Seen; !is || said != producer || r.Text(Topic) != "t" || r.Text(ContentType) != "c" || r.Text(Property) != "" || r.PacketID() != 258 {
		t.Errorf("%+v, %v; topic %q, type %q, id %d", said, is, r.Text(Topic), r.Text(ContentType), r.PacketID())
	}
	if _, is := (&Record{Attributes: []Attribute{{Producing, make([]byte, 16)}}}).Producer(); is {
		t.Error("a producer without an id")
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
		{"the first reserved byte", func(b []byte) []byte { b[5] = 1; return b }},
		{"an unknown part", func(b []byte) []byte { b[6] = 4; return b }},
		{"the second reserved byte", func(b []byte) []byte { b[7] = 1; return b }},
		{"too many entries", func(b []byte) []byte { b[11]++; return b }},
		{"too few entries", func(b []byte) []byte { b[11]--; return b }},
		{"a longer body", func(b []byte) []byte { b[15]++; return b }},
		{"no client", func(b []byte) []byte { b[headerSize+headSize] = 0; return b }},
		{"a client that is not UTF-8", func(b []byte) []byte { b[headerSize+headSize+1] = 0xff; return b }},
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

// versioned gives an envelope another version.
func versioned(b []byte, version byte) []byte {
	b[4] = version
	return reseal(b)
}

// TestOtherVersions: what another version has written is not damaged. It is refused by name, by every verb, and nothing
// is written.
func TestOtherVersions(t *testing.T) {
	t.Parallel()                   // it waits for fsyncs
	source := killed(t, 16, false) // in two segments, with a mark that has not seen the end
	files := segmentFiles(t, source)
	for _, version := range []byte{1, 3} {
		says := fmt.Sprintf("an envelope has version %d; this program reads version 2", version)
		refused := func(what string, err error) {
			t.Helper()
			if refusal, is := errors.AsType[*Refusal](err); !is || refusal.What != says {
				t.Errorf("%s: %v, want %s", what, err, says)
			}
			if _, is := errors.AsType[*Damage](err); is {
				t.Errorf("%s is called damaged: %v", what, err)
			}
		}
		log := openedSegments(t, filepath.Join(t.TempDir(), "data"), SegmentsOptions{})
		_, err := log.Append(t.Context(), versioned(sample("a", 1, 1), version))
		refused("an Append", err)
		appended(t, log, sample("a", 1, 1), 1)
		_, err = DecodeAt(1, versioned(sample("a", 1, 1), version))
		refused("an envelope", err)
		for _, file := range files {
			dir := copied(t, source)
			edit(t, filepath.Join(dir, filepath.Base(file)), func(b []byte) {
				all := frames(b, frameHead, 0)
				last := all[len(all)-1]
				versioned(b[last[0]:last[1]], version)
			})
			before := tree(t, dir)
			log, err := OpenReader(dir, nil)
			if err == nil { // of the last segment, opening reads all
				refused("Read of "+file, log.Read(t.Context(), 0, func(uint64, []byte) error { return nil }))
				err = errors.Join(log.Verify(t.Context(), 0, nil), log.Close())
			}
			refused("Verify of "+file, err)
			if _, err = Backup(t.Context(), dir, filepath.Join(t.TempDir(), "backup"), BackupOptions{}); err == nil {
				t.Errorf("%s: there is a backup", file)
			}
			if file == files[len(files)-1] {
				_, err = OpenSegments(dir, SegmentsOptions{})
				refused("a start with "+file, err)
			}
			if !maps.Equal(tree(t, dir), before) {
				t.Errorf("%s has changed", dir)
			}
		}
	}
	for _, file := range files {
		dir := copied(t, source)
		edit(t, filepath.Join(dir, filepath.Base(file)), func(b []byte) {
			id := logID(b[8:24])
			b[4] = 2
			binary.BigEndian.PutUint32(b[36:], id.sum(b[:36]))
		})
		before := tree(t, dir)
		if _, err := OpenSegments(dir, SegmentsOptions{}); !says(err, "has version 2; this program reads version 1; start the honed") {
			t.Errorf("%s: %v", file, err)
		}
		if !maps.Equal(tree(t, dir), before) {
			t.Errorf("%s has changed", dir)
		}
	}
}

func TestEncoderLimits(t *testing.T) {
	var e Encoder
	e.Begin(0)
	for _, client := range []string{"", strings.Repeat("x", maxClient+1), "\xff"} {
		if err := e.Record(&Record{Client: client}); !errors.Is(err, ErrMalformed) {
			t.Errorf("client %q: got %v", client, err)
		}
	}
	most := MaxEnvelope - headerSize - trailerSize - headSize - 1 - len("c") - sessionSize - 1
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

var (
	position = Position{Name: "r", Share: 2, Of: 3, Number: 1<<40 | 5, Generation: 7, Instance: 10, Away: 8, Expire: 9, Ordered: true, Moves: true}
	producer = Producer{Client: "a", ID: "bc", Epoch: 1, Seq: 2, Seen: 3}
)

// everyKind is an envelope with an entry of each kind that readers must know, and one that may be skipped.
func everyKind(t testing.TB) []byte {
	var e Encoder
	e.BeginCheckpoint(First, 4, nil)
	err := errors.Join(
		e.Clock(Clock{Time: 1, Highest: 2, Running: 3, Since: 4, Moments: []Moment{{5, -6}}}),
		e.Record(&Record{Client: "a", Epoch: 1, Seq: 2, Time: 3, Data: []byte("xyz"),
			Attributes: []Attribute{{Topic, []byte("t")}, {Property, []byte("\x01nv")}, {99, nil}}}),
		e.State(&State{Client: "a", Epoch: 1, Last: 2, Seen: 3, Claim: true, Summed: true, Sum: 4, Instance: 5}),
		e.Forgetting(&Forgetting{"b", 6}),
		e.Tombstone(7),
		e.words(maySkip|99, 8),
		e.Trim(9),
		e.Identity([16]byte{1, 2, 3}),
		e.Position(&position),
		e.Producer(&producer),
		e.Packets("c", 7, true, map[uint16]uint64{258: 3}),
	)
	must(t, err)
	return bytes.Clone(e.Bytes())
}

// TestEnvelopeBytes holds the encoder to docs/log-format.md.
func TestEnvelopeBytes(t *testing.T) {
	got := hex.EncodeToString(everyKind(t))
	want := "484e4556" + "02" + "00" + "01" + "00" + "0000000b" + "0000014b" + "0000000000000004" +
		"05" + "00000030" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "0000000000000004" + "0000000000000005" + "fffffffffffffffa" +
		"01" + "0000002b" + "01" + "61" + "0000000000000001" + "0000000000000002" + "0000000000000003" +
		"03" + "01" + "0001" + "74" + "04" + "0003" + "016e76" + "63" + "0000" + "78797a" +
		"02" + "00000027" + "01" + "61" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "00000004" + "03" + "0000000000000005" +
		"03" + "0000000a" + "01" + "62" + "0000000000000006" +
		"04" + "00000008" + "0000000000000007" +
		"e3" + "00000008" + "0000000000000008" +
		"86" + "00000008" + "0000000000000009" +
		"88" + "00000010" + "01020300000000000000000000000000" +
		"87" + "0000002f" + "01" + "72" + "0002" + "0003" + "0000010000000005" + "0000000000000007" + "000000000000000a" + "0000000000000008" + "0000000000000009" + "06" +
		"89" + "0000001c" + "01" + "61" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "6263" +
		"8a" + "00000015" + "01" + "63" + "0000000000000007" + "01" + "0102" + "0000000000000003"
	if len(got) != len(want)+8 || got[:len(want)] != want {
		t.Errorf("got  %s\nwant %s and a checksum", got, want)
	}
}

// TestEntryRefusals changes fields of entries and corrects the checksum. An unknown kind is
// skipped only if its top bit says so.
func TestEntryRefusals(t *testing.T) {
	good := everyKind(t)
	e, err := Decode(good)
	must(t, err)
	records, states := slices.Collect(e.Records()), slices.Collect(e.States())
	if len(records) != 1 || string(records[0].Data) != "xyz" || len(records[0].Attributes) != 3 || string(records[0].Attributes[1].Value) != "\x01nv" {
		t.Errorf("records %+v", records)
	}
	if len(states) != 1 || states[0] != (State{Client: "a", Epoch: 1, Last: 2, Seen: 3, Claim: true, Summed: true, Sum: 4, Instance: 5}) {
		t.Errorf("states %+v", states)
	}
	if got := slices.Collect(e.Forgettings()); !slices.Equal(got, []Forgetting{{"b", 6}}) {
		t.Errorf("forgettings %+v", got)
	}
	if got := slices.Collect(e.Tombstones()); !slices.Equal(got, []uint64{7}) {
		t.Errorf("tombstones %v", got)
	}
	if got := slices.Collect(e.Clocks()); !reflect.DeepEqual(got, []Clock{{1, 2, 3, 4, []Moment{{5, -6}}}}) {
		t.Errorf("clocks %v", got)
	}
	if to := e.Trimmed(); to != 9 {
		t.Errorf("trimmed to %d", to)
	}
	if id, is := e.Identity(); !is || id != [16]byte{1, 2, 3} {
		t.Errorf("identity %x", id)
	}
	if got := slices.Collect(e.Positions()); !slices.Equal(got, []Position{position}) {
		t.Errorf("positions %+v", got)
	}
	if got := slices.Collect(e.Producers()); !slices.Equal(got, []Producer{producer}) {
		t.Errorf("producers %+v", got)
	}
	e.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		if client != "c" || epoch != 7 || !released || !maps.Equal(seqs, map[uint16]uint64{258: 3}) {
			t.Errorf("packets of %s, %d, %v: %v", client, epoch, released, seqs)
		}
	})
	const clock, record = headerSize, headerSize + headSize + 48
	const state = record + headSize + 0x2b
	for _, c := range []struct {
		name, says string
		change     func(b []byte)
	}{
		{"kind 0", "entry 1", func(b []byte) { b[clock] = 0 }},
		{"a short clock", "entry", func(b []byte) { b[clock+4]-- }},
		{"half a moment", "entry 1", func(b []byte) { b[clock+4] -= 8 }},
		{"a long entry", "entry", func(b []byte) { b[record+1] = 1 }},
		{"too many attributes", "entry 2", func(b []byte) { b[record+headSize+26] = 9 }},
		{"a long attribute", "entry 2", func(b []byte) { b[record+headSize+28] = 1 }},
		{"no client", "entry 2", func(b []byte) { b[record+headSize] = 0 }},
		{"unknown flags", "entry 3", func(b []byte) { b[state+headSize+30] |= 16 }},
		{"a sum that is unknown", "entry 3", func(b []byte) { b[state+headSize+30] &^= 2 }},
	} {
		bad := bytes.Clone(good)
		c.change(bad)
		_, err := Decode(reseal(bad))
		if text := fmt.Sprint(err); !errors.Is(err, ErrMalformed) || !strings.Contains(text, c.says) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	newer := bytes.Clone(good)
	newer[clock] = 6
	if _, err := DecodeAt(1, reseal(newer)); !says(err, "journal: entry 1 of 11 has kind 6, which this program does not know; start the honed that wrote it") {
		t.Errorf("an unknown kind: %v", err)
	}
	for kind, bodies := range map[entryKind][]string{
		positionKind: {"\x01r", "\x02r" + strings.Repeat("\x00", positionSize)},
		producerKind: {"\x01a" + strings.Repeat("\x00", sessionSize)}, // without an id
		packetsKind:  {"", "\x01c", "\x01c\x00\x00\x00\x00\x00\x00\x00\x07", "\x01c\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x01"},
	} {
		for _, body := range bodies {
			if wellFormed(kind, []byte(body)) {
				t.Errorf("kind %d: %q is well-formed", kind, body)
			}
		}
	}
	many := Record{Client: "a", Attributes: make([]Attribute, 256)}
	var out Encoder
	out.Begin(0)
	if err := out.Record(&many); !errors.Is(err, ErrMalformed) {
		t.Errorf("256 attributes: %v", err)
	}
}

// FuzzDecode: no input crashes, and what Decode accepts encodes to the same bytes, unless it has
// entries that this program skips.
func FuzzDecode(f *testing.F) {
	f.Add(sample("client", 1, 3), false)
	f.Add(everyKind(f), true)
	f.Add(versioned(sample("client", 1, 1), 1), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if sealed && len(b) >= trailerSize {
			b = reseal(bytes.Clone(b)) // else the checksum would keep the fuzzer out
		}
		got, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.As(err, new(*Refusal)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var again Encoder
		again.BeginCheckpoint(got.Part, got.Base, nil)
		for r := range got.Records() {
			err = errors.Join(err, again.Record(&r))
		}
		for s := range got.States() {
			err = errors.Join(err, again.State(&s))
		}
		for x := range got.Forgettings() {
			err = errors.Join(err, again.Forgetting(&x))
		}
		for x := range got.Tombstones() {
			err = errors.Join(err, again.Tombstone(x))
		}
		for x := range got.Clocks() {
			err = errors.Join(err, again.Clock(x))
		}
		for x := range got.Producers() {
			err = errors.Join(err, again.Producer(&x))
		}
		if to := got.Trimmed(); to > 0 {
			err = errors.Join(err, again.Trim(to))
		}
		if count := again.Count(); err != nil || count > got.Count || count == got.Count && !sameBytes(again.Bytes(), b) {
			t.Fatalf("accepted, and encodes differently (%v)", err)
		}
	})
}

// sameBytes reports whether two envelopes have the same bytes, in any order: the entries of one
// kind come together when they are encoded again.
func sameBytes(a, b []byte) bool {
	a, b = bytes.Clone(a[:len(a)-trailerSize]), bytes.Clone(b[:len(b)-trailerSize])
	slices.Sort(a)
	slices.Sort(b)
	return bytes.Equal(a, b)
}

// An envelope gets the base of a newer checkpoint, and is whole.
func TestRebase(t *testing.T) {
	var e Encoder
	e.Begin(5)
	must(t, e.State(&State{Client: "a", Epoch: 1}))
	b := e.Bytes()
	for _, base := range []uint64{7, 6} {
		e.Rebase(base)
		if d, err := Decode(b); err != nil || d.Base != 7 || d.Count != 1 {
			t.Errorf("%d: %v, %+v", base, err, d)
		}
	}
}
