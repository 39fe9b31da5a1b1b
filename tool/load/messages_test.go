package load

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// framing and match parse their text.
func framing(tb testing.TB, text string) (f codec.Framing) {
	tb.Helper()
	if err := f.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return f
}

func match(tb testing.TB, text string) (m codec.Match) {
	tb.Helper()
	if err := m.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return m
}

// echoes is a server that sends every message back, modified by change unless that is nil.
func echoes(f codec.Framing, change func([]byte)) func(net.Conn) {
	return func(nc net.Conn) {
		var in, out []byte
		buf := make([]byte, 32<<10)
		for {
			n, err := nc.Read(buf)
			if err != nil {
				return
			}
			in, out = append(in, buf[:n]...), out[:0]
			for {
				content, used, err := f.Cut(in, 16<<20)
				if err != nil || used == 0 {
					break
				}
				if change != nil {
					change(content)
				}
				out = f.Append(out, content)
				in = in[used:]
			}
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}
}

func TestMessages(t *testing.T) {
	sideBySide(t)
	for _, f := range []string{"line", "len16be", "len32be", "len32be+incl", "len32le", "len16le", "fixed:32"} {
		for _, m := range []string{"order", "id@3:1", "id@0:2", "id@4:4", "id@8:8"} {
			if f == "line" && m != "order" {
				continue
			}
			for name, p := range map[string]Plan{
				"closed": {Conns: 2, Depth: 40, Requests: 300},
				"open":   {Conns: 2, Rate: 4000, Depth: 100, MaxLag: time.Second, Requests: 40},
			} {
				t.Run(f+"/"+m+"/"+name, func(t *testing.T) {
					address := serveWith(t, "tcp", echoes(framing(t, f), nil)).Address
					p.Target = codec.Messages{Address: address, Framing: framing(t, f), Match: match(t, m)}
					p.Echo = true
					if r := measured(t, p); r.Errors["total"] != 0 || r.Requests != p.Requests || r.Statuses != nil || r.Reconnects != 0 {
						t.Errorf("%d requests, errors %v, statuses %v", r.Requests, r.Errors, r.Statuses)
					}
				})
			}
		}
	}
}

// Messages with the right framing can talk to hone's own server.
func TestMessagesToHone(t *testing.T) {
	frames := serveFramed(t, &framed.Server{})
	request := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("hello")})[wire.HeaderSize:]
	target := codec.Messages{Address: frames.Address, Framing: framing(t, "len32be+incl"), Match: match(t, "id@1:8")}
	r := measured(t, Plan{Target: target, Content: request, Conns: 2, Depth: 16, Requests: 300})
	if r.Errors["total"] != 0 || r.Requests < 32 {
		t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
	}
}

// redis is a minimal line server: PING of either form has one answer.
func redis(nc net.Conn) {
	for lines := bufio.NewScanner(nc); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "PING" {
			if _, err := io.WriteString(nc, "+PONG\r\n"); err != nil {
				return
			}
		}
	}
}

func TestMessagesInLines(t *testing.T) {
	target := codec.Messages{Address: serveWith(t, "unix", redis).Address, Network: "unix"}
	for _, request := range []string{"PING", "PING\r", "*1\r\n$4\r\nPING"} {
		r := measured(t, Plan{Target: target, Content: []byte(request), Expect: []byte("+PONG"), Depth: 4, Conns: 2, Requests: 300})
		if r.Errors["total"] != 0 || r.Requests < 8 {
			t.Errorf("%q: %d requests, errors %v", request, r.Requests, r.Errors)
		}
	}
	r := measured(t, Plan{Target: target, Content: []byte("PING"), Expect: []byte("PONG"), Requests: 300})
	if r.Errors["wrong_content"] != r.Requests || r.Requests == 0 {
		t.Errorf("%d requests, errors %v, want all of them wrong", r.Requests, r.Errors)
	}
}

// asked waits for all of the first four requests, then calls then.
func asked(then func(net.Conn)) func(net.Conn) {
	return func(nc net.Conn) {
		if _, err := io.ReadFull(nc, make([]byte, 4*DefaultSize)); err == nil {
			then(nc)
		}
	}
}

func hostilesOfMessages(t *testing.T) (all []hostile) {
	numbered := func(change func([]byte)) func(net.Conn) {
		var n atomic.Int64
		return echoes(framing(t, "len32be"), func(content []byte) {
			if n.Add(1) > 20 {
				change(content)
			}
		})
	}
	for _, h := range []struct {
		frame, match string
		hostile
	}{
		{"len32be", "order", hostile{name: "claims too much", serve: asked(text("\xff\xff\xff\xff")), kind: codec.Garbage, try: "framing"}},
		{"len32be+incl", "order", hostile{name: "counts itself", serve: asked(text("\x00\x00\x00\x01")), kind: codec.Garbage, try: "framing"}},
		{"line", "order", hostile{name: "endless line", serve: asked(forever("", strings.Repeat("x", 1000), 0)), kind: codec.Garbage, try: "framing"}},
		{"line", "order", hostile{name: "says nothing", serve: text(""), kind: codec.Silent, try: "time-out"}},
		{"line", "order", hostile{name: "greets", serve: text(strings.Repeat("220 ready\r\n", 10)), kind: codec.WrongID, try: "once"}},
		{"line", "order", hostile{name: "closes", serve: func(net.Conn) {}, kind: Closed, try: "log"}},
		{"len32be", "order", hostile{name: "closes in an answer", serve: asked(func(nc net.Conn) { io.WriteString(nc, "\x00\x00\x00\x09x") }), kind: Closed, try: "log"}},
		{"len32be", "id@0:4", hostile{name: "answers with less", serve: asked(text("\x00\x00\x00\x03xyz")), kind: codec.Garbage, try: "match"}},
		{"len32be", "id@0:4", hostile{name: "answers another", serve: numbered(func(content []byte) { content[1] ^= 1 }), kind: codec.WrongID, try: "once"}},
		{"len32be", "id@0:8", hostile{name: "answers the same", serve: numbered(func(content []byte) { copy(content, make([]byte, 8)) }), kind: codec.WrongID, try: "once"}},
	} {
		target := codec.Messages{Framing: framing(t, h.frame), Match: match(t, h.match), AnswerLimit: 1 << 20}
		h.hostile.target = func(address string) codec.Target {
			target.Address = address
			return target
		}
		h.name, h.plan = "messages "+h.name, Plan{Depth: 4, Conns: 2, Ramp: 20}
		all = append(all, h.hostile)
	}
	return all
}

// TestGreetingIsNoAnswer: a server that greets a moment after it accepts ends the run, before its greeting can be taken for
// the first answer.
func TestGreetingIsNoAnswer(t *testing.T) {
	at := serveWith(t, "tcp", func(nc net.Conn) {
		<-time.After(20 * time.Millisecond) // a request that does not wait has come before
		io.WriteString(nc, "220 ready\r\n")
		for in := make([]byte, 100); ; { // slow enough that the one answer too many is never seen
			n, err := nc.Read(in)
			<-time.After(20 * time.Millisecond)
			if _, failed := nc.Write(in[:n]); err != nil || failed != nil {
				return
			}
		}
	})
	target := codec.Messages{Address: at.Address}
	o := runPlan(t, context.Background(), Plan{Target: target, Content: []byte("NOOP"), For: 300 * time.Millisecond, Warmup: -1})
	if o.err == nil {
		t.Fatalf("valid %v, %d requests", o.result.Valid, o.result.Requests)
	}
	if e := faultOf(t, o.err); e.Kind != codec.WrongID {
		t.Error(e)
	}
}

func TestMessagesRefuseBadPlans(t *testing.T) {
	of := func(f, m string) codec.Messages {
		return codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, f), Match: match(t, m)}
	}
	for name, p := range map[string]Plan{
		"too long":         {Target: of("len16be", "order"), Size: 1 << 16},
		"longer by itself": {Target: of("len16be+incl", "order"), Size: 1<<16 - 2},
		"not the length":   {Target: of("fixed:31", "order")},
		"id in a line":     {Target: of("line", "id@0:4")},
		"id behind":        {Target: of("len32be", "id@30:4")},
		"too deep":         {Target: of("len32be", "id@0:1"), Depth: 257},
		"two lines":        {Target: of("line", "order"), Content: []byte("PING\n")},
		"two lines back":   {Target: of("line", "order"), Expect: []byte("PONG\n")},
		"a hello of two":   {Target: codec.Messages{Address: "127.0.0.1:1", Hello: "HELO a\n"}},
		"no id":            {Target: codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, "len32be"), Match: codec.Match{Len: 9}}},
	} {
		r, err := Run(context.Background(), p)
		if e := faultOf(t, err); r != nil || e.Kind != BadPlan || e.Try == "" {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

func TestMessagesAllocateNothing(t *testing.T) {
	const depth = 64
	for _, of := range []string{"order", "id@0:4"} {
		target := codec.Messages{Framing: framing(t, "len32be"), Match: match(t, of)}
		p := must[Plan](t)(Plan{Target: target, Depth: depth, Echo: true, For: time.Hour}.complete())
		r := newRun(p)
		r.counters[0].window = window{0, int64(time.Hour)}
		c := newConn(r, 0, capture{out: new(bytes.Buffer)})
		c.begin(r.now())
		sent := c.socket.nc.(capture).out
		in := make([]byte, 0, 64*depth)
		if n := testing.AllocsPerRun(200, func() {
			in = append(in[:0], sent.Bytes()...)
			sent.Reset()
			if used, _, err := c.arrived(in, r.now()); err != nil || used != len(in) {
				t.Fatal(used, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for %d answers, want none", of, n, depth)
		}
		if got := r.counters[0].now; got.Latency.TotalCount() != 201*depth || got.failures() != 0 {
			t.Errorf("%s: %d answers, errors %v", of, got.Latency.TotalCount(), got.Errors)
		}
	}
}

// capture is a connection that stores what is written to it.
type capture struct {
	net.Conn
	out *bytes.Buffer
}

func (c capture) Write(p []byte) (int, error) { return c.out.Write(p) }
