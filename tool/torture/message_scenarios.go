package torture

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hone-go/hone/tool/load/codec"
)

// messageScenarios attack the framing of messages.
var messageScenarios = []Scenario{
	{Name: "impossible-length", Kinds: Messages, Attack: impossibleLengths,
		Title: "Clients send messages whose length cannot be: shorter than its own header, negative, or the largest number."},
	{Name: "oversized-length", Kinds: Messages, Attack: oversizedLengths,
		Title: "Clients announce a message as long as the framing allows, and send a few bytes of it."},
	{Name: "mutated-messages", Kinds: Messages, Attack: each(400, (*target).Dial, "%d mutated requests", mutatedMessages),
		Title: "Clients send good requests with bits flipped, bytes inserted, and parts cut out."},
}

// hostile is an input that no server should accept.
type hostile struct {
	name  string
	bytes []byte
}

// lengthWidth returns how many bytes the length of a message has, and how it is written, or 0: it has
// none, as lines and Redis' messages.
func (a *Arena) lengthWidth() (width int, order binary.AppendByteOrder, resp bool) {
	if t, ok := a.target.Target.(codec.Messages); ok {
		width, order = t.Framing.Length()
		return width, order, t.Framing.String() == "resp"
	}
	return 4, binary.BigEndian, false // hone's frames
}

// nonsense returns inputs other than messages, in the target's framing.
func (a *Arena) nonsense() (all []hostile) {
	width, order, resp := a.lengthWidth()
	for _, v := range []uint64{0, 1, 2, 3, 4, 5, 7, 8, 11, 1 << 15, 1<<16 - 1, 1<<31 - 1, 1 << 31, 1<<32 - 4, 1<<32 - 1} {
		var b []byte
		switch {
		case width == 2 && v < 1<<16:
			b = order.AppendUint16(nil, uint16(v))
		case width == 4:
			b = order.AppendUint32(nil, uint32(v))
		default:
			continue
		}
		all = append(all, hostile{fmt.Sprintf("length %d", v), b}, hostile{fmt.Sprintf("length %d and 8 bytes", v), append(slices.Clone(b), "hostile!"...)})
	}
	texts := []string{"\n\n\n\n", "\r\n\r\n", "\x00\n", "\xff\xfe\xfd\n"}
	switch {
	case width > 0:
		texts = nil
	case resp:
		texts = []string{
			"*0\r\n", "*-1\r\n", "*-2147483648\r\n", "*2147483647\r\n", "*99999999999999999999\r\n", "*1\r\n$-1\r\n", "*1\r\n$-5\r\n",
			"*1\r\n$2147483647\r\n", "*1\r\n$99999999999999999999\r\n", "*x\r\n", "$5\r\nhello\r\n", "*1\r\n+OK\r\n", "*1\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nPINGxx",
		}
	}
	for _, text := range texts {
		all = append(all, hostile{fmt.Sprintf("%q", text), []byte(text)})
	}
	return all
}

// impossibleLengths sends each on a connection of its own, and asks a newcomer after each.
func impossibleLengths(ctx context.Context, a *Arena) Finding {
	inputs := a.nonsense()
	return each(len(inputs), (*target).Bare, "%d inputs, and newcomers are served after each", func(ctx context.Context, c *Conn, i int) Finding {
		_, err := c.Write(inputs[i].bytes)
		a.noteError(err, "%s", inputs[i].name)
		return a.serves(ctx, "after %s", inputs[i].name)
	})(ctx, a)
}

const (
	claims     = 200
	mostClaims = 64 << 20 // bytes that all of them together may cost
)

func oversizedLengths(ctx context.Context, a *Arena) Finding {
	var claim []byte
	width, order, resp := a.lengthWidth()
	switch {
	case width == 2:
		claim = order.AppendUint16(nil, 1<<16-1)
	case width == 4:
		claim = order.AppendUint32(nil, 1<<30)
	case resp:
		claim = []byte("*1\r\n$536870911\r\n")
	default:
		return doesNotApply("messages of this framing announce no length")
	}
	grew := a.growth()
	claim = append(claim, "only a few bytes of what was announced"...)
	sent := 0
	_, _ = a.Crowd(ctx, min(claims, a.Conns), (*target).Bare, func(c *Conn, _ int) error { // a server may take fewer
		if _, err := c.Write(claim); err == nil {
			sent++
		}
		return nil
	})
	if !pause(ctx, a.Answer/8) {
		return unknown("interrupted")
	}
	served := a.serves(ctx, "when %d clients have announced a long message", sent)
	switch grown, watched := grew(); {
	case !watched:
		return served.or(survives("%d clients announced a long message", sent))
	case grown > mostClaims:
		return served.or(falls("%d clients announced a long message and sent %d bytes each: its memory grew by %s", sent, len(claim), size(grown)))
	default:
		return served.or(survives("%d clients announced a long message: its memory grew by %s", sent, size(max(0, grown))))
	}
}

func mutatedMessages(ctx context.Context, c *Conn, i int) Finding {
	a := c.arena
	_, _ = c.Write(a.mutated(c.requests(2))) // what the server makes of it is felt by others
	c.Close()
	if i%20 > 0 {
		return Finding{}
	}
	return a.serves(ctx, "after %d mutated requests", i+1)
}

// mutated changes bytes at random places.
func (a *Arena) mutated(b []byte) []byte {
	for range 1 + a.Rand.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := a.Rand.IntN(len(b))
		till := min(len(b), at+1+a.Rand.IntN(8))
		switch a.Rand.IntN(5) {
		case 0:
			b[at] ^= 1 << a.Rand.IntN(8)
		case 1:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff, '\r', '\n', ' ', ':'}[a.Rand.IntN(9)]
		case 2:
			b = slices.Delete(b, at, till)
		case 3:
			b = slices.Insert(b, at, b[at:till]...)
		default:
			b = b[:at]
		}
	}
	return b
}
