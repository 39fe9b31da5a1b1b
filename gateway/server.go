// Package gateway accepts messages and acknowledges each one only after it is as durable
// as its client asked for, by name.
//
//	srv := &gateway.Server{Log: log}
//	err := srv.Serve(ln) // until Shutdown, or until the log fails
//
// Clients speak frames (docs/protocol.md) with the handshake of docs/gateway.md; Client
// is one in Go. A session numbers its records from 1 without gaps, so that a record that
// is sent again after a lost connection, a crash or a restart is stored once.
//
// The server is crash-only: when its log fails, it closes every connection without
// another acknowledgement, and Serve returns the log's error. Every start recovers the
// sessions from the log.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/http1"
)

// Server is a gateway in front of a log. Fill the fields, call Serve; do not change them
// afterwards. The zero value of every field but Log is a working default.
type Server struct {
	// Log stores what is acknowledged. Required. The server does not close it.
	Log journal.Log
	// Durable is what the log promises when Append returns: Disk or Quorum. Zero: Disk.
	Durable Level
	// Shared says that other servers append to the same log, as they may to a
	// journal.Cluster: a client can then go on with its session at any of them.
	Shared bool
	// Tokens are the clients and their secrets. Zero: clients need none.
	Tokens *Tokens
	// Certificates demands that a client's TLS certificate names the client, as its
	// common name or as a DNS name. Zero: nobody asks for one.
	Certificates bool
	// Expiry is how long the server remembers the session of a client that is away: one
	// that comes back later is refused with ErrExpired. Zero: 7 days.
	Expiry time.Duration
	// Clients is how many clients the server remembers. Zero: 1 000 000, some 300 MB.
	Clients int
	// QueueBytes is how much may wait for the log. Beyond it, and beyond
	// Limits.TotalInFlight records, connections are not read. Zero: 64 MiB.
	QueueBytes int
	// AppendTime is how long the log may take for one envelope before the server gives
	// it up. Zero: 30 s.
	AppendTime time.Duration
	// Checkpoint is how many envelopes may follow the last checkpoint of all sessions:
	// a start reads about as many. Zero: 16 384.
	Checkpoint int
	// Engine moves the bytes. Zero: the default of this operating system.
	Engine engine.Engine
	// Limits protect the server. Zero fields take their defaults; AuthTime is 5 s.
	Limits engine.Limits
	// Logger hears of recovery, refusals and the log's failure. Zero: silence.
	Logger *slog.Logger
	// OnStored is called with every envelope that the log has stored, in order, before
	// its records are acknowledged. It must not keep the bytes. Zero: nobody is told.
	OnStored func(pos uint64, envelope []byte)

	prepared sync.Once
	once     sync.Once
	startErr error
	framed   framed.Server
	sockets  http1.Server
	limits   engine.Limits
	most     int // bytes of one record's data
	queue    queue
	sessions sessions
	count    counters
	next     uint64          // the position that the log gives next, as far as the committer knows
	ctx      context.Context // of appends; ends with Close
	cancel   context.CancelFunc
	done     chan struct{} // the committer has ended
	full     atomic.Bool   // the log has no space
	retry    time.Duration // how long it is left alone then
	now      func() time.Time
}

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = framed.ErrServerClosed

// ErrOpen refuses to serve other machines where anybody could write anything.
var ErrOpen = errors.New("gateway: an address that other machines can reach needs tokens or client certificates")

// start recovers the sessions and starts the committer, once.
func (s *Server) start(ctx context.Context) error {
	s.prepared.Do(s.prepare)
	s.once.Do(func() {
		if s.Log == nil {
			panic("gateway: Server.Log is nil")
		}
		s.startErr = s.recover(ctx)
		if s.startErr != nil {
			close(s.done)
			return
		}
		go s.commit()
	})
	return s.startErr
}

// Recover reads the sessions from the log. Serve does it where nobody else has; ctx bounds
// this one.
func (s *Server) Recover(ctx context.Context) error { return s.start(ctx) }

// prepare fills in what zero fields mean.
func (s *Server) prepare() {
	s.Durable = cmp.Or(s.Durable, Disk)
	s.Expiry = cmp.Or(s.Expiry, 7*24*time.Hour)
	s.Clients = cmp.Or(s.Clients, 1_000_000)
	s.QueueBytes = cmp.Or(s.QueueBytes, 64<<20)
	s.AppendTime = cmp.Or(s.AppendTime, 30*time.Second)
	s.Checkpoint = cmp.Or(s.Checkpoint, 1<<14)
	s.Limits.AuthTime = cmp.Or(s.Limits.AuthTime, 5*time.Second)
	s.limits = s.Limits.OrDefaults()
	s.most = s.limits.FrameSize - submitHead
	s.done = make(chan struct{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.now == nil {
		s.now = time.Now
	}
	s.retry = cmp.Or(s.retry, time.Second)
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.queue.prepare(s.QueueBytes, s.now)
	s.framed = framed.Server{
		Handler: framed.HandlerFunc(s.submit),
		Connect: framed.HandlerFunc(s.connect),
		Engine:  s.Engine,
		Limits:  s.Limits,
		Logger:  s.Logger,
		OnClose: func(c framed.Conn, _ engine.Reason) { s.closed(c.Value()) },
	}
	s.sockets = http1.Server{Handler: s.upgrader(), Engine: s.Engine, Limits: s.Limits, Logger: s.Logger}
}

// submitHead is what a Submit's frame has before the record's data.
const submitHead = 13

// Serve accepts clients from ln until Shutdown or Close, and then returns
// ErrServerClosed, or until the log fails, and then returns the log's error: what was not
// acknowledged by then may or may not be stored. It recovers the sessions from the log
// first. ln is closed in every case. Serve may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, s.framed.Serve) }

// ServeWebSocket is Serve for clients that send each frame, without its length, as one
// binary message of a WebSocket, on any path.
func (s *Server) ServeWebSocket(ln net.Listener) error { return s.serve(ln, s.sockets.Serve) }

func (s *Server) serve(ln net.Listener, accept func(net.Listener) error) error {
	if err := s.MayServe(ln.Addr()); err != nil {
		ln.Close()
		return err
	}
	if err := s.start(context.Background()); err != nil {
		ln.Close()
		return err
	}
	if err := accept(ln); !errors.Is(err, framed.ErrServerClosed) && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := s.queue.failure(); err != nil {
		<-s.done
		return err
	}
	return ErrServerClosed
}

// MayServe says why addr may not be served, or nil: addresses beyond this machine are
// for clients that prove who they are.
func (s *Server) MayServe(addr net.Addr) error {
	if s.Tokens != nil || s.Certificates || addr.Network() == "unix" {
		return nil
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return fmt.Errorf("%w: %s", ErrOpen, addr)
	}
	return nil
}

// Shutdown stops accepting, stores and acknowledges what was sent, writes a checkpoint
// and closes every connection. When ctx ends first, the connections that are left are cut
// off without acknowledgements. It returns ctx's error in that case, and the log's if it
// failed.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.start(context.Background()); err != nil {
		return err
	}
	err := cmp.Or(s.framed.Shutdown(ctx), s.sockets.Shutdown(ctx))
	if err != nil {
		s.cancel()
	}
	s.queue.end(nil)
	<-s.done
	return cmp.Or(s.queue.failure(), err)
}

// Close cuts off every connection at once and returns when the server's goroutine has
// ended. An envelope on its way to the log may or may not be stored.
func (s *Server) Close() error {
	if err := s.start(context.Background()); err != nil {
		return err
	}
	s.cancel()
	s.queue.end(ErrServerClosed)
	err := cmp.Or(s.framed.Close(), s.sockets.Close())
	<-s.done
	return err
}
