package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// logFlags are the flags that select the log.
type logFlags struct {
	data, url  string
	cluster    cluster.Options
	segments   journal.SegmentsOptions
	appendTime time.Duration
}

func (f *logFlags) add(flags *flag.FlagSet) {
	flags.StringVar(&f.data, "data", "honed-data", "`FOLDER` of the log")
	flags.StringVar(&f.url, "log", "", "keep the log in a JetStream cluster, `nats://HOST:PORT,…`; empty: in segments in --data")
	f.cluster.AddFlags(flags)
}

// addWriting adds the flags that only a verb that appends to the log has.
func (f *logFlags) addWriting(flags *flag.FlagSet) {
	f.add(flags)
	flags.BoolVar(&f.cluster.Create, "create-stream", false, "create the cluster's stream if it does not exist")
	flags.Func("accept-loss", "`FIRST-LAST`, or one position: start without these envelopes, which honed has named as lost", f.acceptLoss)
	flags.Int64Var(&f.segments.Reserve, "reserve", 64<<20, "`BYTES` of disk space that the log leaves free")
	flags.DurationVar(&f.appendTime, "append-time", 30*time.Second, "how long storing an envelope may take before the log counts as failed and honed exits")
	flags.Int64Var(&f.segments.MaxBytes, "max-log", 0, "size limit of the log in `BYTES`; 0: only the disk limits it")
}

// isCluster reports whether other servers may append to the log.
func (f *logFlags) isCluster() bool {
	return strings.HasPrefix(f.url, "nats://") || strings.HasPrefix(f.url, "tls://")
}

// level returns what the log's acknowledgements promise.
func (f *logFlags) level() gateway.Level {
	if f.isCluster() {
		return gateway.Quorum
	}
	return gateway.Disk
}

// check refuses flags that contradict each other.
func (f *logFlags) check() error {
	if err := f.cluster.CheckFlags(); err != nil {
		return commandline.UsageError{Err: err}
	}
	if f.url != "" && !f.isCluster() {
		return commandline.UsageError{Err: fmt.Errorf("--log %q is not a nats:// or tls:// URL", f.url)}
	}
	return nil
}

func (f *logFlags) open(ctx context.Context, logger *slog.Logger) (journal.Log, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if !f.isCluster() {
		f.segments.Logger = logger
		return journal.OpenSegments(f.data, f.segments)
	}
	if f.cluster.Replicas < 3 {
		logger.Warn("a stream with fewer than 3 replicas loses records when one machine is lost", "replicas", f.cluster.Replicas)
	}
	f.cluster.Dir, f.cluster.Logger = f.data, logger
	return cluster.Open(ctx, f.url, f.cluster)
}

// read opens the log to read it. Another process may append to it meanwhile.
func (f *logFlags) read(ctx context.Context, logger *slog.Logger) (journal.Reader, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if !f.isCluster() {
		return journal.OpenReader(f.data, logger)
	}
	f.cluster.Dir, f.cluster.Logger, f.cluster.ReadOnly = f.data, logger, true
	return cluster.Open(ctx, f.url, f.cluster)
}

// acceptLoss sets what --accept-loss names: a position, or FIRST-LAST.
func (f *logFlags) acceptLoss(text string) (err error) {
	p := &f.segments.AcceptLoss
	first, last, isRange := strings.Cut(text, "-")
	p.First, err = strconv.ParseUint(first, 10, 64)
	if p.Last = p.First; isRange && err == nil {
		p.Last, err = strconv.ParseUint(last, 10, 64)
	}
	if err != nil || p.First == 0 || p.Last < p.First {
		return errors.New("want a position, or FIRST-LAST")
	}
	return nil
}

// explain adds the remedy to an error that an operator can fix.
func explain(err error) error {
	var refusal *journal.Refusal
	var socket *net.OpError
	switch {
	case errors.As(err, &refusal), errors.As(err, &socket) && socket.Net == "unix" && errors.Is(err, syscall.EADDRINUSE):
		// It has a remedy already.
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; choose another address with --listen or --admin", err)
	case errors.Is(err, syscall.EACCES) || errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; run honed as the owner of that file, or choose another folder with --data", err)
	case errors.Is(err, journal.ErrNoSpace) || errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; free some space, lower --reserve or raise --max-log, and restart honed", err)
	case errors.Is(err, gateway.ErrOpen):
		return fmt.Errorf("%w; give --tokens FILE or --client-ca FILE, or listen on 127.0.0.1", err)
	case errors.Is(err, journal.ErrBroken):
		return fmt.Errorf("%w; restart honed: it recovers every acknowledged record", err)
	}
	return err
}

// progress prints a line to standard error every second while long work runs.
type progress struct {
	out        io.Writer
	what, unit string
	began      time.Time
	shown      time.Time
}

func (p *progress) set(done, all uint64) {
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.shown = now, now
	}
	if now.Sub(p.shown) < time.Second {
		return
	}
	p.shown = now
	fmt.Fprintf(p.out, "%s %d of %d %s (%d %%), %d s\n", p.what, done, all, p.unit, 100*done/max(all, 1), int(now.Sub(p.began).Seconds()))
}

// addControl defines the flags of a verb that asks the running honed.
func addControl(flags *flag.FlagSet) *commandline.Control {
	c := new(commandline.Control)
	flags.StringVar(&c.Folder, "data", "honed-data", "`FOLDER` of the running honed")
	c.AddFlag(flags)
	return c
}
