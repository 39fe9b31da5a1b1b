package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// device is a client of MQTT by hand.
type device struct {
	t       testing.TB
	nc      net.Conn
	version mqtt.Version
}

// mqttDoorOf serves s for MQTT, too, until the test ends, and returns the address.
func mqttDoorOf(t testing.TB, s *Server) string {
	t.Helper()
	ln, ended := listen(t), make(chan error, 1)
	go func() { ended <- s.ServeMQTT(ln) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return ln.Addr().String()
}

// messages is a connection over WebSocket to the door of a server for posts.
type messages struct {
	net.Conn
	t    testing.TB
	ws   *websocket.Client
	each int // bytes in a message; 0: all that was written before the next Read
	out  []byte
	in   []byte
}

func dialMessages(t testing.TB, addr string, each int, header ...string) (*messages, error) {
	o := websocket.Options{Subprotocols: []string{"other", "mqtt"}, Header: http.Header{}}
	for _, h := range header {
		o.Header.Set("Origin", h)
	}
	ws, err := websocket.Dial(soon(t), "ws://"+addr+"/mqtt", o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { ws.Close(websocket.NormalClosure, "") })
	return &messages{t: t, ws: ws, each: each}, nil
}

func (m *messages) Write(b []byte) (int, error) {
	for m.out = append(m.out, b...); m.each > 0 && len(m.out) > 0; m.out = m.out[m.each:] {
		m.ws.Write(m.t.Context(), websocket.Binary, m.out[:m.each])
	}
	return len(b), nil // whether the server has closed shows a Read
}

func (m *messages) Read(b []byte) (int, error) {
	if len(m.out) > 0 {
		m.ws.Write(m.t.Context(), websocket.Binary, m.out)
		m.out = nil
	}
	for len(m.in) == 0 {
		kind, in, err := m.ws.Read(soon(m.t), nil)
		if closed, is := errors.AsType[*websocket.CloseError](err); is && closed.Code == websocket.NormalClosure {
			return 0, io.EOF
		}
		if err != nil || kind != websocket.Binary {
			m.t.Fatalf("kind %v, %v", kind, err)
		}
		m.in = in
	}
	n := copy(b, m.in)
	m.in = m.in[n:]
	return n, nil
}

func dialMQTT(t testing.TB, addr string, version mqtt.Version) *device {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	nc.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { nc.Close() })
	return &device{t, nc, version}
}

// text is a string as the protocol has it.
func text(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// sized are parts after the length of all.
func sized(parts ...string) string {
	body, size := strings.Join(parts, ""), []byte{}
	n := len(body)
	for ; n > 0x7f; n >>= 7 {
		size = append(size, byte(n)|0x80)
	}
	return string(append(size, byte(n))) + body
}

// properties are those of a packet, of a device of version 5.
func (d *device) properties(parts ...string) string {
	if d.version != mqtt.V5 {
		return ""
	}
	return sized(parts...)
}

func user(name, value string) string { return "\x26" + text(name) + text(value) }

// send sends a packet.
func (d *device) send(first byte, parts ...string) {
	d.t.Helper()
	if _, err := io.WriteString(d.nc, string([]byte{first})+sized(parts...)); err != nil {
		d.t.Fatal(err)
	}
}

// greet sends a CONNECT: flags, keep-alive, then properties and payload.
func (d *device) greet(flags byte, keepAlive byte, properties string, payload ...string) {
	d.t.Helper()
	d.send(0x10, text("MQTT"), string([]byte{byte(d.version), flags, 0, keepAlive}), d.properties(properties), strings.Join(payload, ""))
}

// connect begins a client's connection, with a lasting session unless clean.
func (d *device) connect(client string, clean bool, want string) *device {
	d.t.Helper()
	flags, expiry := byte(0), "\x11\xff\xff\xff\xff"
	if clean {
		flags, expiry = 2, ""
	}
	d.greet(flags, 0, expiry, text(client))
	d.want(want)
	return d
}

// publish sends a message, with an id unless that is 0.
func (d *device) publish(qos byte, id uint16, topic, data string, properties ...string) {
	d.t.Helper()
	number := ""
	if id > 0 {
		number = string([]byte{byte(id >> 8), byte(id)})
	}
	d.send(0x30|qos<<1, text(topic), number, d.properties(properties...), data)
}

// receive returns a packet of the server in words.
func (d *device) receive() string {
	d.t.Helper()
	var head [2]byte // no packet of the server is longer than 127 bytes here
	if _, err := io.ReadFull(d.nc, head[:]); err != nil {
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			d.t.Fatal("the server says nothing")
		}
		return "closed"
	}
	b := make([]byte, head[1])
	if _, err := io.ReadFull(d.nc, b); err != nil {
		d.t.Fatal(err)
	}
	ack := func(name string) string {
		if len(b) > 2 {
			return fmt.Sprintf("%s %d 0x%x", name, binary.BigEndian.Uint16(b), b[2])
		}
		return fmt.Sprintf("%s %d", name, binary.BigEndian.Uint16(b))
	}
	switch mqtt.Type(head[0] >> 4) {
	case mqtt.Connack:
		if b[0] > 0 {
			return fmt.Sprintf("connack 0x%x present", b[1])
		}
		if at := len(b) - 3; at > 2 && b[at] == 0x13 {
			return fmt.Sprintf("connack 0x%x keep-alive %d", b[1], binary.BigEndian.Uint16(b[at+1:]))
		}
		return fmt.Sprintf("connack 0x%x", b[1])
	case mqtt.Puback:
		return ack("puback")
	case mqtt.Pubrec:
		return ack("pubrec")
	case mqtt.Pubcomp:
		return ack("pubcomp")
	case mqtt.Disconnect:
		return fmt.Sprintf("disconnect 0x%x", b[0])
	case mqtt.Pingresp:
		return "pingresp"
	}
	return fmt.Sprintf("%x %x", head[0], b)
}

// want reads packets until they are those.
func (d *device) want(all ...string) {
	d.t.Helper()
	for _, want := range all {
		if got := d.receive(); got != want {
			d.t.Fatalf("got %s, want %s", got, want)
		}
	}
}

// silent fails if the server has sent something: an answer to a ping is behind it.
func (d *device) silent() {
	d.t.Helper()
	d.send(0xc0)
	d.want("pingresp")
}

// endedFor returns how many connections have ended for a reason of the door.
func endedFor(s *Server, name string) uint64 {
	for _, own := range s.EngineStats().Own {
		if own.Name == name {
			return own.Count
		}
	}
	return 0
}

// conversations are what devices say, and what the door answers, one after the other at one server. A device that is not
// said to be greeted has clean sessions of client c.
var conversations = []struct {
	name    string
	version mqtt.Version
	greeted bool
	say     func(d *device)
	want    string // in the end, separated by commas
}{
	{"a ping", mqtt.V311, true, func(d *device) { d.send(0xc0) }, "pingresp"},
	{"QoS 0, then 1", mqtt.V311, true, func(d *device) { d.publish(0, 0, "t", "0"); d.publish(1, 7, "t", "1") }, "puback 7"},
	{"QoS 1 of 5", mqtt.V5, true, func(d *device) { d.publish(1, 65535, "t", "5", "\x03"+text("text/plain")) }, "puback 65535"},
	{"an empty message", mqtt.V311, true, func(d *device) { d.publish(1, 1, "t", "") }, "puback 1"},
	{"a retained message of 3.1.1 is an ordinary one", mqtt.V311, true, func(d *device) { d.send(0x33, text("t"), "\x00\x01", "retain") }, "puback 1"},
	{"a retained message of 5 is refused", mqtt.V5, true, func(d *device) { d.send(0x31, text("t"), sized(), "not stored") }, "disconnect 0x9a,closed"},
	{"an alias is refused", mqtt.V5, true, func(d *device) { d.publish(1, 1, "t", "not stored", "\x23\x00\x01") }, "disconnect 0x94,closed"},
	{"a long topic of 3.1.1 is refused", mqtt.V311, true, func(d *device) { d.publish(1, 1, strings.Repeat("t", 256), "not stored") }, "closed"},
	{"a long topic of 5 is refused", mqtt.V5, true, func(d *device) { d.publish(1, 1, strings.Repeat("t", 256), "not stored") }, "disconnect 0x90,closed"},
	{"a long content type is refused", mqtt.V5, true, func(d *device) { d.publish(1, 1, "t", "not stored", "\x03"+text(strings.Repeat("t", 256))) }, "disconnect 0x83,closed"},
	{"a large packet of 3.1.1", mqtt.V311, true, func(d *device) { d.publish(1, 1, "t", strings.Repeat("x", 5<<10)) }, "closed"},
	{"a large packet of 5", mqtt.V5, true, func(d *device) { d.publish(1, 1, "t", strings.Repeat("x", 5<<10)) }, "disconnect 0x95,closed"},
	{"a malformed packet of 5", mqtt.V5, true, func(d *device) { d.send(0x36) }, "disconnect 0x81,closed"},
	{"a malformed packet of 3.1.1", mqtt.V311, true, func(d *device) { d.send(0x36) }, "closed"},
	{"a protocol error", mqtt.V5, true, func(d *device) { d.publish(1, 0, "t", "\x00\x00") }, "disconnect 0x82,closed"},
	{"a second CONNECT of 5", mqtt.V5, true, func(d *device) { d.greet(2, 0, "", text("c")) }, "disconnect 0x82,closed"},
	{"a second CONNECT of 3.1.1", mqtt.V311, true, func(d *device) { d.greet(2, 0, "", text("c")) }, "closed"},
	{"SUBSCRIBE of 3.1.1", mqtt.V311, true, func(d *device) { d.send(0x82, "\x00\x05", text("a"), "\x00", text("b/#"), "\x01") }, "90 00058080"},
	{"SUBSCRIBE of 5", mqtt.V5, true, func(d *device) { d.send(0x82, "\x00\x05", sized(), text("a"), "\x00") }, "90 00050087"},
	{"UNSUBSCRIBE of 5", mqtt.V5, true, func(d *device) { d.send(0xa2, "\x00\x05", sized(), text("a"), text("b")) }, "b0 0005001111"},
	{"PUBREL of an unknown id", mqtt.V5, true, func(d *device) { d.send(0x62, "\x00\x05") }, "pubcomp 5 0x92"},
	{"PUBREL of 3.1.1", mqtt.V311, true, func(d *device) { d.send(0x62, "\x00\x05") }, "pubcomp 5"},
	{"AUTH", mqtt.V5, true, func(d *device) { d.send(0xf0) }, "disconnect 0x8c,closed"},
	{"DISCONNECT", mqtt.V311, true, func(d *device) { d.send(0xe0) }, "closed"},
	{"a session that ends cannot be made to last", mqtt.V5, true, func(d *device) { d.send(0xe0, "\x00", sized("\x11\x00\x00\x00\x01")) }, "disconnect 0x82,closed"},

	{"CONNECT and PUBLISH at once", mqtt.V5, false, func(d *device) { d.greet(2, 0, "", text("c")); d.publish(1, 9, "t", "at once") }, "connack 0x0,puback 9"},
	{"no CONNECT", mqtt.V5, false, func(d *device) { d.publish(1, 1, "t", "not stored") }, "closed"},
	{"another protocol", mqtt.V5, false, func(d *device) { io.WriteString(d.nc, "GET / HTTP/1.1\r\n\r\n") }, "closed"},
	{"version 3", mqtt.V311, false, func(d *device) { d.send(0x10, text("MQIsdp"), "\x03\x02\x00\x00", text("c")) }, "connack 0x1,closed"},
	{"version 6", mqtt.V5, false, func(d *device) { d.send(0x10, text("MQTT"), "\x06\x02\x00\x00\x00", text("c")) }, "connack 0x84,closed"},
	{"a malformed CONNECT of 3.1.1", mqtt.V311, false, func(d *device) { d.greet(3, 0, "", text("c")) }, "closed"},
	{"a malformed CONNECT of 5", mqtt.V5, false, func(d *device) { d.greet(3, 0, "", text("c")) }, "connack 0x81,closed"},
	{"a client without a name", mqtt.V5, false, func(d *device) { d.greet(2, 0, "", text("")) }, "connack 0x85,closed"},
	{"a client of 3.1.1 without a name", mqtt.V311, false, func(d *device) { d.greet(2, 0, "", text("")) }, "connack 0x2,closed"},
	{"a lasting client of 3.1.1 without a name", mqtt.V311, false, func(d *device) { d.greet(0x80, 0, "", text(""), text("u")) }, "connack 0x2,closed"},
	{"a client with the user's name", mqtt.V311, false, func(d *device) { d.greet(0x82, 0, "", text(""), text("u")); d.publish(1, 1, "t", "of the user") }, "connack 0x0,puback 1"},
	{"a client with a blank", mqtt.V5, false, func(d *device) { d.greet(2, 0, "", text("a b")) }, "connack 0x85,closed"},
	{"a client with a long name", mqtt.V311, false, func(d *device) { d.greet(2, 0, "", text(strings.Repeat("n", 65))) }, "connack 0x2,closed"},
	{"a method of authentication", mqtt.V5, false, func(d *device) { d.greet(2, 0, "\x15"+text("x"), text("c")) }, "connack 0x8c,closed"},
	{"a client that takes 127 bytes", mqtt.V5, false, func(d *device) { d.greet(2, 0, "\x27\x00\x00\x00\x7f", text("c")) }, "connack 0x95,closed"},
	{"SUBSCRIBE whose answer is larger than the client takes", mqtt.V5, false, func(d *device) {
		d.greet(2, 0, "\x27\x00\x00\x00\x80", text("c"))
		d.send(0x82, "\x00\x05", sized(), strings.Repeat(text("a")+"\x00", 127))
		d.send(0xc0)
	}, "connack 0x0,pingresp"},
	{"a retained will", mqtt.V5, false, func(d *device) { d.greet(0x26, 0, "", text("c"), sized(), text("t"), text("w")) }, "connack 0x9a,closed"},
	{"a large will", mqtt.V311, false, func(d *device) { d.greet(6, 0, "", text("c"), text("t"), text(strings.Repeat("w", mostWill))) }, "connack 0x3,closed"},
	{"a large CONNECT", mqtt.V5, false, func(d *device) { d.greet(0x82, 0, "", text("c"), text(strings.Repeat("u", mostConnect))) }, "closed"},
}

// TestMQTT: each conversation has its answers, and what is refused stores nothing.
func TestMQTT(t *testing.T) {
	converse(t, -1)
}

// TestMQTTMessages: packets of MQTT share the messages of a WebSocket, and span them.
func TestMQTTMessages(t *testing.T) {
	t.Run("many in one", func(t *testing.T) { converse(t, 0) })
	t.Run("a byte each", func(t *testing.T) { converse(t, 1) })
}

// converse has all conversations: over TCP, or with messages of each bytes.
func converse(t *testing.T, each int) {
	log := newGate()
	s := &Server{Log: log, Limits: engine.Limits{FrameSize: 5 << 10}}
	addr := mqttDoorOf(t, s)
	if each >= 0 {
		addr = strings.TrimPrefix(posts(t, s).base, "http://")
	}
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			d := &device{t: t, version: c.version}
			if each < 0 {
				d = dialMQTT(t, addr, c.version)
			} else {
				m, err := dialMessages(t, addr, each)
				must(t, err)
				d.nc = m
			}
			if c.greeted {
				d.connect("c", true, "connack 0x0")
			}
			c.say(d)
			d.want(strings.Split(c.want, ",")...)
		})
	}
	want := "c 1 0 topic=t|c 2 1 topic=t|c 3 5 topic=t type=text/plain|c 4  topic=t|c 5 retain topic=t|c 6 at once topic=t|u 1 of the user topic=t"
	if got := strings.Join(shown(t, log), "|"); got != want {
		t.Errorf("stored\n%s\nwant\n%s", got, want)
	}
	if st := s.Stats(); st.Records != 7 || st.Queued != 0 || st.QueuedSize != 0 || st.Refused == 0 {
		t.Errorf("%+v", st)
	}
	must(t, s.Shutdown(soon(t)))
	st := s.EngineStats()
	if each < 0 && (st.Ended[engine.TooLarge] != 5 || st.Ended[engine.Malformed] == 0) || st.Panics > 0 {
		t.Errorf("ended: %v", st.Ended)
	}
}

// TestMQTTHalfPackets: what has begun to arrive over WebSockets keeps to the limits of time and memory.
func TestMQTTHalfPackets(t *testing.T) {
	s := &Server{Log: newGate(), Limits: engine.Limits{TotalInput: 48 << 10}}
	s.mqtt.swept.Do(func() {}) // this test sweeps
	addr := strings.TrimPrefix(posts(t, s).base, "http://")
	half := "\x30\x80\x80\x02\x00\x01t\x00" + strings.Repeat("x", 20<<10) // of 32 KiB
	begin := func(client string) *device {
		m, err := dialMessages(t, addr, 0)
		must(t, err)
		d := &device{t, m, mqtt.V5}
		d.connect(client, true, "connack 0x0")
		must(t, m.ws.Write(t.Context(), websocket.Binary, []byte(half)))
		return d
	}
	holds := func(n int64) {
		t.Helper()
		waitFor(t, "what is held", func() bool { return s.mqtt.unread.Load()/(20<<10) == n })
	}
	slow, steady := begin("slow"), begin("steady")
	holds(2)
	begin("third").want("disconnect 0x97", "closed")
	holds(2)
	must(t, steady.nc.(*messages).ws.Write(t.Context(), websocket.Binary, []byte(strings.Repeat("x", 32<<10+4-len(half)))))
	holds(1)
	sweep(s, 5+20) // FrameTime, and FrameRate's time for 20 KiB
	holds(1)
	sweep(s, 10)
	slow.want("disconnect 0x81", "closed")
	holds(0)
	steady.publish(1, 1, "t", "x")
	steady.want("puback 1")
}

// TestMQTTWebSocket: what is not MQTT in binary messages is refused, and web pages are as they are with posts. A will is stored when a
// WebSocket ends, and whoever waits too long for a CONNECT is disconnected.
func TestMQTTWebSocket(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, Origins: []string{"https://example.com"}, Limits: engine.Limits{AuthTime: time.Second}}
	p := posts(t, s)
	addr := strings.TrimPrefix(p.base, "http://")
	for origin, refused := range map[string]bool{"https://example.com": false, "https://example.org": true} {
		if _, err := dialMessages(t, addr, 0, origin); (err != nil) != refused {
			t.Errorf("a page of %s: %v", origin, err)
		}
	}
	_, err := websocket.Dial(soon(t), "ws://"+addr+"/mqtt", websocket.Options{})
	if no, is := errors.AsType[*websocket.Refusal](err); !is || no.Status != http.StatusBadRequest {
		t.Errorf("without a subprotocol: %v", err)
	}
	p.want("426 this is a WebSocket endpoint…", "GET", "/mqtt", "")
	ends := func(m *messages, want websocket.Code) {
		t.Helper()
		_, _, err := m.ws.Read(soon(t), nil)
		if closed, is := errors.AsType[*websocket.CloseError](err); !is || closed.Code != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	silent, err := dialMessages(t, addr, 0)
	must(t, err)
	words, err := dialMessages(t, addr, 0)
	must(t, err)
	must(t, words.ws.Write(t.Context(), websocket.Text, []byte("\x10")))
	ends(words, websocket.UnsupportedData)
	ends(silent, websocket.PolicyViolation)
	begin := func(client string) *device {
		m, err := dialMessages(t, addr, 0)
		must(t, err)
		d := &device{t, m, mqtt.V5}
		d.greet(6, 0, "", text(client), sized(), text("w"), text("lost"))
		d.want("connack 0x0")
		return d
	}
	begin("a").nc.(*messages).ws.Close(websocket.GoingAway, "")
	waitFor(t, "the will", func() bool { return strings.Join(shown(t, log), "|") == "a 1 lost topic=w" })
	last := begin("b")
	log.set(true, nil)
	last.publish(1, 1, "t", "x")
	last.silent()
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(soon(t)) }()
	waitFor(t, "the drain", func() bool { _, err := net.Dial("tcp", addr); return err != nil })
	log.set(false, nil)
	last.want("puback 1")
	ends(last.nc.(*messages), websocket.GoingAway)
	must(t, <-ended)
	if got := strings.Join(shown(t, log), "|"); got != "a 1 lost topic=w|b 1 x topic=t" {
		t.Errorf("stored %s", got)
	}
}

// TestMQTTProducers: a producer's messages are stored once and in order, as posts are, and all are told so in order.
func TestMQTTProducers(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	addr := mqttDoorOf(t, s)
	d := dialMQTT(t, addr, mqtt.V5).connect("c", true, "connack 0x0")
	by := func(epoch, seq string) string { return user(epochHeader, epoch) + user(seqHeader, seq) }
	log.set(true, nil)
	for i, said := range []string{
		by("0", "0"), by("0", "1"), by("0", "1"), by("0", "4"), by("1", "0"), by("0", "9"), by("1", "0"), by("2", "1"), by("2", "x"),
		user(seqHeader, "2"), by("1", "1") + user(idHeader, "a b"), by("7", "0") + user(idHeader, "other"), user("k", "v"),
	} {
		d.publish(1, uint16(i+1), "t", fmt.Sprint("m", i+1), said)
	}
	d.silent()
	log.set(false, nil)
	d.want("puback 1", "puback 2", "puback 3", "puback 4 0x83", "puback 5", "puback 6 0x87", "puback 7", "puback 8 0x83", "puback 9 0x83",
		"puback 10 0x83", "puback 11 0x83", "puback 12", "puback 13")
	want := "c 1 m1 topic=t by=c/0/0|c 2 m2 topic=t by=c/0/1|c 3 m5 topic=t by=c/1/0|c 4 m12 topic=t by=other/7/0|c 5 m13 topic=t"
	if got := strings.Join(shown(t, log), "|"); got != want {
		t.Errorf("stored\n%s\nwant\n%s", got, want)
	}
	if st := s.Stats(); st.Duplicates != 2 || st.Ahead != 1 || st.Producers != 2 || st.Refused != 6 {
		t.Errorf("%+v", st)
	}
	d.publish(0, 0, "t", "a gap that nobody can be told", by("1", "9"))
	d.want("disconnect 0x83", "closed")
}

// TestMQTTWaitsForTheLog: nothing is acknowledged before it is stored, but at level received.
func TestMQTTWaitsForTheLog(t *testing.T) {
	for _, level := range []Level{Default, Received} {
		log := newGate()
		addr := mqttDoorOf(t, &Server{Log: log, MQTTLevel: level})
		a, b := dialMQTT(t, addr, mqtt.V311).connect("a", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V5).connect("b", true, "connack 0x0")
		log.set(true, nil)
		for id := range uint16(100) {
			a.publish(1, id+1, "t", "x")
			b.publish(1, id+1, "t", "x")
		}
		if level == Default {
			a.silent()
			b.silent()
			log.set(false, nil)
		}
		for id := range 100 {
			a.want(fmt.Sprint("puback ", id+1))
			b.want(fmt.Sprint("puback ", id+1))
		}
		log.set(false, nil)
		waitFor(t, "200 records", func() bool { return len(shown(t, log)) == 200 })
	}
}

// TestMQTTSessions: a client is one session at all doors, the newest connection has it, and one of MQTT lasts as it says.
func TestMQTTSessions(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	up, p, addr := serve(t, s), posts(t, s), mqttDoorOf(t, s)
	connect := func(version mqtt.Version, clean bool, want string) *device {
		t.Helper()
		return dialMQTT(t, addr, version).connect("c", clean, want)
	}
	frames := up.peer(t)
	frames.hello(first("c"))
	old := connect(mqtt.V5, false, "connack 0x0")
	frames.must(wire.ConnAck, 0, resultFenced)
	p.want("204", "POST", "/v1/c", "a post leaves the connection alone")
	old.publish(1, 1, "t", "one")
	old.want("puback 1")
	again := connect(mqtt.V5, false, "connack 0x0 present")
	old.want("disconnect 0x8e", "closed")
	third := connect(mqtt.V311, false, "connack 0x0 present")
	again.want("disconnect 0x8e", "closed")
	third.publish(1, 2, "t", "two")
	third.want("puback 2")
	if st := s.SessionStates("c", "", 1); len(st) != 1 || !st[0].Connected || st[0].Last != 3 {
		t.Errorf("%+v", st)
	}
	newer := up.peer(t)
	newer.hello(first("c"))
	third.want("closed")
	newer.stored(1, "frame")
	clean := connect(mqtt.V5, true, "connack 0x0")
	newer.must(wire.ConnAck, 0, resultFenced)
	clean.publish(1, 3, "t", "three")
	clean.want("puback 3")
	ends := dialMQTT(t, addr, mqtt.V5)
	ends.greet(0, 0, "", text("c")) // without an expiry
	ends.want("connack 0x0")
	connect(mqtt.V5, false, "connack 0x0")                 // the session of clean has ended
	connect(mqtt.V5, false, "connack 0x0 present")         // this one lasts
	connect(mqtt.V5, true, "connack 0x0")                  // and ends
	last := connect(mqtt.V5, false, "connack 0x0")         // begins
	last.send(0xe0, "\x00", sized("\x11\x00\x00\x00\x00")) // and ends with its connection
	last.want("closed")
	connect(mqtt.V5, false, "connack 0x0")
	waitFor(t, "its connection to have the session", func() bool { return s.SessionStates("c", "", 1)[0].Connected })
	must(t, s.Close())

	up2 := &Server{Log: log}
	addr = mqttDoorOf(t, up2)
	connect(mqtt.V311, false, "connack 0x0 present") // after a kill
	connect(mqtt.V311, true, "connack 0x0")
	must(t, up2.Close())
	addr = mqttDoorOf(t, &Server{Log: log})
	connect(mqtt.V311, false, "connack 0x0")
	want := "a post leaves the connection alone,one,two,frame,three"
	if got := strings.Join(records(t, log)["c"], ","); got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
}

// TestMQTTTokens: the password is a token. A wrong one waits for its answer and is counted, and one that is revoked ends
// its connection.
func TestMQTTTokens(t *testing.T) {
	tokens := tokensWith(t, "c token-of-the-client", "site token-of-the-site1 writes:site-")
	s := &Server{Log: newGate(), Tokens: tokens}
	addr := mqttDoorOf(t, s)
	login := func(version mqtt.Version, client, password string) *device {
		d := dialMQTT(t, addr, version)
		d.greet(0xc2, 0, "", text(client), text("anybody"), text(password))
		return d
	}
	c, site := login(mqtt.V5, "c", "token-of-the-client"), login(mqtt.V311, "site-7", "token-of-the-site1")
	c.want("connack 0x0")
	site.want("connack 0x0")
	began := time.Now()
	for _, wrong := range []*device{login(mqtt.V5, "c", "token-of-the-site1"), login(mqtt.V311, "c", ""), login(mqtt.V5, "site", "token-of-the-site1")} {
		wrong.publish(1, 1, "t", "not stored")
		if wrong.version == mqtt.V5 {
			wrong.want("connack 0x87", "closed")
		} else {
			wrong.want("connack 0x5", "closed")
		}
	}
	if took := time.Since(began); took < refusalTime {
		t.Errorf("wrong tokens took only %v", took)
	}
	if st := s.Stats(); st.Unauthorised != 3 || st.Refused != 3 || st.Records != 0 {
		t.Errorf("%+v", st)
	}
	tokens.replace(t, "site token-of-the-site1 writes:site-\n")
	if n := s.revoke(); n != 1 {
		t.Errorf("%d connections ended", n)
	}
	c.want("disconnect 0x87", "closed")
	site.publish(1, 1, "t", "x")
	site.want("puback 1")
}

// sweep lets n seconds pass.
func sweep(s *Server, n int) {
	for range n {
		s.sweepMQTT()
	}
}

// TestMQTTKeepAlive: a connection may be silent for one and a half times its keep-alive, unless that is 0, or the log owes it
// an answer.
func TestMQTTKeepAlive(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, MQTTKeepAlive: 600}
	s.mqtt.swept.Do(func() {}) // this test sweeps
	addr := mqttDoorOf(t, s)
	quiet, long, waits, old := dialMQTT(t, addr, mqtt.V5), dialMQTT(t, addr, mqtt.V5), dialMQTT(t, addr, mqtt.V5), dialMQTT(t, addr, mqtt.V311)
	for name, d := range map[string]*device{"quiet": quiet, "waits": waits, "old": old} {
		d.greet(2, 60, "", text(name))
		d.want("connack 0x0")
	}
	never := dialMQTT(t, addr, mqtt.V311)
	never.greet(2, 0, "", text("never"))
	never.want("connack 0x0")
	long.greet(2, 0, "", text("long"))
	long.want("connack 0x0 keep-alive 600")
	log.set(true, nil)
	waits.publish(1, 1, "t", "x")
	waits.silent()
	sweep(s, 90)
	quiet.silent()
	sweep(s, 90)
	old.want("closed")
	quiet.silent()
	sweep(s, 91)
	quiet.want("disconnect 0x8d", "closed")
	log.set(false, nil)
	waits.want("puback 1")
	waits.silent()
	never.silent()
	sweep(s, 900)
	never.silent()
	sweep(s, 901)
	long.want("disconnect 0x8d", "closed")
	never.want("closed")
	for _, d := range []*device{old, quiet, long, never} {
		d.nc.Close()
	}
	waitFor(t, "the ends for silence", func() bool { return endedFor(s, "keep_alive_timeout") >= 4 })
}

// TestMQTTWills: a will is stored when its client is lost, and not when it says goodbye or comes back in time.
func TestMQTTWills(t *testing.T) {
	t.Parallel() // it waits more than it works
	log := newGate()
	s := &Server{Log: log}
	s.mqtt.swept.Do(func() {}) // this test sweeps
	addr := mqttDoorOf(t, s)
	stored := func(want string) {
		t.Helper()
		got := ""
		waitFor(t, want, func() bool { got = strings.Join(shown(t, log), "|"); return len(got) >= len(want) })
		if got != want {
			t.Errorf("stored %s, want %s", got, want)
		}
	}
	begin := func(version mqtt.Version, client, says, delay string) *device {
		d := dialMQTT(t, addr, version)
		expiry := "\x11\x00\x00\xff\xff"
		d.greet(0x0c, 0, expiry, text(client), d.properties(delay, "\x03"+text("type")), text("w"), text(says))
		if got := d.receive(); !strings.HasPrefix(got, "connack 0x0") {
			t.Fatal(got)
		}
		return d
	}
	gone := func() { waitFor(t, "the connections to end", func() bool { return s.EngineStats().Open == 0 }) }
	d := begin(mqtt.V311, "c", "not stored", "")
	d.send(0xe0)
	d.want("closed")
	begin(mqtt.V311, "c", "lost", "").nc.Close()
	stored("c 1 lost topic=w")
	d = begin(mqtt.V5, "c", "said", "")
	d.send(0xe0, "\x04")
	d.want("closed")
	want := "c 1 lost topic=w|c 2 said topic=w type=type"
	stored(want)
	const ten = "\x18\x00\x00\x00\x0a"
	begin(mqtt.V5, "c", "came back", ten).nc.Close()
	gone()
	sweep(s, 9)
	old := begin(mqtt.V5, "c", "taken over", ten)
	d = begin(mqtt.V5, "c", "late", ten)
	old.want("disconnect 0x8e", "closed")
	old.nc.Close()
	waitFor(t, "the end of the old connection", func() bool { return s.EngineStats().Open == 1 })
	sweep(s, 20)
	stored(want)
	d.nc.Close()
	gone()
	sweep(s, 10)
	want += "|c 3 late topic=w type=type"
	stored(want)
	begin(mqtt.V5, "c", "its session ended", ten).nc.Close()
	gone()
	d = dialMQTT(t, addr, mqtt.V5).connect("c", true, "connack 0x0")
	sweep(s, 1)
	want += "|c 4 its session ended topic=w type=type"
	stored(want)
	begin(mqtt.V311, "d", "not at the end of the server", "")
	must(t, s.Shutdown(soon(t)))
	stored(want)
	d.want("disconnect 0x8b", "closed")
}

// TestMQTTDrain: a drain acknowledges what has been sent, and tells clients of version 5 that it is one.
func TestMQTTDrain(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	addr := mqttDoorOf(t, s)
	a, b := dialMQTT(t, addr, mqtt.V5).connect("a", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V311).connect("b", true, "connack 0x0")
	log.set(true, nil)
	a.publish(1, 1, "t", "x")
	b.publish(1, 1, "t", "y")
	waitFor(t, "both to be queued", func() bool { return s.Stats().Queued == 2 })
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(soon(t)) }()
	waitFor(t, "the drain", func() bool { _, err := net.Dial("tcp", addr); return err != nil })
	log.set(false, nil)
	a.want("puback 1", "disconnect 0x8b", "closed")
	b.want("puback 1", "closed")
	must(t, <-ended)
	if n := len(shown(t, log)); n != 2 {
		t.Errorf("%d records", n)
	}
}

// TestMQTTWithoutRoom: a message that finds no room waits, with what its connection sends behind it. After 5 s the connection
// ends, and the message is not stored.
func TestMQTTWithoutRoom(t *testing.T) {
	t.Parallel() // it waits more than it works
	log := newGate()
	s := &Server{Log: log, QueueBytes: 4 * (1000 + recordCost)}
	addr := mqttDoorOf(t, s)
	fill, a, b, c := dialMQTT(t, addr, mqtt.V5).connect("fill", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V5).connect("a", true, "connack 0x0"),
		dialMQTT(t, addr, mqtt.V311).connect("b", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V5).connect("c", true, "connack 0x0")
	body := strings.Repeat("x", 1000)
	log.set(true, nil)
	for id := range uint16(4) {
		fill.publish(1, id+1, "t", body)
	}
	waitFor(t, "a full queue", func() bool { return s.Stats().Queued == 4 })
	waiting := func(n int) {
		waitFor(t, "posts to wait", func() bool { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return len(s.queue.posts) >= n })
	}
	a.publish(1, 1, "t", "not stored")
	waiting(1)
	b.publish(0, 0, "t", "not stored")
	waiting(2)
	a.want("disconnect 0x97", "closed")
	b.want("closed")
	c.publish(1, 1, "t", "waits")
	c.publish(0, 0, "t", "behind it")
	c.publish(1, 2, "t", "behind both")
	waiting(1)
	log.set(false, nil)
	fill.want("puback 1", "puback 2", "puback 3", "puback 4")
	c.want("puback 1", "puback 2")
	if got := strings.Join(records(t, log)["c"], ","); got != "waits,behind it,behind both" || len(shown(t, log)) != 7 {
		t.Errorf("stored %s; %d records", got, len(shown(t, log)))
	}
	a.nc.Close()
	b.nc.Close()
	waitFor(t, "two ends for want of room", func() bool { return endedFor(s, "no_room") == 2 })
}

// TestMQTTCrash: when the log fails, nothing is acknowledged and every connection ends.
func TestMQTTCrash(t *testing.T) {
	log := newGate()
	s := &Server{Log: log}
	addr := mqttDoorOf(t, s)
	a, b := dialMQTT(t, addr, mqtt.V5).connect("a", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V311).connect("b", true, "connack 0x0")
	log.set(true, nil)
	a.publish(1, 1, "t", "x")
	b.publish(1, 1, "t", "x")
	waitFor(t, "both to be queued", func() bool { return s.Stats().Queued == 2 })
	log.set(false, errors.New("a broken disk"))
	for _, d := range []*device{a, b} {
		for got := ""; got != "closed"; {
			if got = d.receive(); strings.HasPrefix(got, "puback") {
				t.Errorf("got %s", got)
			}
		}
	}
}

// TestMQTTNeedsItsOwnLog: where servers share a log, there is no door for MQTT.
func TestMQTTNeedsItsOwnLog(t *testing.T) {
	s := &Server{Log: newGate(), Shared: true}
	if err := s.ServeMQTT(listen(t)); err == nil || errors.Is(err, ErrServerClosed) {
		t.Error(err)
	}
	if err := (&Server{Log: newGate()}).ServeMQTT(anywhere{listen(t)}); !errors.Is(err, ErrOpen) {
		t.Error(err)
	}
}

// anywhere is a listener that other machines can reach.
type anywhere struct{ net.Listener }

func (anywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
