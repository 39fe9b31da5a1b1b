package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
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
	defaultWait = 10 * time.Second
	callEach    = 500 * time.Millisecond
	mostCalls   = 1024 // agents that may answer
	leastRoom   = 1024 // smallest max_payload of a server, in bytes
	mostRoom    = 128 << 10
)

// call is what a coordinator sends to idle agents.
type call struct{ Run string }

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

// want returns how many agents there should be, within how long; 0: all that come in that time.
func (n *NATS) want() (int, time.Duration) {
	return n.Count, cmp.Or(n.Wait, defaultWait)
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
			c.join(l)
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

// absent returns the error for too few agents.
func (n *NATS) absent(come int) error {
	count, within := n.want()
	first, _, _ := strings.Cut(n.URL, ",")
	return &load.Error{
		Kind: load.Unreachable, What: fmt.Sprintf("only %d of %d agents have joined within %v", come, max(count, 1), within),
		Try: fmt.Sprintf("start one on each machine with: hone agent %s --token-file FILE, with the same token; --agents-wait waits for longer", first),
	}
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
