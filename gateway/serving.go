package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/sys"
)

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
		s.readers.workers.Go(func() { s.every(tickTime, s.tick) })
		if s.Tokens != nil {
			s.readers.workers.Go(s.followTokens)
		}
		go func() {
			defer close(s.done)
			defer s.endReaders()
			defer s.abandonPosts()
			s.committer.commit()
		}()
		go s.watch(s.Log.Failed())
	})
	return s.startErr
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
	s.tokensTime = cmp.Or(s.tokensTime, tokensTime)
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
	s.clock.gap = (24 * time.Hour).Milliseconds()
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
	s.queue.retry = s.retryPosts
	places := new(engine.Places)
	s.framed = framed.Server{
		Handler: framed.HandlerFunc(s.submit),
		Connect: framed.HandlerFunc(s.connect),
		Limits:  s.Limits,
		Places:  places,
		Logger:  s.Logger,
		OnClose: func(c framed.Conn, _ engine.Reason) { s.closed(c.Value()) },
	}
	limits := s.Limits
	limits.FrameSize = mostHead
	s.posts = http1.Server{Handler: http.HandlerFunc(s.servePost), Limits: limits, Places: places, Logger: s.Logger}
	s.openMQTT(places)
}

// Serve recovers the sessions from the log and accepts clients from ln. It returns
// ErrServerClosed after Shutdown or Close. If the log fails it returns the log's error, and
// records that were not acknowledged may or may not be stored. Serve always closes ln. It
// may be called for several listeners at once.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, s.framed.Serve) }

// ServePosts is like Serve, for clients that send records by HTTP (docs/posts.md). The server must not be Shared.
func (s *Server) ServePosts(ln net.Listener) error {
	return s.serveAlone(ln, s.posts.Serve)
}

// ServeMQTT is like Serve, for clients that send records by MQTT 3.1.1 or 5 (docs/mqtt.md). The server must not be Shared.
func (s *Server) ServeMQTT(ln net.Listener) error {
	return s.serveAlone(ln, s.mqtt.engine.Serve)
}

// serveAlone is serve for a server that does not share its log.
func (s *Server) serveAlone(ln net.Listener, accept func(net.Listener) error) error {
	if s.Shared {
		ln.Close()
		return errors.New("gateway: a server that shares its log speaks frames only")
	}
	return s.serve(ln, func(ln net.Listener) error {
		s.mqtt.swept.Do(func() { s.readers.workers.Go(func() { s.every(time.Second, s.sweepDoors) }) })
		return accept(ln)
	})
}

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
	others := make(chan error, 2)
	go func() { others <- s.posts.Shutdown(ctx) }()
	go func() { others <- s.mqtt.engine.Shutdown(ctx) }()
	err := cmp.Or(s.framed.Shutdown(ctx), <-others, <-others)
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
	err := cmp.Or(s.framed.Close(), s.posts.Close(), s.mqtt.engine.Close())
	<-s.done
	return err
}
