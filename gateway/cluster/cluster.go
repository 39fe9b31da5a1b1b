// Package cluster stores the log of a gateway in a stream of a JetStream cluster, which several gateways may share.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/gateway/journal"
)

// Options are the settings of a log in a JetStream cluster. The zero value works if
// the stream exists.
type Options struct {
	// Stream is the name of the stream. Empty means HONED.
	Stream string
	// LockTime is how long to wait for a process that has Dir. 0 means 1 s.
	LockTime time.Duration
	// Replicas is the minimum number of replicas of the stream. 0 means 3.
	Replicas int
	// Create creates the stream if it does not exist. Without Create, or if Dir has a mark,
	// a missing stream is refused.
	Create bool
	// ReadOnly opens a stream only to read it, whatever its configuration. It takes no lock and creates nothing.
	ReadOnly bool
	// Dir is a local folder for a high-water mark, which detects that the stream has lost
	// its end or is gone. Empty means no detection.
	Dir string
	// Credentials is a file of NATS credentials, NKey one with an nkey's seed, PasswordFile one with
	// the password of User. Empty means none. They are read again for each connection.
	Credentials, NKey  string
	User, PasswordFile string
	// CA is a PEM file with the authorities that sign the servers' certificates. Empty means the
	// system's. Cert and Key are PEM files with a certificate of this client.
	CA, Cert, Key string
	// Logger gets trouble with the cluster, and its end. nil means no logging.
	Logger *slog.Logger
}

// Timeouts and retries of requests to a cluster. A hanging node is detected after
// pingEvery * pingsOut; an election takes 4 to 9 s.
const (
	defaultStream   = "HONED"
	defaultReplicas = 3
	attemptTime     = 2 * time.Second
	retryEvery      = 100 * time.Millisecond
	requestTimeout  = 30 * time.Second // of a request that is retried until then
	pingEvery       = time.Second
	pingsOut        = 2
	reconnectEvery  = 200 * time.Millisecond
	connectTime     = 2 * time.Second
)

// Log is a journal.Log in one stream of an external JetStream cluster. An envelope is acknowledged
// when a majority of the replicas has it; the servers must run with sync_interval: always.
//
// Several processes may append to one stream. When another process has appended something that
// the caller has not read, Append returns ErrConflict: Follow to the end, and append again.
type Log struct {
	o         Options
	lock      *os.File
	mark      *writer.Mark
	said      troubles
	stream    *stream
	sequencer sequencer
	turns     turns
	writer    string // id of this process, for writerHeader
	count     uint64 // Appends so far; between two Appends
	next      uint64 // position after the last one that the caller has read; between two Appends
	heard     uint64 // up to where the next Follow need not ask; between two Appends
}

// Open connects to the servers, comma-separated NATS URLs, and checks the configuration of
// the stream and that it has not lost its end. ctx applies to Open only.
func Open(ctx context.Context, servers string, o Options) (*Log, error) {
	if o.Stream == "" {
		o.Stream = defaultStream
	}
	if o.Replicas == 0 {
		o.Replicas = defaultReplicas
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{o: o, writer: rand.Text(), said: troubles{log: o.Logger}}
	err := l.open(ctx, servers)
	if err != nil {
		l.release()
		return nil, writer.About(servers, err)
	}
	if l.mark != nil && !o.ReadOnly {
		l.mark.Run(func() error { return writer.Replaced(l.mark.File) })
	}
	return l, nil
}

func (l *Log) open(ctx context.Context, servers string) error {
	nc, err := l.o.connect(servers, &l.said)
	if err != nil {
		return err
	}
	if l.stream, err = newStream(nc, l.o.Stream); err != nil {
		nc.Close()
		return err
	}
	marked, err := l.openMark()
	if err != nil {
		return err
	}
	info, err := l.find(ctx, marked)
	if err != nil {
		return err
	}
	if !l.o.ReadOnly {
		if err := l.o.checkConfig(info.Config); err != nil {
			return err
		}
	}
	if !l.o.ReadOnly {
		if err := l.turns.join(nc, l.o.Stream, l.writer, l.sequencer.nudge); err != nil {
			return err
		}
	}
	_, l.next = bounds(info.State)
	l.sequencer.Tell(l.next, nil)
	if marked && l.next-1 < l.mark.Written {
		return &journal.Refusal{
			What:   fmt.Sprintf("the stream %s ends at position %d but has reached %d before", l.o.Stream, l.next-1, l.mark.Written),
			Repair: "restore the stream from a backup; acknowledged messages are missing",
		}
	}
	if l.o.Dir != "" && !marked && !l.o.ReadOnly {
		if err := writer.CreateMark(l.markPath()); err != nil {
			return err
		}
		if l.mark, err = writer.OpenMark(l.markPath(), false); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) markPath() string { return filepath.Join(l.o.Dir, l.o.Stream+"."+writer.MarkName) }

func (l *Log) openMark() (found bool, err error) {
	switch {
	case l.o.Dir == "":
		return false, nil
	case !l.o.ReadOnly:
		if err := os.MkdirAll(l.o.Dir, 0o700); err != nil {
			return false, err
		}
		if l.lock, err = writer.Lock(filepath.Join(l.o.Dir, l.o.Stream+"."+writer.LockName), l.o.LockTime); err != nil {
			return false, err
		}
	}
	if _, err := os.Lstat(l.markPath()); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l.mark, err = writer.OpenMark(l.markPath(), l.o.ReadOnly)
	return true, err
}

// find waits until the cluster answers for the stream, and creates it if that is allowed.
func (l *Log) find(ctx context.Context, marked bool) (*jetstream.StreamInfo, error) {
	for {
		info, err := l.stream.state(ctx)
		missing := refused(err, jetstream.JSErrCodeStreamNotFound)
		switch {
		case err == nil:
			return info, nil
		case missing && (marked || !l.o.Create || l.o.ReadOnly):
			return nil, &journal.Refusal{
				What:   fmt.Sprintf("the cluster has no stream %s", l.o.Stream),
				Repair: "check the URL and the account; restore the stream from a backup, or create a new one explicitly",
				Err:    err,
			}
		case missing:
			attempt, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err = l.stream.js.CreateStream(attempt, l.o.config())
			cancel()
		}
		if err != nil && l.stream.nc.IsConnected() { // else the connection has said why
			l.said.trouble("the cluster does not answer for the stream "+l.o.Stream, err)
		}
		if paused := writer.Pause(ctx, retryEvery); paused != nil {
			return nil, errors.Join(paused, err)
		}
	}
}

// awaitState asks for the state until it gets an answer or ctx ends.
func (l *Log) awaitState(ctx context.Context) (*jetstream.StreamInfo, error) {
	for {
		info, err := l.stream.state(ctx)
		if err == nil || errors.Is(err, nats.ErrConnectionClosed) {
			return info, err
		}
		if paused := writer.Pause(ctx, retryEvery); paused != nil {
			return nil, errors.Join(paused, err)
		}
	}
}

// Append publishes one envelope and waits until a majority has it. Through elections and
// reconnects it retries the same position until ctx ends; that breaks the Log.
func (l *Log) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if err := journal.CheckHeader(envelope); err != nil {
		return 0, err
	}
	return l.sequencer.Append(ctx, func() (uint64, error) { return l.append(ctx, envelope) })
}

func (l *Log) append(ctx context.Context, envelope []byte) (uint64, error) {
	if l.o.ReadOnly {
		return 0, errors.New("journal: the stream is open to be read only")
	}
	if l.mark != nil && l.mark.Err() != nil {
		return 0, l.sequencer.Breaks(l.mark.Err())
	}
	began := time.Now()
	defer func() { l.turns.done(time.Since(began)) }()
	if l.leave(ctx, len(envelope)) {
		return 0, journal.ErrConflict
	}
	l.count++
	return l.place(ctx, envelope, l.writer+"-"+strconv.FormatUint(l.count, 10), false)
}

// AppendReserved returns ErrNoSpace: a cluster has no reserve.
func (l *Log) AppendReserved(context.Context, []byte) (uint64, error) { return 0, journal.ErrNoSpace }

// place publishes an envelope until its outcome is known. uncertain means that an earlier
// attempt may have stored it.
func (l *Log) place(ctx context.Context, envelope []byte, by string, uncertain bool) (uint64, error) {
	began := time.Now()
	for pos := l.next; ; uncertain = true {
		attempt, cancel := context.WithTimeout(ctx, attemptTime)
		err := l.stream.publish(attempt, envelope, pos, by)
		cancel()
		switch {
		case err == nil:
			return l.stored(pos), nil
		case refused(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant):
			ours, resolved := l.holds(ctx, pos, by, uncertain)
			switch {
			case resolved != nil:
				return 0, l.sequencer.Breaks(errors.Join(err, resolved))
			case ours:
				return l.stored(pos), nil
			}
			l.lost(ctx)
			return 0, journal.ErrConflict
		case refused(err, codeNoResources, codeNoStorage, codeStoreFailed) && !uncertain:
			return 0, fmt.Errorf("%w: %w", journal.ErrNoSpace, err)
		case time.Since(began) > attemptTime && l.stream.nc.IsConnected():
			l.said.trouble("the cluster does not store an envelope", err)
		}
		if paused := writer.Pause(ctx, retryEvery); paused != nil {
			return 0, l.sequencer.Breaks(errors.Join(err, paused))
		}
	}
}

// Status returns whether there is a connection to the cluster. How much that can store nobody says.
func (l *Log) Status() journal.Status {
	connected := l.stream.nc.IsConnected()
	return journal.Status{Left: math.MaxInt64, Connected: &connected, Disconnections: l.stream.nc.Stats().Reconnects}
}

// Failed returns a channel that receives an error if the mark fails between two Appends. Without a
// mark it never does.
func (l *Log) Failed() <-chan error {
	if l.mark == nil {
		return nil
	}
	return l.mark.Ended
}

func (l *Log) stored(pos uint64) uint64 {
	l.next = pos + 1
	l.turns.stored(pos)
	l.sequencer.Tell(l.next, nil)
	if l.mark != nil {
		l.mark.Position.Store(pos)
	}
	return pos
}

// holds reports whether position pos has writer's envelope, after JetStream has refused to store
// it there. Unless an earlier attempt is uncertain, another writer's envelope is there.
func (l *Log) holds(ctx context.Context, pos uint64, writer string, uncertain bool) (ours bool, err error) {
	info, err := l.awaitState(ctx)
	if err != nil {
		return false, err
	}
	_, next := bounds(info.State)
	if next < pos {
		return false, fmt.Errorf("the stream ends at position %d but has reached %d before", next-1, pos-1)
	}
	if !uncertain {
		return false, nil
	}
	err = l.stream.read(ctx, pos, max(next, pos+1), func(at uint64, m *nats.Msg) error {
		switch {
		case m.Header.Get(writerHeader) != writer:
			return nil
		case at == pos:
			ours = true
			return nil
		case ours: // stored twice because of an election; Read yields it once
			return nil
		}
		// An old leader had accepted it. The caller has not read the positions between.
		return fmt.Errorf("stored at position %d after another writer's envelope, instead of %d", at, pos)
	})
	return ours, err
}

// Trim purges the envelopes before position to. nats-server deletes whole files, beside Append.
func (l *Log) Trim(ctx context.Context, to uint64) error {
	first, next, err := l.bounds(ctx)
	// Purging to 0 would delete everything, and beyond the end would skip positions.
	if to = min(to, next); err != nil || to <= first {
		return err
	}
	found, err := l.stream.js.Stream(ctx, l.stream.name)
	if err == nil {
		err = found.Purge(ctx, jetstream.WithPurgeSequence(to))
	}
	if err != nil {
		return fmt.Errorf("journal: trim: %w", err)
	}
	return nil
}

// Close ends the connection and writes the high-water mark.
func (l *Log) Close() error {
	if l.sequencer.Shut() == journal.ErrClosed {
		return nil
	}
	var err error
	if l.mark != nil && !l.o.ReadOnly {
		err = l.mark.Halt()
		l.mark = nil
	}
	l.release()
	return err
}

func (l *Log) release() {
	if l.turns.idle != nil {
		l.turns.idle.Stop()
	}
	if l.stream != nil {
		l.stream.nc.Close()
	}
	if l.mark != nil {
		l.mark.File.Close()
	}
	if l.lock != nil {
		l.lock.Close()
	}
}
