package gateway

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// hostile is how many malformed handshakes, replays, gaps and stolen sessions are tried.
var hostile = flag.Int("hostile", testrun.Sized(500, 4000), "hostile connections of TestHostile")

// TestHostile has every wrong handshake and record refused, and nothing of it stored.
// go test -run TestHostile -hostile 1000000 is the long run.
func TestHostile(t *testing.T) {
	tokens := tokensWith(t, "victim a-token-that-nobody-guesses", "thief another-clients-own-token")
	log := newGate()
	up := serve(t, &Server{Log: log, Tokens: tokens})
	victim := up.peer(t)
	h := hello{next: 1, client: "victim", token: "a-token-that-nobody-guesses"}
	w := victim.hello(h)
	victim.stored(1, "kept")
	thief := hello{next: 1, client: "thief", token: "another-clients-own-token"}
	epoch := up.peer(t).hello(thief).epoch
	position := up.Stats().Position

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	counts := map[string]int{}
	for range *hostile {
		kind, packets := attack(random, w.epoch, epoch)
		counts[kind]++
		if err := up.attacked(packets, func(packet wire.Packet) error {
			if packet.Command == wire.SubmitAck && packet.Result == wire.OK {
				return fmt.Errorf("record %d was acknowledged", packet.ID)
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	t.Log(counts)
	if got := fmt.Sprint(records(t, log)); got != "map[victim:[kept]]" {
		t.Errorf("stored: %.200s", got)
	}
	if st := up.Stats(); st.Position != position || st.Records != 1 {
		t.Errorf("the log has grown from %d to %d", position, st.Position)
	}
	// The victim was not disturbed.
	again := up.peer(t)
	if got := again.hello(hello{epoch: w.epoch, next: 2, client: h.client, token: h.token}); got.last != 1 {
		t.Errorf("%+v", got)
	}
	again.stored(2, "kept too")
}

// attack is frames that must be refused, the last of them at the latest.
func attack(random *rand.Rand, victim, thief uint64) (kind string, packets []byte) {
	conn := func(content []byte) []byte {
		return wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 1, Content: content})
	}
	submit := func(dst []byte, seq uint64) []byte {
		return wire.Append(dst, wire.Packet{Command: wire.Submit, ID: seq, Content: []byte("stolen")})
	}
	good := hello{epoch: thief, next: 1, client: "thief", token: "another-clients-own-token"}
	switch random.IntN(7) {
	case 0: // a whole hello with some bytes changed: never the name and its token to another whole one
		content := good.append(nil)
		at := random.IntN(5 + 8)
		if at == 4 { // any level up to quorum is a level; quorum is refused for the log's sake
			content[at] = byte(3 + random.IntN(253))
		} else {
			content[at] ^= byte(1 + random.IntN(255))
			if binary.BigEndian.Uint64(content[5:]) == 0 {
				content[0] ^= 1
			}
		}
		return "changed", submit(conn(content), 1)
	case 1: // cut short, or longer
		content := good.append(nil)
		if random.IntN(2) == 0 {
			content = content[:random.IntN(len(content))]
		} else {
			content = append(content, make([]byte, 3*random.IntN(17)+1+random.IntN(2))...) // no whole fields, which may follow
		}
		return "cut", submit(conn(content), 1)
	case 2: // noise
		content := make([]byte, random.IntN(200))
		for i := range content {
			content[i] = byte(random.Uint32())
		}
		return "noise", submit(conn(content), 1)
	case 3: // somebody else's session, with one's own token, none, or a guessed one
		h := hello{epoch: victim, next: 2, client: "victim", token: good.token}
		switch random.IntN(4) {
		case 0:
			h.token = ""
		case 1:
			h.token = fmt.Sprintf("guess-%d-%d", random.Uint64(), random.Uint64())
		case 2:
			h.epoch, h.next = 0, 1
		}
		return "stolen", submit(conn(h.append(nil)), 2)
	case 4: // a record without a hello
		return "no hello", submit(nil, 1+uint64(random.IntN(3)))
	case 5: // a session of the past or of the future
		h := good
		h.epoch += uint64(1 + random.IntN(1000))
		if random.IntN(2) == 0 {
			h.epoch = thief - uint64(1+random.IntN(1000))
		}
		return "replayed", submit(conn(h.append(nil)), 1)
	default: // a gap
		return "gap", submit(conn(good.append(nil)), []uint64{0, 2, 3, 1 << 40, 1<<64 - 1}[random.IntN(5)])
	}
}

// attacked sends packets, and checks with an error of wrong that no answer gives what none may, and that the server
// closes.
func (u *served) attacked(packets []byte, wrong func(wire.Packet) error) error {
	nc, err := net.Dial("tcp", u.addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write(packets) // it may be refused before all is written
	p := peer{nc: nc}
	for {
		packet, err := p.receive()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			return fmt.Errorf("the server did not close: %w", err)
		}
		if err != nil {
			return nil
		}
		if err := wrong(packet); err != nil {
			return err
		}
	}
}
