package fleet

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hone-go/hone/tool/load"
)

// NATS is a server of the user's at which a coordinator and agents on other machines meet.
// Messages are encrypted with the token, on subjects that are named after the token and the run.
type NATS struct {
	// URL is nats://HOST:PORT or tls://HOST:PORT, or several with commas. Required.
	URL string
	// Token is the secret that coordinator and agents share. Required.
	Token string
	// Credentials is a file of NATS credentials, CA a file of certificate authorities, and Cert
	// and Key are files with the client's certificate and key. Zero: none.
	Credentials, CA, Cert, Key string
	// Count is how many agents a coordinator waits for. Zero: all that join within Wait.
	Count int
	// Wait is how long a coordinator waits for agents. Zero: 10 s.
	Wait time.Duration

	server *server
	calls  sync.WaitGroup
	end    context.CancelFunc
}

const (
	usualWait = 10 * time.Second
	callEach  = 500 * time.Millisecond
	mostCalls = 1024 // agents that may answer
	chunkHead = 9    // header of a chunk: its number, and whether it is the last
	leastRoom = 1024 // smallest max_payload of a server, in bytes
	mostRoom  = 128 << 10
)

// call is what a coordinator sends to idle agents.
type call struct{ Run string }

// server is a connection to NATS.
type server struct {
	conn *nats.Conn
	seal *seal
	room int // largest payload of a NATS message, in bytes

	mu    sync.Mutex
	inbox map[string]*letters // by their subject
	lost  error
}

// connect opens the connection. It does not reconnect, because messages sent meanwhile would be
// missing.
func (n *NATS) connect(name string) (*server, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	sealed, err := newSeal(n.Token)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s := &server{seal: sealed, inbox: make(map[string]*letters)}
	options := []nats.Option{
		nats.Name(name), nats.Timeout(5 * time.Second), nats.NoReconnect(), nats.FlusherTimeout(time.Second),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2), // within a run fleet has its own pings
		nats.ClosedHandler(func(c *nats.Conn) {
			if why := c.LastError(); why != nil {
				s.fail(fmt.Errorf("%w (%w)", errLost, why))
			}
			s.fail(errLost)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if broken := new(net.OpError); errors.As(err, &broken) { // a write may notice it first
				err = fmt.Errorf("%w (%w)", errLost, err)
			}
			s.fail(err)
		}),
	}
	if n.Credentials != "" {
		options = append(options, nats.UserCredentials(n.Credentials))
	}
	if n.CA != "" {
		options = append(options, nats.RootCAs(n.CA))
	}
	if n.Cert != "" {
		options = append(options, nats.ClientCert(n.Cert, n.Key))
	}
	if s.conn, err = nats.Connect(n.URL, options...); err != nil {
		return nil, fmt.Errorf("load: %s: %w; start a NATS server there, or correct the URL or the credentials", n.URL, err)
	}
	if s.room = int(min(s.conn.MaxPayload(), mostRoom)); s.room < leastRoom {
		s.conn.Close()
		return nil, fmt.Errorf("load: %s takes messages of %d bytes only; raise its max_payload to %d or more", n.URL, s.conn.MaxPayload(), leastRoom)
	}
	s.room -= chunkHead + s.seal.aead.Overhead()
	return s, nil
}

var errLost = errors.New("the connection to NATS is lost")

func (n *NATS) check() error {
	for one := range strings.SplitSeq(n.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			return &load.Error{Kind: load.BadPlan, What: fmt.Sprintf("%q is not a NATS URL", one), Try: "write it as in nats://10.0.0.1:4222"}
		case u.User != nil:
			return &load.Error{Kind: load.BadPlan, What: "the URL of NATS has a password in it, which others can read", Try: "use a file of credentials"}
		}
	}
	return nil
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

// letters returns a carrier that receives on its own subject.
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

// Send encrypts a message in chunks.
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
func (l *letters) Close() error {
	l.end(errClosed)
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	delete(l.server.inbox, l.own)
	return nil
}

func (s *server) subject(parts ...string) string {
	return "hone.fleet." + s.seal.group + "." + strings.Join(parts, ".")
}

func (n *NATS) want() (int, time.Duration) {
	return n.Count, cmp.Or(n.Wait, usualWait)
}

// open publishes calls for agents until close.
func (n *NATS) open(c *coordinator) (err error) {
	if n.server, err = n.connect("hone load"); err != nil {
		return err
	}
	s, run := n.server, newID()
	joined := 0
	_, err = s.conn.Subscribe(s.subject(run, "up", "*"), func(m *nats.Msg) {
		s.mu.Lock()
		l := s.inbox[m.Subject]
		s.mu.Unlock()
		if l == nil {
			if _, err := s.seal.open(m.Subject, m.Data); err != nil || joined == mostCalls {
				return
			}
			joined++
			agent := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
			l = s.letters(s.subject(run, "down", agent), m.Subject)
			c.join(0, "", l)
		}
		l.put(m.Data)
	})
	if err != nil {
		return fmt.Errorf("load: %s: %w", n.URL, err)
	}
	calling, end := context.WithCancel(context.Background())
	n.end = end
	n.calls.Go(func() {
		again := time.NewTicker(callEach)
		defer again.Stop()
		text, _ := json.Marshal(call{run}) // a string always marshals
		for {
			_ = s.conn.Publish(s.subject("call"), s.seal.close(s.subject("call"), text)) // a lost connection is reported elsewhere
			select {
			case <-again.C:
			case <-calling.Done():
				return
			}
		}
	})
	return nil
}

func (n *NATS) absent(come int) error {
	count, within := n.want()
	first, _, _ := strings.Cut(n.URL, ",")
	return &load.Error{
		Kind: load.Unreachable, What: fmt.Sprintf("only %d of %d agents have joined within %v", come, max(count, 1), within),
		Try: fmt.Sprintf("start one on each machine with: hone agent %s --token-file FILE, with the same token; --agents-wait waits for longer", first),
	}
}

func (n *NATS) lost(_ *member, why error) string {
	return fmt.Sprintf("is lost: %v; look at its machine, and at the NATS server's log", why)
}

func (n *NATS) close() {
	if n.server == nil {
		return
	}
	if n.end != nil {
		n.end()
		n.calls.Wait()
	}
	n.server.conn.Close()
}

// NATS waits for a coordinator's call, runs a part, and waits again, until ctx ends, or after one
// run if once is set. A lost connection ends the run, and NATS connects again.
func (a *Agent) NATS(ctx context.Context, n *NATS, once bool) error {
	s, err := n.connect("hone agent")
	if err != nil {
		return err
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		ended, err := a.wait(ctx, n.URL, s, once)
		s.conn.Close()
		if ended {
			return err
		}
		a.say("%v; connecting again", err)
		for s = nil; s == nil; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-again.C:
				s, _ = n.connect("hone agent") // the server may be back at the next attempt
			}
		}
	}
}

// wait serves on one connection. It reports whether the agent is done.
func (a *Agent) wait(ctx context.Context, where string, s *server, once bool) (ended bool, err error) {
	calls := make(chan string, 1)
	subject := s.subject("call")
	_, err = s.conn.Subscribe(subject, func(m *nats.Msg) {
		text, err := s.seal.open(subject, m.Data)
		var said call
		if err != nil || json.Unmarshal(text, &said) != nil || !isID(said.Run) {
			return
		}
		select {
		case calls <- said.Run:
		default: // it is busy
		}
	})
	if err == nil {
		err = s.conn.Flush()
	}
	if err != nil {
		return true, fmt.Errorf("load: %s: %w", where, err)
	}
	lost := s.letters("", "")
	defer lost.Close()
	a.say("waiting for hone load --agents %s", where)
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-lost.over.Done():
			return false, fmt.Errorf("load: %s: %w", where, context.Cause(lost.over))
		case run := <-calls:
			if run == last {
				continue // it was not needed, or has done its part
			}
			last = run
			worked, err := a.join(ctx, s, run)
			if err != nil {
				a.say("a run has ended early: %v", err)
			}
			if worked && once {
				return true, err
			}
		}
	}
}

// isID reports whether text has the form of newID.
func isID(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// join serves one run, and reports whether there was a part for this agent.
func (a *Agent) join(ctx context.Context, s *server, run string) (worked bool, err error) {
	id := newID()
	l := s.letters(s.subject(run, "up", id), s.subject(run, "down", id))
	defer l.Close()
	sub, err := s.conn.Subscribe(l.own, func(m *nats.Msg) { l.put(m.Data) })
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }() // otherwise it ends with the connection
	return a.serve(ctx, l)
}
