package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tlsfiles"
)

// serving are the flags of honed without a verb.
type serving struct {
	commandline.Serving
	srv           gateway.Server
	log           logFlags
	listen        commandline.List
	control       commandline.Control
	posts         commandline.List
	origins       commandline.List
	mqtt          commandline.List
	mqttLevel     string
	keepAlive     uint
	tokens        string
	cert, key, ca string
	tickets       string
	drain         time.Duration
	upgrade       string
	verifyRate    int64
	json          bool

	listeners []listening
	draining  atomic.Bool
}

// listening is an open listener, and what serves it.
type listening struct {
	net.Listener
	serve func(net.Listener) error
}

func (f *serving) add(flags *flag.FlagSet) {
	limits := &f.srv.Limits
	f.log.addWriting(flags)
	f.control.AddFlag(flags)
	f.listen.Values = []string{"127.0.0.1:7100"}
	flags.Var(&f.listen, "listen", "serve clients on `HOST:PORT` or unix:PATH; repeat for more. Port 0 picks a free one")
	flags.Var(&f.posts, "http", "take records by HTTP, POST /v1/CLIENT, on `HOST:PORT` or unix:PATH; repeat for more")
	flags.Var(&f.origins, "http-origin", "let web pages of `ORIGIN` post, as in https://example.com; * is all; repeat for more")
	flags.Var(&f.mqtt, "mqtt", "take records by MQTT 3.1.1 and 5 on `HOST:PORT` or unix:PATH; repeat for more")
	flags.StringVar(&f.mqttLevel, "mqtt-level", gateway.Disk.String(), "`LEVEL` at which messages of MQTT at QoS 1 and 2 are acknowledged: received or disk")
	flags.UintVar(&f.keepAlive, "mqtt-keep-alive", 0, "longest keep-alive of a client of MQTT, in `SECONDS` up to 65535, also for one that asks for none; 0: no limit")
	flags.StringVar(&f.tokens, "tokens", "", "accept only the clients in this `FILE`: lines \"CLIENT TOKEN\", \"NAME TOKEN writes:PREFIX\" for all clients with a prefix, or for a reader \"NAME TOKEN reads\"; sha256:HEX may stand for a token")
	flags.StringVar(&f.cert, "cert", "", "serve TLS with the certificate in this PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "private key of the certificate, a PEM `FILE`")
	flags.StringVar(&f.tickets, "ticket-keys", "", "resume the TLS sessions of other processes, with the keys in this `FILE`: lines of 64 hexadecimal digits, the first for new sessions")
	flags.StringVar(&f.ca, "client-ca", "", "accept only clients whose certificate names them and is signed by a CA in this PEM `FILE`")
	flags.DurationVar(&f.srv.Expiry, "expiry", 7*24*time.Hour, "how long to remember the session of a disconnected client")
	flags.BoolVar(&f.srv.TrustClock, "trust-clock", false, "let log time follow every step forward, whatever the kernel says about the wall clock")
	flags.IntVar(&f.srv.Clients, "clients", 1_000_000, "how many clients to remember; new ones above that are refused")
	flags.Int64Var(&f.srv.CheckpointBytes, "checkpoint-bytes", 176<<20, "`BYTES` of envelopes between two checkpoints of all sessions, which have at most 16 384 between them; a start reads about as many")
	flags.Int64Var(&f.verifyRate, "verify-rate", 20<<20, "`BYTES` per second at which the whole log is verified in the background, at the start and every 7 days; 0: it is not")
	flags.DurationVar(&limits.AuthTime, "hello-time", 5*time.Second, "how long a client may take for its hello, or a connection of --http for its first request")
	flags.DurationVar(&limits.IdleTime, "idle-time", 3*time.Minute, "how long a client may send nothing")
	flags.IntVar(&f.srv.QueueBytes, "queue-bytes", 64<<20, "`BYTES` that may wait for the log before honed stops reading (backpressure)")
	flags.DurationVar(&f.srv.ReaderExpiry, "reader-expiry", 30*24*time.Hour, "for how long a reader that is not connected keeps records from being deleted, in running time of honed; 0: for ever")
	flags.IntVar(&f.srv.Readers, "readers", 1000, "how many readers may be connected; more are refused")
	flags.DurationVar(&f.srv.RetainAge, "retain-age", 0, "delete records that are older, in running time of the servers, and that no reader needs; 0: none")
	flags.Int64Var(&f.srv.RetainSize, "retain-size", 0, "delete the oldest records that no reader needs while the log has more `BYTES`; 0: none")
	flags.BoolVar(&f.srv.RetainHard, "retain-hard", false, "delete also records that readers still need; they are told which they missed")
	flags.IntVar(&limits.InFlight, "window", 1024, "records in flight per connection")
	flags.IntVar(&limits.FrameSize, "frame-size", 64<<10, "largest frame in `BYTES`, 1KiB to 1019KiB, of which 13 are not the record's")
	flags.IntVar(&limits.Conns, "connections", 0, "maximum open connections, of all doors together; 0: 50 000, or half of the descriptor limit")
	flags.IntVar(&limits.AcceptRate, "accept-rate", 0, "new connections per second, at each door; more are told when to come again; 0: no limit")
	flags.DurationVar(&f.drain, "drain", 25*time.Second, "how long a drain may take before the remaining connections are closed")
	flags.DurationVar(&limits.SpreadTime, "spread-time", 0, "over how much of the drain connections end, evenly; 0: at its start")
	flags.StringVar(&f.upgrade, "upgrade", "", "replace the honed that has this socket, unix:`PATH`, without refusing a client, and be replaced the same way")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON when ready: listen, admin, pid")
	f.Serving.Add(flags, "127.0.0.1:7171", "also drain when standard input ends, for a server that must not outlive its parent")
}

// serve runs a gateway until ctx ends or its log fails.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f serving
	flags, config := commandline.New("honed")
	f.add(flags)
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	sys.OutliveReaders()
	logger, err := f.Logger(stderr)
	if err != nil {
		return err
	}
	srv := &f.srv
	tlsConfig, err := f.configure(logger)
	if err != nil {
		return err
	}
	// Open all listeners before the log, which may take long: a port in use fails at once. Clients
	// that connect early wait.
	defer f.stopListening()
	f.Sockets.Logger = logger
	taken, err := f.Sockets.Take(ctx)
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	defer f.Sockets.Close()
	addrs, err := f.open(f.listen.Values, srv.Serve, tlsConfig)
	if err != nil {
		return err
	}
	posts, err := f.open(f.posts.Values, srv.ServePosts, tlsConfig)
	if err != nil {
		return err
	}
	mqtt, err := f.open(f.mqtt.Values, srv.ServeMQTT, tlsConfig)
	if err != nil {
		return err
	}
	if err := (engine.Engine{}).CheckDescriptors(logDescriptors); err != nil {
		return err
	}
	var behind verification
	admin, stopAdmin, err := f.startAdmin(&behind, logger)
	if err != nil {
		return err
	}
	defer stopAdmin()
	if taken {
		if err := f.checkLog(ctx, logger); err != nil {
			return commandline.OrInterrupted(ctx, err)
		}
		if err := f.Sockets.Ready(ctx); err != nil { // then the other one closes the log
			return commandline.OrInterrupted(ctx, err)
		}
		f.log.segments.LockTime = passTime + f.drain
		f.log.cluster.LockTime = f.log.segments.LockTime
	}
	log, err := f.log.open(ctx, logger)
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	defer log.Close()
	srv.Log = log
	if err := srv.Recover(ctx); err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	f.control.Folder = f.log.data
	quiet, err := f.control.Answer(control(srv))
	if err != nil { // some file systems have no sockets
		logger.Warn("the verbs readers, sessions and clock cannot ask this honed", "err", err)
		quiet = func() {}
	}
	if !taken {
		if err := f.Sockets.Ready(ctx); err != nil {
			quiet()
			return err
		}
	}
	ctx = f.Context(ctx)
	background, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { behind.run(background, log, f.verifyRate, logger) })
	f.announce(stdout, addrs, posts, mqtt, admin)
	err = f.serveAll(ctx, logger)
	cancel()
	running.Wait()
	quiet() // before another honed gets the log, and answers there
	return cmp.Or(err, log.Close())
}

// checkLog reads the log of the honed that runs: it is not to be replaced by one that cannot open it.
func (f *serving) checkLog(ctx context.Context, logger *slog.Logger) error {
	reads := f.log
	log, err := reads.read(ctx, logger)
	if err == nil {
		err = log.Close()
	}
	return err
}

// passTime is how long clients may wait while this honed drains and another one waits for the log.
const passTime = 1500 * time.Millisecond

// logDescriptors is how many descriptors the log and the admin side need.
const logDescriptors = 16

// segmentsPerAge is how many segments a log has in --retain-age at least, so that records are not much older when they
// are deleted.
const segmentsPerAge = 8

// configure sets what is not a flag of its own in the gateway, and returns the TLS configuration; nil: none.
func (f *serving) configure(logger *slog.Logger) (_ *tls.Config, err error) {
	if err := f.checkNumbers(); err != nil {
		return nil, err
	}
	srv := &f.srv
	path, isPath := strings.CutPrefix(f.upgrade, "unix:")
	if f.Sockets.Path = path; f.upgrade != "" && !isPath {
		return nil, commandline.UsageError{Err: fmt.Errorf("--upgrade %q is not the path of a socket; write it as in unix:/run/honed/upgrade", f.upgrade)}
	}
	if isPath && srv.Limits.SpreadTime > 0 {
		return nil, commandline.UsageError{Err: errors.New("--spread-time and --upgrade exclude each other: the next honed waits until this one has closed the log")}
	}
	if srv.RetainAge < 0 || srv.RetainSize < 0 || srv.RetainHard && srv.RetainAge == 0 && srv.RetainSize == 0 {
		return nil, commandline.UsageError{Err: errors.New("--retain-age and --retain-size must not be negative, and --retain-hard needs one of them")}
	}
	srv.Durable, srv.Shared, srv.Origins = f.log.level(), f.log.isCluster(), f.origins.Values
	if srv.Shared && len(f.posts.Values)+len(f.mqtt.Values) > 0 {
		return nil, commandline.UsageError{Err: errors.New("--http and --mqtt need a log in a folder: with --log, several servers may have it")}
	}
	switch f.mqttLevel {
	case gateway.Received.String():
		srv.MQTTLevel = gateway.Received
	case gateway.Disk.String():
	default:
		return nil, commandline.UsageError{Err: fmt.Errorf("--mqtt-level is received or disk, not %s", f.mqttLevel)}
	}
	if srv.MQTTKeepAlive = uint16(f.keepAlive); f.keepAlive > math.MaxUint16 {
		return nil, commandline.UsageError{Err: fmt.Errorf("--mqtt-keep-alive is at most %d seconds, not %d", math.MaxUint16, f.keepAlive)}
	}
	if len(f.origins.Values) > 0 && len(f.posts.Values) == 0 {
		return nil, commandline.UsageError{Err: errors.New("--http-origin needs --http")}
	}
	srv.AppendTime, srv.AcceptLoss = f.log.appendTime, f.log.segments.AcceptLoss
	f.log.segments.SegmentTime = srv.RetainAge / segmentsPerAge
	srv.Certificates, srv.Logger = f.ca != "", logger
	if srv.ReaderExpiry == 0 {
		srv.ReaderExpiry = -1 // for ever
	}
	if f.tokens != "" {
		if srv.Tokens, err = gateway.ReadTokens(f.tokens); err != nil {
			return nil, err
		}
		if srv.Tokens.Empty() {
			logger.Warn("the file of tokens names nobody: nobody can connect until it does", "file", f.tokens)
		}
	}
	if f.cert == "" && f.key == "" && f.ca == "" && f.tickets == "" {
		return nil, nil
	}
	if f.cert == "" || f.key == "" {
		return nil, commandline.UsageError{Err: errors.New("--cert and --key must be given together, and --client-ca and --ticket-keys need both")}
	}
	return tlsfiles.Server{Cert: f.cert, Key: f.key, ClientCA: f.ca, TicketKeys: f.tickets, Logger: logger}.Config()
}

// checkNumbers refuses numbers with which honed could not work. Of the flags that it leaves out, a negative one is off.
func (f *serving) checkNumbers() error {
	srv, size := &f.srv, f.srv.Limits.FrameSize
	if size < 1<<10 || size > journal.MaxEnvelope-1<<10 { // gateway.Server keeps it between these, too
		return commandline.UsageError{Err: fmt.Errorf("--frame-size is 1KiB to 1019KiB, not %d", size)}
	}
	return cmp.Or(
		atLeast("queue-bytes", srv.QueueBytes, 1, "1 or more"),
		atLeast("append-time", f.log.appendTime, time.Second, "1s or more"),
		atLeast("max-log", f.log.segments.MaxBytes, 0, "0 (no limit) or more"),
		atLeast("reserve", f.log.segments.Reserve, 0, "0 (the default) or more"),
		atLeast("expiry", srv.Expiry, time.Second, "1s or more"),
		atLeast("clients", srv.Clients, 1, "1 or more"),
		atLeast("readers", srv.Readers, 1, "1 or more"),
		atLeast("reader-expiry", srv.ReaderExpiry, 0, "0 (for ever) or more"),
		atLeast("checkpoint-bytes", srv.CheckpointBytes, 1, "1 or more"),
		atLeast("verify-rate", f.verifyRate, 0, "0 (off) or more"),
		atLeast("accept-rate", srv.Limits.AcceptRate, 0, "0 (no limit) or more"),
		atLeast("drain", f.drain, 0, "0 (at once) or more"),
		atLeast("spread-time", srv.Limits.SpreadTime, 0, "0 (at once) or more"),
		atLeast("drain", f.drain, srv.Limits.SpreadTime, "longer than --spread-time"),
	)
}

func atLeast[N int | int64 | time.Duration](flag string, value, least N, fits string) error {
	if value < least {
		return commandline.UsageError{Err: fmt.Errorf("--%s is %s, not %v", flag, fits, value)}
	}
	return nil
}

// open opens listeners on addresses that the gateway may serve, and returns their addresses.
func (f *serving) open(addrs []string, serve func(net.Listener) error, config *tls.Config) (opened []string, err error) {
	opened = make([]string, 0, len(addrs)) // none is [] in JSON
	for _, addr := range addrs {
		ln, err := f.Sockets.Listen(addr, func() (net.Listener, error) { return listen(addr) })
		if err != nil {
			return nil, err
		}
		where := ln.Addr().String()
		if ln.Addr().Network() == "unix" {
			where = "unix:" + where
		}
		opened = append(opened, where)
		if config != nil {
			ln = engine.NewTLSListener(ln, config)
		}
		f.listeners = append(f.listeners, listening{ln, serve})
		if f.srv.MayServe(ln.Addr()) != nil {
			return nil, fmt.Errorf("%w: %s", gateway.ErrOpen, addr) // as it was typed
		}
	}
	return opened, nil
}

// listen opens a listener on HOST:PORT or unix:PATH. A socket file is accessible to its owner only.
func listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if path == "" || path[0] == '@' { // Linux's abstract names are not files
			return nil, commandline.UsageError{Err: fmt.Errorf("the address to listen on: %s is not a file, so no permissions would protect it; use a path, as in unix:/run/honed.sock", addr)}
		}
		return sys.ListenUnix(path, 0o600)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, commandline.UsageError{Err: fmt.Errorf("the address to listen on: %w", err)}
	}
	return net.Listen("tcp", addr)
}

func (f *serving) stopListening() {
	for _, ln := range f.listeners {
		ln.Close()
	}
}

// serveAll serves until ctx ends and then drains, or until the log fails.
func (f *serving) serveAll(ctx context.Context, logger *slog.Logger) error {
	srv, ends := &f.srv, make(chan error, len(f.listeners))
	var serving sync.WaitGroup
	for _, ln := range f.listeners {
		serving.Go(func() { ends <- ln.serve(ln.Listener) })
	}
	defer serving.Wait()
	select {
	case err := <-ends:
		srv.Close()
		return err
	case <-ctx.Done():
	case <-f.Sockets.Yielded():
		f.drain = min(f.drain, passTime)
	}
	f.Sockets.Close()
	f.stopListening()
	f.draining.Store(true)
	logger.Info("draining", "within", f.drain)
	// What is left of the time is for closing what remains.
	limit, cancel := context.WithTimeout(context.Background(), f.drain-min(f.drain/10, time.Second))
	defer cancel()
	limit, stop := signal.NotifyContext(limit, os.Interrupt, syscall.SIGTERM) // a second signal ends the drain
	defer stop()
	if err := srv.Shutdown(limit); err != nil {
		return fmt.Errorf("the drain did not finish; every acknowledged record is stored: %w", err)
	}
	return nil
}

func (f *serving) announce(stdout io.Writer, addrs, posts, mqtt []string, admin string) {
	if f.json {
		json.NewEncoder(stdout).Encode(map[string]any{"listen": addrs, "http": posts, "mqtt": mqtt, "admin": admin, "pid": os.Getpid()})
		return
	}
	where := f.log.data
	if f.log.url != "" {
		where = f.log.url
	}
	if len(posts) > 0 {
		where += "; HTTP on " + strings.Join(posts, ", ")
	}
	if len(mqtt) > 0 {
		where += "; MQTT on " + strings.Join(mqtt, ", ")
	}
	fmt.Fprintf(stdout, "honed listens on %s; log %s; admin %s\n", strings.Join(addrs, ", "), where, cmp.Or(admin, "off"))
}
