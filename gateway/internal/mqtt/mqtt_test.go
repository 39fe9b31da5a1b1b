package mqtt

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hone-go/hone/internal/testrun"
)

// packet is a packet of a first byte and parts: strings as they are.
func packet(first byte, parts ...string) []byte {
	body := strings.Join(parts, "")
	return append(appendLength([]byte{first}, len(body)), body...)
}

// text is a string as the protocol has it.
func text(s string) string { return string([]byte{byte(len(s) >> 8), byte(len(s))}) + s }

// props are properties as the protocol has them.
func props(parts ...string) string {
	all := strings.Join(parts, "")
	return string(appendLength(nil, len(all))) + all
}

// hello311 and hello5 are the beginnings of CONNECT packets.
func hello311(flags byte) string { return text("MQTT") + "\x04" + string([]byte{flags, 0, 60}) }

func hello5(flags byte, properties ...string) string {
	return text("MQTT") + "\x05" + string([]byte{flags, 0, 60}) + props(properties...)
}

const (
	connectByte, publishByte, pubrelByte, subscribeByte, unsubscribeByte = 0x10, 0x30, 0x62, 0x82, 0xa2
	disconnectByte, authByte                                             = 0xe0, 0xf0
)

// cases are packets of clients, and what becomes of them.
var cases = []struct {
	name    string
	version Version
	packet  []byte
	want    string
}{
	{"CONNECT of 3.1.1", V311, packet(connectByte, hello311(2), text("c")), "hello 4 clean 60 \"c\""},
	{"CONNECT of 3.1.1 with everything", V311, packet(connectByte, hello311(0xee), text("c"), text("t"), text("bye"), text("u"), text("p")), `hello 4 clean 60 "c" will t=bye qos 1 retain user "u" password "p"`},
	{"CONNECT of 5", V5, packet(connectByte, hello5(2), text("")), `hello 5 clean 60 ""`},
	{"CONNECT of 5 with everything", V5, packet(connectByte, hello5(0xd4, "\x11\x00\x00\x00\x09", "\x21\x00\x01", "\x27\x00\x00\x01\x00", "\x22\x00\x01", "\x19\x01", "\x17\x00", "\x26", text("k"), text("v")),
		text("c"), props("\x18\x00\x00\x00\x05", "\x01\x01", "\x02\x00\x00\x00\x01", "\x03", text("text/plain"), "\x08", text("r"), "\x09", text("\xff"), "\x26", text("k"), text("v")), text("t"), text("\xff"), text("u"), text("\x00")),
		`hello 5 60 "c" will t=` + "\xff" + ` qos 2 delay 5 type "text/plain" user "u" password "\x00" expiry 9 most 256`},
	{"CONNECT with a password alone", V5, packet(connectByte, hello5(0x42), text("c"), text("p")), `hello 5 clean 60 "c" password "p"`},
	{"CONNECT of another protocol", V311, packet(connectByte, text("HTTP"), "\x04\x02\x00\x00", text("c")), "0x81"},
	{"CONNECT of version 3", V311, packet(connectByte, text("MQIsdp"), "\x03\x02\x00\x00", text("c")), "0x84 in 4"},
	{"CONNECT of version 6", V311, packet(connectByte, text("MQTT"), "\x06\x02\x00\x00", text("c")), "0x84 in 5"},
	{"CONNECT with the reserved flag", V311, packet(connectByte, hello311(3), text("c")), "0x81 in 4"},
	{"CONNECT with a will of QoS 3", V311, packet(connectByte, hello311(0x1e), text("c"), text("t"), text("")), "0x81 in 4"},
	{"CONNECT with a QoS and no will", V311, packet(connectByte, hello311(0x0a), text("c")), "0x81 in 4"},
	{"CONNECT with a retained no will", V5, packet(connectByte, hello5(0x22), text("c")), "0x81 in 5"},
	{"CONNECT of 3.1.1 with a password alone", V311, packet(connectByte, hello311(0x42), text("c"), text("p")), "0x81 in 4"},
	{"CONNECT without the user that it promises", V311, packet(connectByte, hello311(0x82), text("c")), "0x81 in 4"},
	{"CONNECT with bytes after its end", V311, packet(connectByte, hello311(2), text("c"), "x"), "0x81 in 4"},
	{"CONNECT whose client is not UTF-8", V311, packet(connectByte, hello311(2), text("\xff")), "0x81 in 4"},
	{"CONNECT whose client has a surrogate", V311, packet(connectByte, hello311(2), text("\xed\xa0\x80")), "0x81 in 4"},
	{"CONNECT whose client has a zero", V5, packet(connectByte, hello5(2), text("a\x00")), "0x81 in 5"},
	{"CONNECT whose will has no topic", V311, packet(connectByte, hello311(6), text("c"), text(""), text("")), "0x82 in 4"},
	{"CONNECT with authentication data alone", V5, packet(connectByte, hello5(2, "\x16", text("x")), text("c")), "0x82 in 5"},
	{"CONNECT with a method", V5, packet(connectByte, hello5(2, "\x15", text("x"), "\x16", text("x")), text("c")), `hello 5 clean 60 "c" method`},
	{"CONNECT with a receive maximum of 0", V5, packet(connectByte, hello5(2, "\x21\x00\x00"), text("c")), "0x82 in 5"},
	{"CONNECT with a packet size of 0", V5, packet(connectByte, hello5(2, "\x27\x00\x00\x00\x00"), text("c")), "0x82 in 5"},
	{"CONNECT with a flag of 2", V5, packet(connectByte, hello5(2, "\x17\x02"), text("c")), "0x82 in 5"},
	{"CONNECT with an expiry twice", V5, packet(connectByte, hello5(2, "\x11\x00\x00\x00\x09", "\x11\x00\x00\x00\x09"), text("c")), "0x82 in 5"},
	{"CONNECT with a topic alias", V5, packet(connectByte, hello5(2, "\x23\x00\x01"), text("c")), "0x81 in 5"},
	{"CONNECT with an unknown property", V5, packet(connectByte, hello5(2, "\x7f\x00"), text("c")), "0x81 in 5"},
	{"CONNECT with half a property", V5, packet(connectByte, hello5(2, "\x11\x00"), text("c")), "0x81 in 5"},

	{"PUBLISH of QoS 0", V311, packet(publishByte, text("a/b"), "data"), "publish a/b=data qos 0"},
	{"PUBLISH without data", V311, packet(publishByte, text("a")), "publish a= qos 0"},
	{"PUBLISH of QoS 1, again, retained", V311, packet(publishByte|0x0b, text("a"), "\x00\x07", "x"), "publish a=x qos 1 retain again id 7"},
	{"PUBLISH of QoS 2", V5, packet(publishByte|4, text("a"), "\x01\x00", props(), "x"), "publish a=x qos 2 id 256"},
	{"PUBLISH of 5 with everything", V5, packet(publishByte, text("é"), props("\x01\x00", "\x02\x00\x00\x00\x01", "\x03", text("t"), "\x08", text("r"), "\x09", text("\x00"), "\x26", text("k"), text("1"), "\x26", text("k"), text("2")), "x"), "publish é=x qos 0 type \"t\" k 1"},
	{"PUBLISH whose topic begins with a mark", V311, packet(publishByte, text("\ufeffa")), "publish \ufeffa= qos 0"},
	{"PUBLISH with id 0", V311, packet(publishByte|2, text("a"), "\x00\x00"), "0x82"},
	{"PUBLISH without a topic", V311, packet(publishByte, text("")), "0x82"},
	{"PUBLISH with a wildcard", V5, packet(publishByte, text("a/+"), props()), "0x90"},
	{"PUBLISH with a wildcard for all", V311, packet(publishByte, text("#")), "0x90"},
	{"PUBLISH whose answers have a wildcard", V5, packet(publishByte, text("a"), props("\x08", text("#"))), "0x90"},
	{"PUBLISH with an alias", V5, packet(publishByte, text("a"), props("\x23\x00\x01")), "0x94"},
	{"PUBLISH with an alias alone", V5, packet(publishByte, text(""), props("\x23\x00\x01")), "0x94"},
	{"PUBLISH with a subscription", V5, packet(publishByte, text("a"), props("\x0b\x01")), "0x81"},
	{"PUBLISH with a format of 2", V5, packet(publishByte, text("a"), props("\x01\x02")), "0x82"},
	{"PUBLISH whose topic has a zero", V311, packet(publishByte, text("a\x00b")), "0x81"},
	{"PUBLISH whose topic is too long", V311, packet(publishByte, "\x00\x05a"), "0x81"},
	{"PUBLISH whose properties are too long", V5, packet(publishByte, text("a"), "\x05"), "0x81"},
	{"PUBLISH without properties", V5, packet(publishByte, text("a")), "0x81"},
	{"PUBLISH whose properties have a long length", V5, packet(publishByte, text("a"), "\x80\x00"), "0x81"},

	{"PUBREL", V311, packet(pubrelByte, "\x00\x07"), "pubrel 7 0x00"},
	{"PUBREL with a code", V5, packet(pubrelByte, "\x00\x07\x92"), "pubrel 7 0x92"},
	{"PUBREL with a reason", V5, packet(pubrelByte, "\x00\x07\x00", props("\x1f", text("r"))), "pubrel 7 0x00"},
	{"PUBREL with id 0", V311, packet(pubrelByte, "\x00\x00"), "0x82"},
	{"PUBREL with another code", V5, packet(pubrelByte, "\x00\x07\x01"), "0x82"},
	{"PUBREL of 3.1.1 with a code", V311, packet(pubrelByte, "\x00\x07\x00"), "0x81"},
	{"SUBSCRIBE", V311, packet(subscribeByte, "\x00\x07", text("a"), "\x00", text("b/#"), "\x02"), "subscribe 7 2"},
	{"SUBSCRIBE of 5", V5, packet(subscribeByte, "\x00\x07", props("\x0b\x7f"), text("a"), "\x2e"), "subscribe 7 1"},
	{"SUBSCRIBE with id 0", V311, packet(subscribeByte, "\x00\x00", text("a"), "\x00"), "0x82"},
	{"SUBSCRIBE to nothing", V311, packet(subscribeByte, "\x00\x07"), "0x82"},
	{"SUBSCRIBE to an empty filter", V311, packet(subscribeByte, "\x00\x07", text(""), "\x00"), "0x82"},
	{"SUBSCRIBE with QoS 3", V311, packet(subscribeByte, "\x00\x07", text("a"), "\x03"), "0x82"},
	{"SUBSCRIBE of 3.1.1 with options of 5", V311, packet(subscribeByte, "\x00\x07", text("a"), "\x04"), "0x82"},
	{"SUBSCRIBE with reserved options", V5, packet(subscribeByte, "\x00\x07", props(), text("a"), "\x40"), "0x82"},
	{"SUBSCRIBE with retain handling 3", V5, packet(subscribeByte, "\x00\x07", props(), text("a"), "\x30"), "0x82"},
	{"SUBSCRIBE, shared and not local", V5, packet(subscribeByte, "\x00\x07", props(), text("$share/g/a"), "\x04"), "0x82"},
	{"SUBSCRIBE with identifier 0", V5, packet(subscribeByte, "\x00\x07", props("\x0b\x00"), text("a"), "\x00"), "0x82"},
	{"SUBSCRIBE without options", V311, packet(subscribeByte, "\x00\x07", text("a")), "0x81"},
	{"UNSUBSCRIBE", V5, packet(unsubscribeByte, "\x00\x07", props(), text("a"), text("b"), text("c")), "unsubscribe 7 3"},
	{"UNSUBSCRIBE from nothing", V311, packet(unsubscribeByte, "\x00\x07"), "0x82"},
	{"UNSUBSCRIBE with id 0", V311, packet(unsubscribeByte, "\x00\x00", text("a")), "0x82"},
	{"PINGREQ", V311, packet(0xc0), "pingreq"},
	{"PINGREQ with more", V311, packet(0xc0, "x"), "0x81"},
	{"DISCONNECT", V311, packet(disconnectByte), "disconnect 0x00"},
	{"DISCONNECT of 3.1.1 with a code", V311, packet(disconnectByte, "\x00"), "0x81"},
	{"DISCONNECT with will", V5, packet(disconnectByte, "\x04"), "disconnect 0x04"},
	{"DISCONNECT with an expiry", V5, packet(disconnectByte, "\x00", props("\x11\x00\x00\x00\x09", "\x1f", text("r"))), "disconnect 0x00 expiry 9"},
	{"DISCONNECT with a server's code", V5, packet(disconnectByte, "\x8b"), "0x82"},
	{"DISCONNECT with a reference", V5, packet(disconnectByte, "\x00", props("\x1c", text("r"))), "0x81"},
	{"AUTH", V5, packet(authByte, "\x18", props("\x15", text("x"))), "auth 0x18"},
	{"AUTH of 3.1.1", V311, packet(authByte), "0x81"},
	{"AUTH with an unknown code", V5, packet(authByte, "\x01"), "0x82"},
	{"PUBACK, which nobody asked for", V5, packet(0x40, "\x00\x07"), "0x82"},
	{"CONNACK, which only servers send", V311, packet(0x20, "\x00\x00"), "0x82"},
}

// said is what a test says of a packet.
func said(p *Packet, err error) string {
	if f := (*Fault)(nil); errors.As(err, &f) {
		if p.Hello != nil {
			return fmt.Sprintf("0x%02x in %d", f.Code, p.Hello.Version)
		}
		return fmt.Sprintf("0x%02x", f.Code)
	}
	message := func(m *Message) string {
		text := fmt.Sprintf("%s=%s qos %d", m.Topic, m.Payload, m.QoS)
		for _, more := range []struct {
			is   bool
			says string
		}{
			{m.Retain, " retain"}, {m.Again, " again"}, {m.Has(WillDelay), fmt.Sprint(" delay ", m.Number(WillDelay))},
			{m.Has(ContentType), fmt.Sprintf(" type %q", m.Bytes(ContentType))}, {m.User("k") != nil && !m.Has(WillDelay), " k " + string(m.User("k"))},
		} {
			if more.is {
				text += more.says
			}
		}
		return text
	}
	switch p.Type {
	case Connect:
		h := p.Hello
		text := fmt.Sprint("hello ", h.Version)
		for _, more := range []struct {
			is   bool
			says string
		}{
			{h.Clean, " clean"}, {true, fmt.Sprintf(" %d %q", h.KeepAlive, h.Client)}, {h.User != nil, fmt.Sprintf(" user %q", h.User)},
			{h.Password != nil, fmt.Sprintf(" password %q", h.Password)}, {h.Has(SessionExpiry), fmt.Sprint(" expiry ", h.Number(SessionExpiry))},
			{h.Has(MaximumPacket), fmt.Sprint(" most ", h.Number(MaximumPacket))}, {h.Has(AuthMethod), " method"},
		} {
			if more.is {
				text += more.says
			}
			if strings.HasPrefix(more.says, fmt.Sprintf(" %d %q", h.KeepAlive, h.Client)) && h.Will != nil {
				text += " will " + message(h.Will)
			}
		}
		return text
	case Publish:
		if p.ID != 0 {
			return "publish " + message(&p.Message) + fmt.Sprint(" id ", p.ID)
		}
		return "publish " + message(&p.Message)
	case Pubrel:
		return fmt.Sprintf("pubrel %d 0x%02x", p.ID, p.Code)
	case Subscribe:
		return fmt.Sprintf("subscribe %d %d", p.ID, p.Filters)
	case Unsubscribe:
		return fmt.Sprintf("unsubscribe %d %d", p.ID, p.Filters)
	case Disconnect:
		if p.Has(SessionExpiry) {
			return fmt.Sprintf("disconnect 0x%02x expiry %d", p.Code, p.Number(SessionExpiry))
		}
		return fmt.Sprintf("disconnect 0x%02x", p.Code)
	case Auth:
		return fmt.Sprintf("auth 0x%02x", p.Code)
	case Pingreq:
		return "pingreq"
	}
	return fmt.Sprint("type ", p.Type)
}

// TestPackets: each packet is read, or refused with the code that the specification has for its fault.
func TestPackets(t *testing.T) {
	for _, c := range cases {
		if size, need, err := Frame(c.packet, len(c.packet)); size != len(c.packet) || need != 0 || err != nil {
			t.Errorf("%s: size %d of %d, need %d, %v", c.name, size, len(c.packet), need, err)
		}
		var p Packet
		if got := said(&p, p.Parse(c.version, c.packet)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestFrames: a packet that is not complete needs at least one byte and never more than it lacks, and what cannot become a
// packet is refused before it has arrived.
func TestFrames(t *testing.T) {
	for _, c := range cases {
		for n := range c.packet {
			size, need, err := Frame(c.packet[:n], len(c.packet))
			if size != 0 || need < 1 || need > len(c.packet)-n || err != nil {
				t.Fatalf("%s, %d bytes of %d: size %d, need %d, %v", c.name, n, len(c.packet), size, need, err)
			}
		}
	}
	for _, c := range []struct {
		in   string
		want Code
	}{
		{"\x00", Malformed}, {"\x36", Malformed}, {"\x38", Malformed}, {"\x60", Malformed}, {"\x80", Malformed}, {"\xa3", Malformed},
		{"\x11", Malformed}, {"\xc1", Malformed}, {"\xf1", Malformed},
		{"\x30\xff\xff\xff\xff", Malformed}, {"\x30\x80\x00", Malformed}, {"\x30\x80\x80\x80\x00", Malformed},
		{"\x30\x63", TooLarge}, {"\x30\xff\xff\xff\x7f", TooLarge},
	} {
		f, _ := errors.AsType[*Fault](func() error { _, _, err := Frame([]byte(c.in), 100); return err }())
		if f == nil || f.Code != c.want {
			t.Errorf("%q: %v, want %#x", c.in, f, c.want)
		}
	}
	if size, need, err := Frame(packet(publishByte, text("a"), strings.Repeat("x", 1<<20)), 2<<20); size != 1<<20+7 || need != 0 || err != nil {
		t.Errorf("a large packet: %d, %d, %v", size, need, err)
	}
}

// TestAnswers: what the server sends, byte by byte.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"CONNACK of 3.1.1", (&Welcome{Present: true}).Append(nil, V311), "20 02 01 00"},
		{"CONNACK of 5", (&Welcome{InFlight: 1024, MostBytes: 65536}).Append(nil, V5), "20 13 00 00 10 21 04 00 25 00 28 00 29 00 2a 00 27 00 01 00 00"},
		{"CONNACK of 5 with an id and an expiry", (&Welcome{Present: true, InFlight: 1, MostBytes: 1, Client: "c", Expires: true, Expiry: 258, KeepAlive: 772}).Append(nil, V5),
			"20 1f 01 00 1c 21 00 01 25 00 28 00 29 00 2a 00 27 00 00 00 01 12 00 01 63 11 00 00 01 02 13 03 04"},
		{"CONNACK that refuses", (&Welcome{Code: NotAuthorised, Reason: "no"}).Append(nil, V5), "20 08 00 87 05 1f 00 02 6e 6f"},
		{"CONNACK that refuses without a reason", (&Welcome{Code: BadClient}).Append(nil, V5), "20 03 00 85 00"},
		{"CONNACK of 3.1.1 for a version", (&Welcome{Code: BadVersion}).Append(nil, V311), "20 02 00 01"},
		{"CONNACK of 3.1.1 for a client", (&Welcome{Code: BadClient}).Append(nil, V311), "20 02 00 02"},
		{"CONNACK of 3.1.1 for want of room", (&Welcome{Code: NoRoom}).Append(nil, V311), "20 02 00 03"},
		{"CONNACK of 3.1.1 for a token", (&Welcome{Code: NotAuthorised}).Append(nil, V311), "20 02 00 05"},
		{"PUBACK", AppendAck(nil, V5, Puback, 258, Success), "40 02 01 02"},
		{"PUBACK that refuses", AppendAck(nil, V5, Puback, 258, NoRoom), "40 03 01 02 97"},
		{"PUBREC", AppendAck(nil, V311, Pubrec, 7, Success), "50 02 00 07"},
		{"PUBCOMP of an unknown id", AppendAck(nil, V5, Pubcomp, 7, UnknownID), "70 03 00 07 92"},
		{"PUBCOMP of 3.1.1", AppendAck(nil, V311, Pubcomp, 7, UnknownID), "70 02 00 07"},
		{"SUBACK of 3.1.1", AppendRefusal(nil, V311, &Packet{Type: Subscribe, ID: 7, Filters: 2}), "90 04 00 07 80 80"},
		{"SUBACK of 5", AppendRefusal(nil, V5, &Packet{Type: Subscribe, ID: 7, Filters: 2}), "90 05 00 07 00 87 87"},
		{"UNSUBACK of 3.1.1", AppendRefusal(nil, V311, &Packet{Type: Unsubscribe, ID: 7, Filters: 2}), "b0 02 00 07"},
		{"UNSUBACK of 5", AppendRefusal(nil, V5, &Packet{Type: Unsubscribe, ID: 7, Filters: 1}), "b0 04 00 07 00 11"},
		{"PINGRESP", AppendPong(nil), "d0 00"},
		{"DISCONNECT", AppendDisconnect(nil, TakenOver, ""), "e0 02 8e 00"},
		{"DISCONNECT with a reason", AppendDisconnect(nil, TooLarge, "no"), "e0 07 95 05 1f 00 02 6e 6f"},
	} {
		if got := fmt.Sprintf("% x", c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// judge checks what must hold of any bytes.
func judge(t testing.TB, v Version, in []byte) (accepted bool) {
	t.Helper()
	const most = 4 << 10
	size, need, err := Frame(in, most)
	if err != nil || need > 0 {
		if err != nil && (size != 0 || need != 0) || err == nil && size != 0 {
			t.Fatalf("%x: size %d, need %d, %v", in, size, need, err)
		}
		return false
	}
	if size < 2 || size > len(in) {
		t.Fatalf("%x: size %d", in, size)
	}
	var p Packet
	err = p.Parse(v, in[:size])
	if f := (*Fault)(nil); err != nil {
		if !errors.As(err, &f) || f.Code < 0x80 || f.What == "" {
			t.Fatalf("%x: %v", in, err)
		}
		return false
	}
	if h := p.Hello; h != nil {
		p.Topic, v = h.Client, h.Version
		if h.Will != nil && (len(h.Will.Topic) == 0 || h.Will.QoS > 2) {
			t.Fatalf("%x: a will to %q at QoS %d", in, h.Will.Topic, h.Will.QoS)
		}
	}
	switch {
	case !utf8.Valid(p.Topic) || strings.ContainsRune(string(p.Topic), 0):
		t.Fatalf("%x: the text %q", in, p.Topic)
	case p.Type == Publish && (len(p.Topic) == 0 || strings.ContainsAny(string(p.Topic), "+#") || p.QoS > 2 || (p.QoS > 0) != (p.ID > 0)):
		t.Fatalf("%x: topic %q, QoS %d, id %d", in, p.Topic, p.QoS, p.ID)
	case (p.Type == Pubrel || p.Type == Subscribe || p.Type == Unsubscribe) && p.ID == 0:
		t.Fatalf("%x: id 0", in)
	case p.Type == Publish && v == V311: // nothing is left out: its parts make the same packet
		id := ""
		if p.QoS > 0 {
			id = string([]byte{byte(p.ID >> 8), byte(p.ID)})
		}
		if again := packet(in[0], text(string(p.Topic)), id, string(p.Payload)); string(again) != string(in[:size]) {
			t.Fatalf("%x: read as %x", in[:size], again)
		}
	}
	return true
}

// TestMutatedPackets: packets with a few changes are read or refused, and what is read is valid.
func TestMutatedPackets(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	accepted, n := 0, testrun.Sized(50_000, 1_000_000)
	for range n {
		c := cases[random.IntN(len(cases))]
		in := append([]byte{}, c.packet...)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(in))
			switch random.IntN(5) {
			case 0:
				in[at] ^= 1 << random.IntN(8)
			case 1:
				in[at] = byte(random.Uint32())
			case 2:
				in = append(in[:at], append([]byte{byte(random.Uint32())}, in[at:]...)...)
			case 3:
				if in = append(in[:at], in[at+1:]...); len(in) == 0 {
					in = []byte{0}
				}
			case 4:
				in = append(in, byte(random.Uint32()))
			}
		}
		if random.IntN(2) == 0 && len(in) > 2 { // with the length that fits
			in = packet(in[0], string(in[2:]))
		}
		if judge(t, c.version, in) {
			accepted++
		}
	}
	if t.Logf("seed %d: %d of %d were read", seed, accepted, n); accepted < n/20 || accepted > n*19/20 {
		t.Error("the changes are too large or too small to show anything")
	}
}

// TestAllocations: a PUBLISH is read without garbage.
func TestAllocations(t *testing.T) {
	var p Packet
	in := packet(publishByte|2, text("site/7/meter"), "\x00\x07", props("\x26", text("Producer-Seq"), text("12")), "21.5")
	if n := testing.AllocsPerRun(100, func() {
		if p.Parse(V5, in) != nil || string(p.User("Producer-Seq")) != "12" {
			t.Error("it is not read")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPackets(f *testing.F) {
	for _, c := range cases {
		f.Add(uint8(c.version), c.packet)
	}
	f.Fuzz(func(t *testing.T, v uint8, in []byte) { judge(t, V311+Version(v&1), in) })
}
