package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// TestHostileReaders has every wrong open and acknowledgement refused: no position moves, nothing is delivered,
// and whoever has no permission is not told which readers there are.
// go test -run TestHostileReaders -hostile 1000000 is the long run.
func TestHostileReaders(t *testing.T) {
	tokens := tokensWith(t, "meter the-token-of-a-client-only", "victim the-token-of-the-victim reads",
		"thief the-token-of-the-thief reads:door-")
	var log Memory
	up := serve(t, &Server{Log: &log, Tokens: tokens})
	c := &Client{Addrs: []string{up.addr}, ID: "meter", Token: "the-token-of-a-client-only"}
	for range 20 {
		works(t)(c.Submit(soon(t), []byte("secret")))
	}
	must(t, c.Close(soon(t)))
	victim := &Reader{Addrs: []string{up.addr}, Name: "victim", Token: "the-token-of-the-victim", Start: FromFirst}
	victim.take(t, 20)
	defer victim.Close()
	up.placed(t, "victim", victim.acked.Number)
	position, seed := up.Stats().Position, uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	counts := map[string]int{}
	for range *hostile {
		kind, packets := readerAttack(random)
		counts[kind]++
		if err := up.attacked(packets, func(packet wire.Packet) error {
			if packet.Result != wire.Unauthorised && packet.Result != wire.Malformed || strings.Contains(string(packet.Content), "victim") {
				return fmt.Errorf("the server sent %v %v %q", packet.Command, packet.Result, packet.Content)
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	t.Log(counts)
	if now := up.Stats().Position; now != position {
		t.Errorf("the log has grown from %d to %d", position, now)
	}
	if st := up.state("victim"); !st.Connected || st.Position.Number != victim.acked.Number || len(up.ReaderStates()) != 1 {
		t.Errorf("%+v", st)
	}
}

// readerAttack is frames that must be refused.
func readerAttack(random *rand.Rand) (kind string, packets []byte) {
	conn := func(content []byte) []byte {
		return wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 1, Content: content})
	}
	// Its token allows the thief what it reads with it, so the attacks are those of others.
	good := opening{start: FromFirst, name: "victim", token: "the-token-of-the-thief", shares: 1}
	switch random.IntN(6) {
	case 0: // a whole open with some bytes changed, never the right token
		content := good.append(nil)
		content[random.IntN(len(content))] ^= byte(1 + random.IntN(255))
		return "changed", conn(content)
	case 1:
		content := good.append(nil)
		if random.IntN(2) == 0 {
			content = content[:random.IntN(len(content))]
		} else {
			content = append(content, make([]byte, 1+random.IntN(50))...)
		}
		return "cut", conn(content)
	case 2:
		content := append([]byte(readMagic), make([]byte, random.IntN(200))...)
		for i := range content[4:] {
			content[4+i] = byte(random.Uint32())
		}
		return "noise", conn(content)
	case 3: // the victim's name, or one that nobody has, with another's token, a client's, or none
		good.name = []string{"victim", "nobody", "meter"}[random.IntN(3)]
		good.token = []string{"", "the-token-of-the-thief", "the-token-of-a-client-only", fmt.Sprint("guess-", random.Uint64())}[random.IntN(4)]
		good.start, good.anew, good.passing = Start(random.IntN(5)), random.IntN(2) == 0, random.IntN(2) == 0
		if random.IntN(2) == 0 {
			good.own = &Position{Number: random.Uint64()}
		}
		return "stolen", conn(good.append(nil))
	case 4: // more than the permission
		good.name = "thief"
		if good.client = "meter"; random.IntN(2) == 0 {
			good.client, good.prefix = "", "door"
		}
		return "beyond its prefix", conn(good.append(nil))
	default: // an acknowledgement without an open
		return "no open", wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: acknowledgement{random.Uint64(), random.Uint64(), 0}.append(nil)})
	}
}

// TestAcknowledgeAhead: acknowledgements beyond what was sent, of another generation, or malformed end the
// connection and move nothing.
func TestAcknowledgeAhead(t *testing.T) {
	up := serve(t, &Server{Log: &Memory{}, positionTime: time.Millisecond})
	up.submits(t, "a", 5)
	for i, wrong := range []func(w readWelcome, sent wire.Packet) []byte{
		func(w readWelcome, sent wire.Packet) []byte {
			return acknowledgement{w.generation, sent.ID + 1<<30, 0}.append(nil)
		},
		func(w readWelcome, sent wire.Packet) []byte {
			return acknowledgement{w.generation, 1 << 63, 0}.append(nil)
		},
		func(w readWelcome, sent wire.Packet) []byte {
			return acknowledgement{w.generation, 0, uint64(1 << 30)}.append(nil)
		},
		func(w readWelcome, sent wire.Packet) []byte {
			return acknowledgement{w.generation - 1, sent.ID, 0}.append(nil)
		},
		func(w readWelcome, sent wire.Packet) []byte {
			return acknowledgement{w.generation + 1, sent.ID, 0}.append(nil)
		},
		func(w readWelcome, sent wire.Packet) []byte { return []byte("short") },
	} {
		p := up.peer(t)
		w := p.openReader(&opening{start: FromFirst, name: "copy", shares: 1})
		sent := p.delivery()
		p.send(wire.Packet{Command: wire.Submit, ID: 1, Content: wrong(w, sent)})
		p.closed()
		if st := up.state("copy"); st.Position.Number != w.number {
			t.Errorf("%d: the position is %d, and was %d", i, st.Position.Number, w.number)
		}
	}
}

// TestReaderTokens: a token for reading is none for sending, and the reverse; a prefix narrows what is read;
// without its line a reader is disconnected.
func TestReaderTokens(t *testing.T) {
	tokens := tokensWith(t, "meter-1 the-token-of-meter-1", "door-1 the-token-of-door-1", "spy the-token-of-the-spy reads:door-", "spy the-token-of-all-spies reads")
	up := serve(t, &Server{Log: &Memory{}, Tokens: tokens})
	for _, name := range []string{"meter-1", "door-1"} {
		c := &Client{Addrs: []string{up.addr}, ID: name, Token: "the-token-of-" + name}
		works(t)(c.Submit(soon(t), []byte("x")))
		c.Close(soon(t))
	}
	if _, err := (&Client{Addrs: []string{up.addr}, ID: "spy", Token: "the-token-of-the-spy"}).Submit(soon(t), []byte("x")); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("a reader has sent: %v", err)
	}
	r := up.reader(t, "meter-1", FromFirst)
	r.Token = "the-token-of-meter-1"
	if _, err := r.Next(soon(t)); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("a client has read: %v", err)
	}
	limited, all := up.reader(t, "spy", FromFirst), up.reader(t, "spy", FromFirst)
	limited.Token, limited.Passing = "the-token-of-the-spy", true
	all.Token = "the-token-of-all-spies"
	if got := fmt.Sprint(limited.take(t, 1)); got != "map[door-1:[x]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(all.take(t, 2)); got != "map[door-1:[x] meter-1:[x]]" {
		t.Error(got)
	}
	tokens.replace(t, "spy the-token-of-all-spies reads\n")
	if n := up.revoke(); n != 1 {
		t.Errorf("%d connections ended", n)
	}
	if _, err := limited.Next(soon(t)); !errors.Is(err, ErrUnauthorised) {
		t.Error(err)
	}
	for _, wrong := range []string{"a the-token-of-somebody writes", "a the-token-of-somebody reads: ", "a the-token-of-somebody reads:x y", "a the-token-of-somebody readsx"} {
		if _, err := ReadTokens(tokensOf(t, 0o600, wrong)); err == nil {
			t.Errorf("%q is taken for a line of a reader", wrong)
		}
	}
}

// TestRevokeWhileReading: revoke changes nothing of what readers read whose tokens permit the same as before. Those whose
// tokens permit something else open again.
func TestRevokeWhileReading(t *testing.T) {
	with := func(prefix string) string {
		return "meter-1 the-token-of-meter-1\ndoor-1 the-token-of-door-1\nspy the-token-of-the-spy reads" + prefix
	}
	tokens := tokensWith(t, with(""))
	up := serve(t, &Server{Log: &Memory{}, Tokens: tokens})
	submit := func() { // door-1 last: what a reader of it is given ends there
		t.Helper()
		for _, name := range []string{"meter-1", "door-1"} {
			c := &Client{Addrs: []string{up.addr}, ID: name, Token: "the-token-of-" + name}
			_, err := c.Submit(soon(t), []byte("0"))
			must(t, errors.Join(err, c.Close(soon(t))))
		}
	}
	r := up.reader(t, "spy", FromFirst)
	r.Token = "the-token-of-the-spy"
	submit()
	r.take(t, 2)
	if ended := up.revoke(); ended != 0 {
		t.Errorf("%d connections ended without a change", ended)
	}
	for _, c := range []struct {
		prefix, want string
		n            int
	}{{":door", "map[door-1:[0]]", 1}, {"", "map[door-1:[0] meter-1:[0]]", 2}} {
		tokens.replace(t, with(c.prefix))
		if n := up.revoke(); n != 1 {
			t.Errorf("reads%s: %d connections ended", c.prefix, n)
		}
		submit()
		if got := fmt.Sprint(r.take(t, c.n)); got != c.want {
			t.Errorf("reads%s: %s", c.prefix, got)
		}
	}
}

// TestReaderCertificates lets in the readers whose certificates say that they may read, and what.
func TestReaderCertificates(t *testing.T) {
	authority, up := certified(t, &Server{Log: newGate(), Certificates: true}, tls.NewListener)
	cert := func(name string, uris ...string) *signer {
		template := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
		for _, text := range uris {
			u, err := url.Parse(text)
			must(t, err)
			template.URIs = append(template.URIs, u)
		}
		return authority.client(t, template)
	}
	for _, name := range []string{"meter-1", "door-1"} {
		c := &Client{ID: name, Addrs: []string{up.addr}, Dial: authority.dials(cert(name))}
		works(t)(c.Submit(soon(t), []byte("x")))
		c.Close(soon(t))
	}
	for _, c := range []struct {
		with *signer
		want string
		err  error
	}{
		{cert("copy"), "", ErrUnauthorised},
		{cert("other", "hone-reader:"), "", ErrUnauthorised},
		{cert("copy", "https://hone-reader/"), "", ErrUnauthorised},
		{cert("copy", "hone-reader:"), "map[door-1:[x] meter-1:[x]]", nil},
		{cert("copy", "hone-reader:door-"), "map[door-1:[x]]", nil},
	} {
		r := up.reader(t, "copy", FromFirst)
		r.Dial, r.Passing = authority.dials(c.with), true
		if c.err != nil {
			if _, err := r.Next(soon(t)); !errors.Is(err, c.err) {
				t.Errorf("%s %v: %v", c.with.cert.Subject, c.with.cert.URIs, err)
			}
		} else if got := fmt.Sprint(r.take(t, strings.Count(c.want, "x"))); got != c.want {
			t.Errorf("%v: %s", c.with.cert.URIs, got)
		}
		r.Close()
	}
}

// FuzzOpening reads hellos, opens, welcomes, deliveries and positions of any bytes. What is read is written as the same.
func FuzzOpening(f *testing.F) {
	position := &Position{Log: [16]byte{1, 2}, Number: 3, Sum: 4}
	for _, o := range []opening{
		{start: FromFirst, name: "a", token: "secret", shares: 1},
		{name: "a", shares: 3, share: 2, client: "c", prefix: "p", own: position, instance: 5, resume: position, window: 1 << 20, anew: true},
	} {
		f.Add(o.append(nil))
	}
	f.Add(second("a", 1, 2, 3, true).append(nil))
	f.Add(append([]byte("hgw1"), first("a").append(nil)[4:]...))
	f.Add(readWelcome{log: position.Log, number: 1, generation: 2, shares: 1}.append(nil))
	f.Add((&Gap{1, 2, Trimmed}).append(nil))
	e := journal.Encoder{}
	e.Begin(0)
	e.Record(&journal.Record{Client: "c", Epoch: 1, Seq: 2, Time: 3, Data: []byte("data")})
	out := delivery.Out{Filter: delivery.Filter{Shares: 1}, Room: new(delivery.Workspace)}
	from := journal.Trust(e.Bytes())
	out.Room.Read.Set(1, from.Sum(), from.Size(), from.Count, from.RawRecords())
	out.Add(&out.Room.Read, math.MaxInt)
	f.Add(out.Deliver())
	f.Add([]byte(position.String()))
	f.Fuzz(func(t *testing.T, in []byte) {
		if o, err := parseOpening(in); err == nil {
			again, err := parseOpening(o.append(nil))
			if err != nil || !reflect.DeepEqual(again, o) {
				t.Fatalf("%+v was read as %+v, %v", o, again, err)
			}
		}
		if h, err := parseHello(in); err == nil {
			again, err := parseHello(h.append(nil))
			if err != nil || again != h || string(in[:4]) != "hgw2" {
				t.Fatalf("%+v was read as %+v, %v", h, again, err)
			}
		}
		parseWelcome(in)
		parseReadWelcome(in)
		decode(in, new(acknowledgement).fields)
		var b Batch
		b.parse(in)
		var p, again Position
		if p.UnmarshalText(in) == nil {
			if err := again.UnmarshalText([]byte(p.String())); err != nil || again != p {
				t.Fatalf("%+v was read as %+v, %v", p, again, err)
			}
		}
	})
}
