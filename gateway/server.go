// Package gateway accepts messages and acknowledges each one only after it is as durable
// as its client asked for.
//
//	srv := &gateway.Server{Log: log}
//	err := srv.Serve(ln) // until Shutdown, or until the log fails
//
// Clients send frames (docs/protocol.md) and begin with the handshake of docs/gateway.md;
// Client is the Go client. A session numbers its records from 1 without gaps, so that a
// record that is resent after a lost connection, a crash or a restart is stored once.
//
// The server is crash-only: when its log fails, it acknowledges nothing more and closes
// every connection, and Serve returns the log's error. Every start recovers the sessions
// from the log.
//
// Where to begin: [Server] and [Client] bring messages in, [Reader] brings them out. Package journal
// has the logs that a server stores them in, and package observe the admin side.
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
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/sys"
)

// Server is a gateway that writes to a log. Fill the fields, call Serve, and do not change
// the fields afterwards. The zero value of every field except Log is a working default.
type Server struct {
	// Log stores the records. Required. The server does not close it.
	Log journal.Log
	// Durable is the level that the log reaches when Append returns: Disk or Quorum. Zero: Disk.
	Durable Level
	// Shared means that other servers append to the same log, which a cluster.Log
	// allows. A client can then resume its session on any of them.
	Shared bool
	// Tokens are the clients and their secrets. Zero: clients need none.
	Tokens *Tokens
	// Certificates requires a TLS client certificate that names the client, as common name
	// or as DNS name. Zero: no certificate is required.
	Certificates bool
	// Expiry is how long the server remembers the session of a disconnected client. A client
	// that reconnects later is refused with ErrExpired. Zero: 7 days.
	Expiry time.Duration
	// ClockGap is the largest step forward of the wall clock that log time follows although the kernel
	// does not say that the clock is synchronised; at a start it is at least 31 days. A larger one is
	// reported, and followed after AcceptClock. Zero: 1 day.
	ClockGap time.Duration
	// TrustClock makes log time follow every step forward.
	TrustClock bool
	// Clients is how many clients the server remembers. Zero: 1 000 000, about 300 MB.
	Clients int
	// RetainAge and RetainSize make the server delete the oldest records: those that are older, in running
	// time of the servers, and those that make the log larger, in bytes. It deletes whole segments, nothing that
	// a reader still needs and has not expired, and nothing that a start needs. Zero: it deletes nothing.
	RetainAge  time.Duration
	RetainSize int64
	// RetainHard deletes also what readers need. They are told which records they missed.
	RetainHard bool
	// ReaderExpiry is for how long a reader that is not connected keeps records from being deleted, in
	// running time of the servers. One that was created with a time of its own has that. Negative: no
	// limit. Zero: 30 days.
	ReaderExpiry time.Duration
	// Readers is how many readers may be connected. Zero: 1 000.
	Readers int
	// QueueBytes is how many bytes may wait for the log. Above it, and above
	// Limits.TotalInFlight records, the server stops reading. One client may have a 64th of
	// it, and 128 KiB, while half of it waits. Zero: 64 MiB.
	QueueBytes int
	// AppendTime is the timeout for appending one envelope; after it the log has failed.
	// Zero: 30 s.
	AppendTime time.Duration
	// Checkpoint is the number of envelopes between two checkpoints of all sessions, and
	// CheckpointBytes the number of their bytes, whichever comes first. A start reads about as
	// many. Zero: 16 384 and 176 MiB.
	Checkpoint      int
	CheckpointBytes int64
	// AcceptLoss are positions of envelopes whose loss the operator has accepted. Without it, a
	// log that is damaged at its newest checkpoint or later is refused. Zero: none.
	AcceptLoss journal.Range
	// Limits protect the server. Zero fields have their defaults; that of AuthTime is 5 s. FrameSize is
	// kept between 1 KiB and 1,019 KiB.
	Limits engine.Limits
	// Logger gets recovery and the log's failures, and what framed.Server.Logger gets. Zero:
	// panics go to slog.Default(), and nothing else is logged. For silence, use
	// slog.DiscardHandler.
	Logger *slog.Logger

	prepared sync.Once
	once     sync.Once
	startErr error
	log      *slog.Logger // for everything but panics
	framed   framed.Server
	sockets  http1.Server
	limits   engine.Limits
	most     int // maximum bytes of one record's data
	queue    queue
	sessions sessions
	readers  readers
	count    counters
	ctx      context.Context // for appends; canceled by Close
	cancel   context.CancelFunc
	done     chan struct{}             // closed when the committer has ended
	full     atomic.Bool               // the log has no space
	retry    time.Duration             // pause between appends to a full log
	now      func() (wall, mono int64) // milliseconds
	synced   func() bool               // the kernel says that the wall clock is synchronised; nil with now: it does not
	clock    clock                     // queue.mu guards it
	grown    chan struct{}             // there are retainBytes more

	committer committer // only start and its goroutine use it

	positionTime, tellTime, retainTime time.Duration
	mostWindow                         int // of a reader
}

// ErrServerClosed is returned by Serve after Shutdown or Close.
var ErrServerClosed = framed.ErrServerClosed

// ErrOpen refuses an address that other machines can reach when clients need no credentials.
var ErrOpen = errors.New("gateway: an address that other machines can reach needs tokens or client certificates")

// start recovers the sessions and starts the committer, once.
func (s *Server) start(ctx context.Context) error {
	s.prepared.Do(s.prepare)
	s.once.Do(func() {
		if s.Log == nil {
			panic("gateway: Server.Log is nil")
		}
		s.startErr = s.committer.recover(ctx)
		if s.startErr != nil {
			close(s.done)
			return
		}
		s.count.add(func(st *Stats) { st.Starting = false })
		if st := s.Log.Status(); st.Full != nil {
			s.isFull(st.Full)
		}
		s.readers.mu.Lock()
		if s.Shared || s.RetainAge > 0 || s.RetainSize > 0 || len(s.readers.cursors) > 0 {
			s.beginReaders()
		}
		s.readers.mu.Unlock()
		go s.committer.commit()
		go s.watch(s.Log.Failed())
	})
	return s.startErr
}

func (s *Server) isFull(why error) {
	if !s.full.Swap(true) {
		s.log.Error("no space for the log: records are not acknowledged until some is freed, or the reserve or the log's limit is changed", "err", why)
		s.queue.logIsFull()
	}
}

func (s *Server) isNotFull() {
	if s.full.Swap(false) {
		s.log.Info("there is space for the log again")
	}
}

// watch ends the server when the log fails between two appends.
func (s *Server) watch(failed <-chan error) {
	select {
	case err := <-failed:
		s.fail(err)
	case <-s.done:
	}
}

// Recover reads the sessions from the log, until ctx ends. Without a call of Recover, Serve
// does it.
func (s *Server) Recover(ctx context.Context) error { return s.start(ctx) }

func (s *Server) prepare() {
	s.committer.Server = s
	s.Durable = cmp.Or(s.Durable, Disk)
	s.Expiry = cmp.Or(s.Expiry, 7*24*time.Hour)
	s.Clients = cmp.Or(s.Clients, 1_000_000)
	s.QueueBytes = cmp.Or(s.QueueBytes, 64<<20)
	s.AppendTime = cmp.Or(s.AppendTime, 30*time.Second)
	s.Checkpoint = cmp.Or(s.Checkpoint, 1<<14)
	s.CheckpointBytes = cmp.Or(s.CheckpointBytes, 176<<20)
	s.Limits.AuthTime = cmp.Or(s.Limits.AuthTime, 5*time.Second)
	s.Readers = cmp.Or(s.Readers, 1000)
	if s.RetainSize > 0 { // what follows the newest checkpoint is kept
		s.CheckpointBytes = min(s.CheckpointBytes, s.RetainSize/8)
	}
	s.retainTime = cmp.Or(s.retainTime, retainTime)
	s.positionTime, s.tellTime = cmp.Or(s.positionTime, positionTime), cmp.Or(s.tellTime, tellTime)
	s.count.Starting = true
	s.count.Appends = Times{Bounds: timeBounds[:], Counts: make([]uint64, len(timeBounds)+1)}
	s.grown = make(chan struct{}, 1)
	s.readers.work.L = &s.readers.mu
	s.readers.holders = map[*holder]bool{}
	if s.readers.expiry = -1; s.ReaderExpiry >= 0 {
		s.readers.expiry = cmp.Or(s.ReaderExpiry, 30*24*time.Hour).Milliseconds()
	}
	s.readers.ctx, s.readers.cancel = context.WithCancel(context.Background())
	s.readers.reset()
	s.Limits.FrameSize = min(max(s.Limits.OrDefaults().FrameSize, minFrameSize), maxFrameSize)
	if s.Limits.HardCap == 0 { // readers need it; what others are owed is far less
		s.Limits.HardCap = maxReadWindow + max(s.Limits.FrameSize, delivery.Target)
	}
	s.limits = s.Limits.OrDefaults()
	s.mostWindow = max(min(maxReadWindow, s.limits.HardCap), minReadWindow)
	s.most = s.limits.FrameSize - submitHead
	s.done = make(chan struct{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.clock.gap = cmp.Or(s.ClockGap, 24*time.Hour).Milliseconds()
	if s.now == nil {
		began := time.Now()
		s.now = func() (wall, mono int64) {
			now := time.Now()
			return now.UnixMilli(), now.Sub(began).Milliseconds()
		}
		s.synced = sys.ClockSynchronised
	}
	s.clock.trusted = func() bool { return s.TrustClock || s.synced != nil && s.synced() }
	s.retry = cmp.Or(s.retry, time.Second)
	s.log = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	s.queue.prepare(s.QueueBytes, s.full.Load, func() (logTime, running int64) {
		running = s.readClock()
		return s.clock.time, running
	})
	s.framed = framed.Server{
		Handler: framed.HandlerFunc(s.submit),
		Connect: framed.HandlerFunc(s.connect),
		Limits:  s.Limits,
		Logger:  s.Logger,
		OnClose: func(c framed.Conn, _ engine.Reason) { s.closed(c.Value()) },
	}
	s.sockets = http1.Server{Handler: s.upgrader(), Limits: s.Limits, Logger: s.Logger}
}

// The smallest and the largest Limits.FrameSize of a Server: room for the longest hello, and no record that
// does not fit into an envelope of the log.
const (
	minFrameSize = 1 << 10
	maxFrameSize = journal.MaxEnvelope - 1<<10
)

// submitHead is how many bytes of a Submit frame come before the record's data.
const submitHead = 13

// Serve recovers the sessions from the log and accepts clients from ln. It returns
// ErrServerClosed after Shutdown or Close. If the log fails it returns the log's error, and
// records that were not acknowledged may or may not be stored. Serve always closes ln. It
// may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, s.framed.Serve) }

// ServeWebSocket is like Serve, for WebSocket clients on any path: each frame, without its
// length, is one binary message.
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

// MayServe returns an error if the server must not listen on addr: clients from other
// machines must authenticate.
func (s *Server) MayServe(addr net.Addr) error {
	if s.Tokens != nil || s.Certificates || addr.Network() == "unix" {
		return nil
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return fmt.Errorf("%w: %s", ErrOpen, addr)
	}
	return nil
}

// Shutdown stops accepting, stores and acknowledges what clients have sent, writes a
// checkpoint and closes every connection. When ctx ends first, Shutdown closes the remaining
// connections without acknowledgements and returns ctx's error. It returns the log's error
// if that failed. A full log holds Shutdown up until ctx ends if records wait for space, and else
// costs only the checkpoint.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.start(context.Background()); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.cancel)()
	sockets := make(chan error, 1)
	go func() { sockets <- s.sockets.Shutdown(ctx) }()
	err := cmp.Or(s.framed.Shutdown(ctx), <-sockets)
	s.queue.end(nil)
	<-s.done
	failure := s.queue.failure()
	switch {
	case ctx.Err() == nil || failure == nil:
	case s.full.Load():
		return fmt.Errorf("gateway: records wait for space in the log: %w", journal.ErrNoSpace)
	default:
		return ctx.Err()
	}
	return cmp.Or(failure, err)
}

// Close closes every connection immediately and returns when the committer has ended. An
// envelope in flight may or may not be stored.
func (s *Server) Close() error {
	if err := s.start(context.Background()); err != nil {
		return err
	}
	s.queue.end(ErrServerClosed) // first: else an append that cancel ends says that the log has failed
	s.cancel()
	err := cmp.Or(s.framed.Close(), s.sockets.Close())
	<-s.done
	return err
}
