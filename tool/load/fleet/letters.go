package fleet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	mostMessage = 64 << 20 // bytes
	mostJob     = 47 << 20 // bytes; base64 adds a third, to this and to the files in it
	mostQueued  = 256      // messages waiting to be sent
	chunkHead   = 9        // header of a chunk: its number, and whether it is the last
)

var (
	errTooLong = fmt.Errorf("a message is longer than %d MiB; use smaller files", mostMessage>>20)
	errFull    = errors.New("does not read what it is sent")
	errClosed  = errors.New("is closed")
	errLost    = errors.New("the connection to NATS is lost")
)

// server is a connection to NATS.
type server struct {
	conn *nats.Conn
	seal *seal
	room int // largest payload of a NATS message, in bytes

	mu    sync.Mutex
	inbox map[string]*letters // by their subject
	lost  error
}

// fail ends all letters.
func (s *server) fail(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = why
	}
	for _, l := range s.inbox {
		l.end(s.lost)
	}
}

// letters carries messages between one agent and its coordinator.
type letters struct {
	server  *server
	to, own string // subjects

	sent     uint64
	received uint64
	rest     []byte
	chunks   chan []byte
	latest   atomic.Int64    // when the last chunk came, in Unix nanoseconds
	over     context.Context // its cause is why they have ended
	end      context.CancelCauseFunc
}

// letters returns letters that are received on their own subject.
func (s *server) letters(to, own string) *letters {
	l := &letters{server: s, to: to, own: own, chunks: make(chan []byte, 4*mostQueued)}
	l.over, l.end = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox[own] = l
	if s.lost != nil {
		l.end(s.lost)
	}
	return l
}

// put queues a chunk if it is encrypted with the token. If the queue is full, a message is lost
// and the letters end.
func (l *letters) put(sealed []byte) {
	chunk, err := l.server.seal.open(l.own, sealed)
	if err != nil || len(chunk) < chunkHead {
		return
	}
	l.latest.Store(time.Now().UnixNano())
	select {
	case l.chunks <- chunk:
	case <-l.over.Done():
	default:
		l.end(errors.New("messages came faster than they were read"))
	}
}

// Send encrypts a message in chunks. Send and Receive are each called from one goroutine; Close ends both.
func (l *letters) Send(text []byte) error {
	for {
		n := min(len(text), l.server.room)
		chunk := binary.BigEndian.AppendUint64(nil, l.sent)
		l.sent++
		last := byte(0)
		if n == len(text) {
			last = 1
		}
		chunk = append(append(chunk, last), text[:n]...)
		if err := l.server.conn.Publish(l.to, l.server.seal.close(l.to, chunk)); err != nil {
			return fmt.Errorf("%w (%w)", errLost, err)
		}
		if text = text[n:]; last == 1 {
			return nil
		}
	}
}

// heard returns when the last chunk came.
func (l *letters) heard() time.Time { return time.Unix(0, l.latest.Load()) }

// Receive assembles the next message. It skips replayed chunks; a missing chunk ends the letters.
func (l *letters) Receive() ([]byte, error) {
	for {
		var chunk []byte
		select {
		case chunk = <-l.chunks:
		case <-l.over.Done():
			return nil, context.Cause(l.over)
		}
		switch number := binary.BigEndian.Uint64(chunk); {
		case number < l.received:
			continue
		case number > l.received:
			return nil, fmt.Errorf("%d messages were lost on their way through NATS", number-l.received)
		}
		l.received++
		if len(l.rest)+len(chunk) > mostMessage+chunkHead {
			return nil, errTooLong
		}
		l.rest = append(l.rest, chunk[chunkHead:]...)
		if chunk[chunkHead-1] == 1 {
			text := l.rest
			l.rest = nil
			return text, nil
		}
	}
}

// Close ends them.
func (l *letters) Close() {
	l.end(errClosed)
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	delete(l.server.inbox, l.own)
}

func (s *server) subject(parts ...string) string {
	return "hone.fleet." + s.seal.group + "." + strings.Join(parts, ".")
}
