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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/http1"
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
	// TrustClock makes log time follow every step forward of the wall clock. Without it, it follows one of more than a
	// day, at a start of more than 31 days, only if the kernel says that the clock is synchronised, or after AcceptClock.
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
	// Origins are the web pages whose scripts may post, as the Origin header names them; * is all of them. Zero: none.
	Origins []string
	// MQTTLevel is the level at which messages of MQTT at QoS 1 and 2 are acknowledged: Received or Durable. Zero: Durable.
	MQTTLevel Level
	// MQTTKeepAlive is the longest keep-alive of a client of MQTT, in seconds; those that ask for more, or for none, have it.
	// Zero: no limit.
	MQTTKeepAlive uint16
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
	posts    http1.Server
	mqtt     mqttDoor
	limits   engine.Limits
	most     int // maximum bytes of one record's data
	queue    queue
	sessions sessions
	// producers of posts; queue.mu guards them.
	producers producers
	readers   readers
	count     counters
	ctx       context.Context // for appends; canceled by Close
	cancel    context.CancelFunc
	done      chan struct{}             // closed when the committer has ended
	full      atomic.Bool               // the log has no space
	retry     time.Duration             // pause between appends to a full log
	now       func() (wall, mono int64) // milliseconds
	synced    func() bool               // the kernel says that the wall clock is synchronised; nil with now: it does not
	clock     clock                     // queue.mu guards it
	grown     chan struct{}             // there are retainBytes more

	committer committer // only start and its goroutine use it, and the changes that it makes for others

	positionTime, tellTime, retainTime, tokensTime time.Duration
	mostWindow                                     int // of a reader
}

// ErrOpen refuses an address that other machines can reach when clients need no credentials.
var ErrOpen = errors.New("gateway: an address that other machines can reach needs tokens or client certificates")

func (s *Server) isFull(why error) {
	if !s.full.Swap(true) {
		s.log.Error("no space for the log: records are not acknowledged until some is freed, or the reserve or the log's limit is changed", "err", why)
		s.queue.lookAgain()
	}
}

func (s *Server) isNotFull() {
	if s.full.Swap(false) {
		s.log.Info("there is space for the log again")
	}
}

// The smallest and the largest Limits.FrameSize of a Server: room for the longest hello, and no record that
// does not fit into an envelope of the log.
const (
	minFrameSize = 1 << 10
	maxFrameSize = journal.MaxEnvelope - 1<<10
)

// submitHead is how many bytes of a Submit frame come before the record's data.
const submitHead = 13

// idleTold is the idle time that clients are told: 0 is no limit, and what is shorter than a second is one.
func (s *Server) idleTold() time.Duration {
	if s.limits.IdleTime == math.MaxInt64 { // off
		return 0
	}
	return max(s.limits.IdleTime, time.Second)
}

// order has the committer of a server that has started do something, and waits.
func (s *Server) order(ctx context.Context, do func() (refused, failed error)) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !s.queue.addChange(change{do, func(refused error) { done <- refused }}) {
		return ErrServerClosed
	}
	return s.await(ctx, done)
}

func (s *Server) await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-s.done:
		return ErrServerClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readClock moves the log's clock and returns its running time; queue.mu is held.
func (s *Server) readClock() (running int64) {
	s.clock.read(s.now())
	return s.clock.running
}

func (s *Server) times() clock {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.readClock()
	return s.clock
}

// fail is the crash-only rule: after an error the content of the log is unknown, so the
// server acknowledges nothing more.
func (s *Server) fail(err error) {
	err = fmt.Errorf("gateway: the log failed; the server has stopped acknowledging: %w", err)
	s.queue.end(err)
	s.cancel()
	s.framed.Close()
	s.posts.Close()
	s.mqtt.engine.Close()
}

// committer is the only goroutine that writes to the log. What is its own nobody else reads or writes, once the server has
// started; of the Server it is a part.
type committer struct {
	*Server
	next    uint64          // the log's next position, as far as it has read
	encoder journal.Encoder // of states
	saving  *saving         // the checkpoint that is being written
	since   struct {        // somebody began the newest checkpoint
		envelopes int
		bytes     int64
	}
	leaving      bool     // it writes its last checkpoint
	unmeasured   int      // bytes stored since grown
	accepted     []uint64 // lost positions to bury
	copied       uint64   // what is before it comes from a backup
	checkpointed int64    // clock.running at the newest checkpoint
	noted        int64    // clock.running at the newest Clock in the log
}

// saving is a checkpoint that the committer writes a part at a time. Whatever comes between its parts says more than
// they do.
type saving struct {
	since  int                   // committer.since.envelopes when it began
	begins uint64                // position of its first part; 0: that is not stored yet
	next   func() (string, bool) // yields the clients that were there when it began; queue.mu is held
	stop   func()
	names  []string        // that next has yielded and that are not stored yet
	states []journal.State // room for those of a part: garbage would have all sessions marked in the middle of a checkpoint

	posting []journal.Producer      // those of a part, in room of the same kind
	packets []packets               // those of a part
	more    func(client string) int // how many bytes these two take of a client; queue.mu is held
}

// The log is measured, and trimmed if that is due, this often and after so many bytes.
const (
	retainTime  = 2 * time.Second
	retainBytes = 32 << 20
)
