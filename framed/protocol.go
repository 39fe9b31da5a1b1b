package framed

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// protocol implements engine.Protocol: one value per server.
type protocol struct {
	unobserved observation // of every request without onRequest; first, where its address costs nothing

	handle  HandlerFunc
	connect HandlerFunc // nil: every Conn is acknowledged
	proves  bool        // a Conn that connect accepts authenticates the client, within AuthTime
	limit   int         // frame size
	ctx     context.Context
	within  time.Duration // Server.RequestTime

	givesWay bool                 // Server.GiveWay
	spreads  bool                 // Limits.SpreadTime is set
	again    func() time.Duration // engine.Server.ComeAgain

	logger *slog.Logger                  // nil: nothing is logged
	told   [len(foreigners)]atomic.Int64 // when foreign has logged something, in Unix seconds

	onRequest    func(Request) // nil: not called
	epoch        time.Time     // observation.began counts from here
	observations sync.Pool     // with onRequest
}

// funcOf returns h without the interface call if it is a HandlerFunc.
func funcOf(h Handler) HandlerFunc {
	if f, ok := h.(HandlerFunc); ok || h == nil {
		return f
	}
	return h.Handle
}

// GivesWay returns Server.GiveWay.
func (p *protocol) GivesWay() bool { return p.givesWay }

// Advance processes the whole frames at the front of in.
func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	var packet wire.Packet
	for {
		payload, need, err := wire.Frame(in[used:], p.limit)
		if err != nil {
			return used, 0, p.fault(t, in[used:], err)
		}
		if need > 0 {
			return used, need, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		if err := wire.ParseInto(&packet, payload); err != nil {
			return used, 0, p.fault(t, in[used:], err)
		}
		switch packet.Command {
		case wire.Submit:
			p.answer(t, used, packet.Command, packet.ID, packet.Content)
		case wire.Conn:
			if p.connect != nil {
				p.answer(t, used, packet.Command, packet.ID, packet.Content)
				break
			}
			t.Out = wire.Append(t.Out, wire.Packet{Command: wire.ConnAck, ID: packet.ID})
		default: // a command that only servers send
			return used, 0, p.fault(t, in[used:], wire.UnknownCommand)
		}
		used += wire.HeaderSize + len(payload)
	}
}

// answer runs one handler and appends its reply. Its arguments fit into registers; a
// Packet does not and would cost a tenth of a pipelined request.
func (p *protocol) answer(t *engine.Turn, used int, command wire.Command, id uint64, request []byte) {
	t.Mark(used)
	handle := p.handle
	if command == wire.Conn {
		handle = p.connect
	}
	// The head goes first, so that the content grows in its final place. t.Out excludes
	// it until the handler has returned; otherwise a panic would leave a reply that
	// reports success.
	start := len(t.Out)
	head := wire.BeginAck(t.Out, command, id)
	dst := head[len(head):]
	content, err := handle(Call{t, &p.unobserved, id, message{t.Serial(), command}}, dst, request)
	result := wire.OK
	switch {
	case err != nil:
		if !t.Rollback() {
			return // answered already
		}
		result = resultOf(err)
		head = append(head, contentOf(err)...)
	case t.Promised() > 0:
		t.Out = head[:start] // keep the memory that it has grown to
		return
	case len(content) == 0:
	case cap(dst) > 0 && &content[0] == &dst[:1][0]:
		head = head[:len(head)+len(content)]
	default:
		head = append(head, content...)
	}
	if command == wire.Conn && p.proves && result == wire.OK {
		t.Conn().Trust()
	}
	t.Out = wire.EndAck(head, start, result)
}

// resultOf returns the code on the wire for an error.
func resultOf(err error) wire.Result {
	var r wire.Result
	if errors.As(err, &r) && r != wire.OK {
		return r
	}
	return wire.Failed
}

// fault refuses input that is not a request, and returns the engine's reason.
func (p *protocol) fault(t *engine.Turn, in []byte, err error) error {
	p.foreign(t, in)
	why := engine.Malformed
	switch err {
	case wire.TooLarge:
		why = engine.TooLarge
	case wire.UnknownCommand:
		why = engine.UnknownCommand
	}
	t.Out = p.Refuse(t.Out, nil, why)
	return why
}

// foreign logs, once an hour for each, that a client speaks another protocol.
func (p *protocol) foreign(t *engine.Turn, in []byte) {
	for i, f := range foreigners {
		now := time.Now().Unix()
		if last := p.told[i].Load(); p.logger == nil || now-last < 3600 || !f.spoken.Match(in[:min(len(in), 32)]) || !p.told[i].CompareAndSwap(last, now) {
			continue
		}
		p.logger.Warn("a client speaks "+f.name+"; this port speaks frames", "remote", t.Conn().RemoteAddr())
	}
}

// foreigners are protocols that clients speak at the wrong port, and how they begin.
var foreigners = [...]struct {
	name   string
	spoken *regexp.Regexp
}{
	{"MQTT", regexp.MustCompile(`(?s)^\x10.{1,4}\x00[\x04\x06]MQ`)},
	{"HTTP", regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|PRI) `)},
	{"TLS", regexp.MustCompile(`(?s)^\x16\x03[\x00-\x04]..\x01`)},
}

// refusals are the codes for what engines and this protocol refuse; for other reasons the
// peer gets no reply.
var refusals = map[engine.Reason]wire.Result{
	engine.IdleTimeout:       wire.Idle,
	engine.FrameTimeout:      wire.TooSlow,
	engine.AuthTimeout:       wire.TooSlow,
	engine.TooLarge:          wire.TooLarge,
	engine.Malformed:         wire.Malformed,
	engine.BadProxyHeader:    wire.Malformed,
	engine.UnknownCommand:    wire.UnknownCommand,
	engine.Panicked:          wire.Internal,
	engine.InputBudget:       wire.Overloaded,
	engine.TooManyConns:      wire.Overloaded,
	engine.Displaced:         wire.Overloaded,
	engine.TooManyPerAddress: wire.Overloaded,
	engine.TooManyAtOnce:     wire.Overloaded,
	engine.ShuttingDown:      wire.ShuttingDown,
}

// backWithin is the time over which those come back whose turn has come in a drain: it evens out the steps
// in which they are told.
const backWithin = time.Second

// Refuse appends a refusal: under the request's own id for one that panicked, under id 0
// for the whole connection.
func (p *protocol) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	code, ok := refusals[why]
	if !ok {
		return dst
	}
	refusal := wire.Packet{Command: wire.ConnAck, Result: code}
	switch why {
	case engine.ShuttingDown:
		if p.spreads {
			refusal.Content = wire.AppendWithin(nil, backWithin)
		}
	case engine.TooManyAtOnce:
		refusal.Content = wire.AppendWithin(nil, p.again())
	case engine.FrameTimeout:
		refusal.Content = []byte("a frame took too long to arrive")
	case engine.AuthTimeout:
		refusal.Content = []byte("no Conn was accepted in time")
	case engine.Panicked:
		if payload, need, err := wire.Frame(unserved, p.limit); err == nil && need == 0 {
			if request, err := wire.Parse(payload); err == nil {
				refusal.ID = request.ID
				if request.Command == wire.Submit {
					refusal.Command = wire.SubmitAck
				}
			}
		}
	}
	return wire.Append(dst, refusal)
}
