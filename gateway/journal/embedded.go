package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// EmbeddedOptions are the settings of an embedded log. The zero value works.
type EmbeddedOptions struct {
	// Reserve is how many bytes Append leaves free on the disk. It returns ErrNoSpace
	// rather than use them. 0 means 64 MiB.
	Reserve int64
	// MaxBytes is the size limit of the log. 0 means that only Reserve limits it.
	MaxBytes int64
	// Progress is called with the progress of the verification at start. nil means no call.
	Progress func(done, all uint64)
	// Patience is the timeout of an Append; after it the log is broken. 0 means 30 s.
	Patience time.Duration
	// Logger receives JetStream's warnings and errors. nil means no logging.
	Logger *slog.Logger

	off guards
}

// guards are safety checks that tests switch off, to show that each is needed.
type guards struct {
	ready, mark, expect, verify, lock, reserve, fsync, resync, folders bool
	direct                                                             bool // no guard: append through a client
}

// The files in an embedded log's folder.
const (
	lockName  = "lock"
	readyName = "READY" // the store was created, closed, and found again by recovery
	beginName = "BEGIN" // the store is being created: it has no acknowledged records
	markName  = "mark"
	storeName = "store" // JetStream's folder
	readyText = "honed log 1\n"

	streamName     = "LOG"
	startTimeout   = 5 * time.Minute // recovery of a large store
	startStep      = 100 * time.Millisecond
	requestTimeout = 30 * time.Second // of an Append as well
	defaultReserve = 64 << 20
)

// Embedded is a Log on one machine: a JetStream server in this process that opens no port and
// fsyncs each envelope before Append returns.
//
// It refuses a folder that is not as the last run left it: see Refusal.
type Embedded struct {
	dir    string
	o      EmbeddedOptions
	lock   *os.File
	folder *os.File // dir, locked
	mark   *mark
	server *server.Server
	stream *stream
	direct *direct // nil: publish to stream
	turn   turn
	next   uint64       // position of the next envelope; under turn.mu
	size   atomic.Int64 // approximate size of the log; only Append changes it
	block  uint64       // number of JetStream's newest file
	after  string       // path of JetStream's next file
	faults faults
}

// OpenEmbedded opens the log in the folder dir, or creates one if dir is empty or does not exist.
// It reads and verifies the whole log. ctx applies to OpenEmbedded only.
func OpenEmbedded(ctx context.Context, dir string, o EmbeddedOptions) (*Embedded, error) {
	if o.Reserve == 0 {
		o.Reserve = defaultReserve
	}
	if o.Patience == 0 {
		o.Patience = requestTimeout
	}
	l := &Embedded{dir: dir, o: o}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && !o.off.lock {
		if l.folder, err = takeFolder(dir); err == nil {
			l.lock, err = takeLock(l.path(lockName))
		}
	}
	if err == nil {
		err = l.prepare(ctx)
	}
	if err == nil {
		err = l.recover(ctx)
	}
	if err != nil {
		l.release()
		var refusal *Refusal
		if errors.As(err, &refusal) {
			return nil, err
		}
		return nil, fmt.Errorf("journal: %s: %w", dir, err)
	}
	if !o.off.lock {
		l.mark.check = l.keep
	}
	l.mark.run()
	return l, nil
}

// keep checks that the folder and the mark are still those that this process has locked. It
// replaces a deleted lock file: earlier versions lock nothing else.
func (l *Embedded) keep() error {
	err := replaced(l.folder)
	if err == nil {
		err = replaced(l.mark.f)
	}
	if err == nil {
		l.lock, err = kept(l.lock, l.path(lockName))
	}
	return err
}

// Failed returns a channel that receives an error if the log fails between two Appends: its files
// were deleted or replaced, or the high-water mark cannot be written.
func (l *Embedded) Failed() <-chan error { return l.mark.ended }

// path returns the path of a file in the folder.
func (l *Embedded) path(name string) string { return filepath.Join(l.dir, name) }

// prepare creates the store if there has never been one. It never creates the stream in an
// existing store: JetStream would accept messages for it and drop them at the next start.
func (l *Embedded) prepare(ctx context.Context) error {
	ready, err := os.ReadFile(l.path(readyName))
	switch {
	case l.o.off.ready && err == nil:
		return l.start(ctx, true) // the behaviour without the guard
	case err == nil && string(ready) == readyText:
		os.Remove(l.path(beginName))
		return l.start(ctx, false)
	case err == nil:
		return &Refusal{
			What:   fmt.Sprintf("%s was written by another version of honed: %q", l.path(readyName), ready),
			Repair: "start the version that wrote it",
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := l.checkEmpty(); err != nil {
		return err
	}
	if err := writeSynced(l.path(beginName), nil); err != nil {
		return err
	}
	if err := os.RemoveAll(l.path(storeName)); err != nil { // left by an interrupted start
		return err
	}
	if err := l.start(ctx, true); err != nil {
		return err
	}
	l.stopServer()
	if err := l.start(ctx, false); err != nil { // recovery must find the store
		return err
	}
	if err := syncTree(l.path(storeName)); err != nil {
		return err
	}
	if err := createMark(l.path(markName)); err != nil {
		return err
	}
	if err := writeSynced(l.path(readyName), []byte(readyText)); err != nil {
		return err
	}
	if err := os.Remove(l.path(beginName)); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(l.dir)) // dir may be a new entry there
	return errors.Join(syncDir(l.dir), syncDir(parent))
}

// checkEmpty refuses to create a store next to the remains of another.
func (l *Embedded) checkEmpty() error {
	if _, err := os.Stat(l.path(beginName)); err == nil {
		return nil
	}
	for _, name := range []string{storeName, markName} {
		if _, err := os.Lstat(l.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return &Refusal{
				What:   fmt.Sprintf("%s has a log but no file %s", l.dir, readyName),
				Repair: "restore the folder from a backup, or use an empty folder",
				Err:    err,
			}
		}
	}
	return nil
}

// start starts JetStream and finds or creates the stream.
func (l *Embedded) start(ctx context.Context, create bool) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "honed", DontListen: true, NoSigs: true, NoSystemAccount: true,
		JetStream: true, StoreDir: l.path(storeName), DisableJetStreamBanner: true,
		SyncAlways: !l.o.off.fsync, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 60,
		MaxPayload: 1 << 20,
	})
	if err != nil {
		return err
	}
	s.SetLoggerV2(serverLog{l.o.Logger, &l.faults}, false, false, false)
	l.server = s
	s.Start()
	for began := time.Now(); !s.ReadyForConnections(startStep); {
		switch {
		case l.faults.fatal() != nil:
			return l.faults.fatal()
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(began) > startTimeout:
			return fmt.Errorf("JetStream did not start within %v", startTimeout)
		}
	}
	if !s.JetStreamEnabled() {
		return errors.Join(errors.New("JetStream cannot use its folder"), l.faults.fatal())
	}
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.NoReconnect())
	if err != nil {
		return err
	}
	if l.stream, err = newStream(nc, streamName); err != nil {
		nc.Close()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if create {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err := l.faults.watch(cancel); err != nil {
			return err
		}
		defer l.faults.watch(nil)
		if _, err = l.stream.js.CreateOrUpdateStream(ctx, l.stream.config(1)); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	_, err = l.stream.state(ctx)
	var api jetstream.JetStreamError
	if errors.As(err, &api) && api.APIError() != nil && api.APIError().ErrorCode == codeStreamNotFound {
		return &Refusal{
			What: fmt.Sprintf("JetStream does not find the existing log in %s", l.path(storeName)),
			Repair: "restore the folder from a backup; the messages are probably still in the *.blk files, " +
				"and meta.inf or meta.sum next to them is missing or damaged",
			Err: err,
		}
	}
	return err
}

// recover compares the stream that JetStream found with the mark, and verifies it.
func (l *Embedded) recover(ctx context.Context) error {
	info, err := l.stream.state(ctx)
	if err != nil {
		return err
	}
	if err := l.stream.checkConfig(info.Config, 1); err != nil {
		return err
	}
	if l.mark, err = openMark(l.path(markName)); err == nil && !l.o.off.lock {
		err = exclude(l.mark.f, l.path(lockName))
	}
	if err != nil {
		return err
	}
	first, next := bounds(info.State)
	l.next = next
	l.size.Store(int64(info.State.Bytes))
	if reached := l.mark.written; next-1 < reached && !l.o.off.mark {
		return &Refusal{
			What:   fmt.Sprintf("the log in %s ends at position %d but has reached %d before", l.dir, next-1, reached),
			Repair: "restore the folder from a backup; acknowledged messages are missing",
		}
	}
	if next-first != info.State.Msgs && !l.o.off.verify {
		return &Refusal{
			What:   fmt.Sprintf("the log in %s has %d envelopes from position %d to %d", l.dir, info.State.Msgs, first, next-1),
			Repair: "restore the folder from a backup; acknowledged messages are missing",
		}
	}
	if !l.o.off.verify {
		if err := l.Verify(ctx, l.o.Progress); err != nil {
			return err
		}
	}
	// A killed process may have written an envelope without syncing it. After this start its
	// records count as stored and are acknowledged, so make them durable now.
	if !l.o.off.resync {
		if err := syncTree(l.path(storeName)); err != nil {
			return err
		}
	}
	l.mark.pos.Store(next - 1)
	if err := l.findBlock(); err != nil {
		return err
	}
	l.faults.clearFirst()
	if !l.o.off.direct && !l.o.off.expect {
		if l.direct, err = openDirect(l.server, streamName); err != nil {
			return err
		}
	}
	return l.mark.save()
}

// findBlock finds the store's newest file.
func (l *Embedded) findBlock() error {
	files, err := os.ReadDir(l.path(blockFolder))
	if err != nil {
		return err
	}
	for _, f := range files {
		var n uint64
		if _, err := fmt.Sscanf(f.Name(), "%d.blk", &n); err == nil {
			l.block = max(l.block, n)
		}
	}
	l.nextBlock()
	return nil
}

// nextBlock sets l.after to the file that JetStream creates after l.block.
func (l *Embedded) nextBlock() {
	l.after = l.path(filepath.Join(blockFolder, fmt.Sprintf("%d.blk", l.block+1)))
}

// blockFolder is where JetStream keeps the stream's messages.
const blockFolder = storeName + "/jetstream/$G/streams/" + streamName + "/msgs"

// Append publishes one envelope and waits until JetStream has fsynced it.
func (l *Embedded) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if err := l.turn.enter(ctx, envelope); err != nil {
		return 0, err
	}
	defer l.turn.mu.Unlock()
	if err := l.mark.err(); err != nil {
		return 0, l.turn.breaks(err)
	}
	if err := l.room(int64(len(envelope))); err != nil {
		return 0, err
	}
	pos := l.next
	err := l.publish(ctx, envelope, pos)
	if err == nil {
		err = l.syncNewBlock()
	}
	if err != nil {
		return 0, l.turn.breaks(err)
	}
	l.next++
	l.size.Add(int64(len(envelope)))
	l.mark.pos.Store(pos)
	return pos, nil
}

// publish stores an envelope. It fails when ctx ends, after a timeout, and when JetStream logs an
// error.
func (l *Embedded) publish(ctx context.Context, envelope []byte, pos uint64) error {
	if l.direct != nil {
		err := l.faults.any()
		if err == nil {
			err = l.direct.append(ctx, envelope, pos, l.o.Patience)
		}
		if err == nil {
			err = l.faults.any()
		}
		return err
	}
	ctx, release := context.WithTimeout(ctx, l.o.Patience)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.faults.watch(cancel); err != nil {
		return err
	}
	defer l.faults.watch(nil)
	err := l.stream.publish(ctx, envelope, pos, !l.o.off.expect, "")
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// faults collects the errors that JetStream logs: the only sign of a failing disk.
type faults struct {
	mu     sync.Mutex
	first  error
	worst  error                   // JetStream cannot go on
	cancel context.CancelCauseFunc // cancels the running request
}

// any returns the first fault.
func (f *faults) any() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

func (f *faults) fatal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.worst
}

// clearFirst drops the errors that JetStream logged during its recovery: the log has been verified
// since.
func (f *faults) clearFirst() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first = f.worst
}

// watch registers cancel to be called at the first fault, and returns an earlier fault.
func (f *faults) watch(cancel context.CancelCauseFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancel = cancel
	return f.first
}

func (f *faults) report(text string, fatal bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fatal && f.worst == nil {
		f.worst = errors.New(text)
	}
	if f.first != nil {
		return
	}
	f.first = errors.New(text)
	if f.cancel != nil {
		f.cancel(f.first)
	}
}

// Room returns the size of the log, and how many bytes it may still grow. It does not wait for a
// running Append.
func (l *Embedded) Room() (size, left int64) {
	size = l.size.Load()
	return size, l.space().left(size)
}

func (l *Embedded) space() space { return space{l.dir, l.o.Reserve, l.o.MaxBytes} }

// room refuses an envelope that would exceed MaxBytes or use the disk's reserve.
func (l *Embedded) room(size int64) error {
	err := l.space().check(l.size.Load(), size)
	switch {
	case err == nil, l.o.off.reserve:
		return nil
	case errors.Is(err, ErrNoSpace):
		return err
	}
	return l.turn.breaks(err)
}

// syncNewBlock makes the name of a new file durable. JetStream syncs only the file itself, and
// POSIX does not promise that this makes its name durable.
func (l *Embedded) syncNewBlock() error {
	begun := false
	for ; ; begun = true {
		if _, err := os.Lstat(l.after); err != nil {
			break
		}
		l.block++
		l.nextBlock()
	}
	if !begun || l.o.off.folders {
		return nil
	}
	return syncDir(l.path(blockFolder))
}

// Read calls each for every envelope from position from.
func (l *Embedded) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	first, next, err := l.Bounds()
	if err != nil {
		return err
	}
	return l.stream.read(ctx, max(from, first), next, func(pos uint64, m *nats.Msg) error { return each(pos, m.Data) })
}

// Bounds returns the first position and the next one.
func (l *Embedded) Bounds() (first, next uint64, err error) {
	l.turn.mu.Lock()
	defer l.turn.mu.Unlock()
	if l.turn.closed {
		return 0, 0, ErrClosed
	}
	return 1, l.next, nil // the log never deletes anything
}

// Verify reads and checks every envelope. JetStream checks its own checksums as well.
func (l *Embedded) Verify(ctx context.Context, progress func(done, all uint64)) error {
	return verify(ctx, l, progress)
}

// Close stops JetStream and writes the high-water mark.
func (l *Embedded) Close() error {
	if !l.turn.shut() {
		return nil
	}
	err := l.mark.halt()
	l.mark = nil
	l.release()
	return err
}

// release releases the resources of a log, which may be partly opened.
func (l *Embedded) release() {
	if l.direct != nil {
		l.direct.close()
	}
	l.stopServer()
	if l.mark != nil {
		l.mark.f.Close()
	}
	if l.lock != nil {
		l.lock.Close()
	}
	if l.folder != nil {
		l.folder.Close()
	}
}

// stopServer shuts JetStream down and waits for it.
func (l *Embedded) stopServer() {
	if l.stream != nil {
		l.stream.nc.Close()
	}
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
		l.server = nil
	}
}

// syncTree makes a folder and everything in it durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // JetStream may rename or remove files meanwhile
			return nil
		case err != nil:
			return err
		case d.Type()&^fs.ModeDir != 0:
			return nil
		}
		if err := syncDir(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// serverLog forwards JetStream's warnings and errors to the operator. An error is a fault of the
// log.
type serverLog struct {
	log    *slog.Logger // nil: silent
	faults *faults
}

func (s serverLog) Noticef(string, ...any) {}
func (s serverLog) Debugf(string, ...any)  {}
func (s serverLog) Tracef(string, ...any)  {}

func (s serverLog) Warnf(format string, args ...any) {
	if s.log != nil {
		s.log.Warn(fmt.Sprintf(format, args...))
	}
}

func (s serverLog) Errorf(format string, args ...any) { s.fault(fmt.Sprintf(format, args...), false) }
func (s serverLog) Fatalf(format string, args ...any) { s.fault(fmt.Sprintf(format, args...), true) }

func (s serverLog) fault(text string, fatal bool) {
	s.faults.report(text, fatal)
	if s.log != nil {
		s.log.Error(text)
	}
}
