package lab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// rung is the article's server at one step of its ladder: one goroutine per connection, a
// codec that allocates at every step, and counters.
type rung struct {
	buffered bool // 4 KiB in each direction
	pooled   bool // Submits come from a sync.Pool

	conns     crowd
	submits   sync.Pool
	connected atomic.Int64
	received  atomic.Uint64
	sent      atomic.Uint64
}

// longestFrame bounds a frame; the article's server would allocate a gigabyte for the
// four bytes 40 00 00 00.
const longestFrame = 64 << 10

// submit is a request in the form that the article's program uses.
type submit struct {
	id      string
	content []byte
}

func (s *rung) stage() (*stage, error) {
	s.submits.New = func() any { return new(submit) }
	return &stage{serve: func(ln net.Listener) error { return s.conns.serve(ln, s.handle) }, stop: s.conns.stop}, nil
}

func (s *rung) handle(conn net.Conn) {
	s.connected.Add(1)
	defer s.connected.Add(-1)
	if !s.buffered {
		for s.exchange(conn, conn) == nil {
		}
		return
	}
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	for s.exchange(in, out) == nil {
		// The article flushes only when its 4 KiB are full, so a client that waits for
		// its answer waits for ever.
		if !wholeFrame(in) && out.Flush() != nil {
			return
		}
	}
}

// wholeFrame reports whether the next request has arrived completely.
func wholeFrame(in *bufio.Reader) bool {
	if in.Buffered() < 4 {
		return false
	}
	head, _ := in.Peek(4) // Peek cannot fail: they are buffered
	return uint32(in.Buffered()) >= binary.BigEndian.Uint32(head)
}

// exchange serves one request.
func (s *rung) exchange(in io.Reader, out io.Writer) error {
	payload, err := readFrame(in)
	if err != nil {
		return err
	}
	s.received.Add(1)
	ack, err := s.reply(payload)
	if err != nil {
		return err
	}
	if err := writeFrame(out, ack); err != nil {
		return err
	}
	s.sent.Add(1)
	return nil
}

// readFrame makes two reads, with an allocation each.
func readFrame(in io.Reader) ([]byte, error) {
	var total uint32
	if err := binary.Read(in, binary.BigEndian, &total); err != nil {
		return nil, err
	}
	if total < 5 || total > longestFrame {
		return nil, errors.New("a frame of an impossible length")
	}
	payload := make([]byte, total-4)
	_, err := io.ReadFull(in, payload)
	return payload, err
}

func writeFrame(out io.Writer, payload []byte) error {
	if err := binary.Write(out, binary.BigEndian, uint32(len(payload)+4)); err != nil {
		return err
	}
	_, err := out.Write(payload)
	return err
}

func (s *rung) reply(payload []byte) ([]byte, error) {
	request, err := s.decodePacket(payload)
	if err != nil {
		return nil, err
	}
	ack := &submitAck{id: request.id}
	if s.pooled {
		s.submits.Put(request) // with all that it refers to, as in the article
	}
	return ack.encode(), nil
}

// decodePacket is what the article's allocs profile points to.
func (s *rung) decodePacket(payload []byte) (*submit, error) {
	if payload[0] != 0x02 || len(payload) < 9 {
		return nil, fmt.Errorf("unknown command %#x", payload[0])
	}
	var request *submit
	if s.pooled {
		request = s.submits.Get().(*submit)
	} else {
		request = new(submit)
	}
	request.id, request.content = string(payload[1:9]), payload[9:]
	return request, nil
}

type submitAck struct {
	id     string
	result byte
}

func (a *submitAck) encode() []byte {
	body := bytes.Join([][]byte{[]byte(a.id), {a.result}}, nil)
	return bytes.Join([][]byte{{0x82}, body}, nil)
}

// ownServer is hone's server on one engine, with the same wire format.
func ownServer(e engine.Engine, handler framed.HandlerFunc) func() (*stage, error) {
	return func() (*stage, error) {
		server := &framed.Server{Handler: handler, Engine: e, Limits: engine.Limits{Conns: -1}}
		return &stage{serve: server.Serve, stop: func() { server.Close() }}, nil
	}
}

func acknowledge(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }

func upper(_ framed.Call, dst, req []byte) ([]byte, error) {
	return append(dst, bytes.ToUpper(req)...), nil
}

// ownName returns the name of the stage that runs hone's server on an engine.
func ownName(e engine.Engine) string { return "hone-" + e.Name() }

func ladderStages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){
		"article-direct":   func() (*stage, error) { return new(rung).stage() },
		"article-buffered": func() (*stage, error) { return (&rung{buffered: true}).stage() },
		"article-pooled":   func() (*stage, error) { return (&rung{buffered: true, pooled: true}).stage() },
	}
	for _, e := range engine.All() {
		all[ownName(e)] = ownServer(e, acknowledge)
	}
	return all
}

func idleStages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){"article-epoll": epollStage}
	maps.Copy(all, ladderStages())
	return all
}
