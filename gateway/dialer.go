package gateway

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/wire"
)

// dialer is what a Client and a Reader have in common: one connection at a time, to one of several servers.
type dialer struct {
	addrs     []string
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	dialTime  time.Duration
	stallTime time.Duration
	heartbeat time.Duration // 0: by the server's idle timeout
	logger    *slog.Logger
	instance  uint64 // of this program

	once   sync.Once
	ctx    context.Context // for dials; canceled at the end
	cancel context.CancelFunc
	done   chan struct{} // closed when run returns

	mu      sync.Mutex
	changed sync.Cond // something that calls wait for has changed
	conn    *outlet
	lost    error // why the last connection ended or failed
	err     error // why the dialer ended
}

// outlet is one connection; the dialer's mu guards everything but nc.
type outlet struct {
	nc       net.Conn
	out      []byte // frames queued for the writer
	said     int    // length of out behind a Reader's acknowledgement; 0: out has none
	wake     sync.Cond
	ended    bool // the writer sends what is queued, and then ends
	quiet    bool // nothing was queued since the timer last fired
	beat     *time.Timer
	interval time.Duration // between heartbeats
}

// prepare checks and sets what does not change. kind and field name the type and the name's field in a panic.
func (d *dialer) prepare(kind, field, name string, window int) {
	if window < 0 {
		panic("gateway: " + kind + ".Window is negative; set its size, or 0 for the default")
	}
	if len(d.addrs) == 0 {
		panic("gateway: " + kind + ".Addrs is empty")
	}
	if err := checkClientID(name); err != nil {
		panic("gateway: " + kind + "." + field + ": " + err.Error())
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.done = make(chan struct{})
	d.changed.L = &d.mu
	d.instance = max(rand.Uint64(), 1)
	d.dialTime, d.stallTime = cmp.Or(d.dialTime, 10*time.Second), cmp.Or(d.stallTime, 40*time.Second)
	d.logger = cmp.Or(d.logger, slog.New(slog.DiscardHandler))
	if d.dial == nil {
		d.dial = dial
	}
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// wait blocks until ready returns true, and fails when ctx or the dialer ends first; mu is held.
func (d *dialer) wait(ctx context.Context, ready func() bool) error {
	if d.err == nil && !ready() {
		stop := context.AfterFunc(ctx, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.changed.Broadcast()
		})
		defer stop()
	}
	for {
		switch {
		case d.err != nil:
			return d.err
		case ready():
			return nil
		case ctx.Err() != nil && d.lost != nil && d.conn == nil:
			return fmt.Errorf("gateway: %w; the last connection: %w", context.Cause(ctx), d.lost)
		case ctx.Err() != nil:
			return fmt.Errorf("gateway: %w", context.Cause(ctx))
		}
		d.changed.Wait()
	}
}

// run connects, and reconnects, until the dialer ends. serve runs one connection, and judge says why it was
// the last one, or that the next one has to wait.
func (d *dialer) run(serve func(addr string) (welcomed bool, err error), judge func(welcomed bool, err error) (wait time.Duration, final error), end func(error)) {
	defer close(d.done)
	pause := backoff{shortest: 20 * time.Millisecond, longest: 2 * time.Second}
	var logged string
	for at, met := 0, false; ; at++ {
		addr := d.addrs[at%len(d.addrs)]
		welcomed, err := serve(addr)
		met = met || welcomed
		d.mu.Lock()
		ended := d.err != nil
		d.lost = err
		d.mu.Unlock()
		if ended {
			return
		}
		if why := err.Error(); welcomed || why != logged { // not the same again every two seconds
			d.logger.Info("connection ended", "addr", addr, "err", err)
			logged = why
		}
		wait, final := judge(welcomed, err)
		if back, ok := errors.AsType[comeBack](err); ok {
			wait = max(wait, back.after)
		}
		switch {
		case final != nil && !(met && errors.Is(err, errForeign)):
			end(final)
			return
		case wait > 0:
			sleep(d.ctx, wait)
			continue
		case welcomed:
			pause.reset()
			at-- // try the same server first: it still has the session
		}
		if (at+1)%len(d.addrs) == 0 || welcomed {
			pause.wait(d.ctx)
		}
	}
}

func isFinal(err error) bool {
	return slices.ContainsFunc([]error{
		ErrUnauthorised, ErrFenced, ErrExpired, ErrLevel, ErrRegressed, ErrGap, ErrHandshake, ErrTooMany, ErrDiverged, ErrNoReader, ErrShares, ErrAhead,
	}, func(final error) bool { return errors.Is(err, final) })
}

// connect dials and sends the first message, and returns what the server answers to it.
func (d *dialer) connect(ctx context.Context, addr string, first func() []byte) (o *outlet, answer []byte, err error) {
	nc, err := d.dial(ctx, addr)
	if err != nil {
		return nil, nil, fmt.Errorf("gateway: %w", err)
	}
	o = &outlet{nc: nc}
	o.wake.L = &d.mu
	if answer, err = shake(ctx, nc, first()); err != nil {
		nc.Close()
	}
	return o, answer, err
}

// helloID is the id of Conn packets. A record may have the same one: the command of the
// answer tells them apart.
const helloID = 1

// maxAnswer is the size limit of a frame from the server to a Client.
const maxAnswer = 64 << 10

// shake sends a connection's first message, and returns the content of the answer.
func shake(ctx context.Context, nc net.Conn, content []byte) (answer []byte, err error) {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := nc.Write(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: helloID, Content: content})); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	p, err := readOne(nc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w before the server answered; does it expect TLS?", err)
	case err != nil:
		return nil, err
	case p.Command != wire.ConnAck || p.ID != helloID && p.Result == wire.OK:
		return nil, fmt.Errorf("%w: the server answered with %v", errForeign, p.Command)
	case p.Result != wire.OK:
		return nil, refused(p.Result, p.Content)
	case !stop():
		return nil, context.Cause(ctx)
	}
	return p.Content, nil
}

// errForeign means that something other than a gateway has answered. It is final until a gateway was there.
var errForeign = fmt.Errorf("%w", ErrHandshake)

// readOne reads one frame, and no byte after it.
func readOne(nc net.Conn) (p wire.Packet, err error) {
	var in []byte
	for {
		payload, need, err := wire.Frame(in, maxAnswer)
		switch {
		case err != nil && string(in) == "HTTP": // a load balancer has no gateway at the moment
			line, _ := bufio.NewReader(io.LimitReader(nc, 100)).ReadString('\r')
			return p, fmt.Errorf("gateway: an HTTP server or a load balancer has answered %q", "HTTP"+strings.TrimSpace(line))
		case err != nil:
			return p, fmt.Errorf("%w: %w", errForeign, err)
		case need == 0:
			return wire.Parse(payload)
		}
		in = append(in, make([]byte, need)...)
		if _, err := io.ReadFull(nc, in[len(in)-need:]); err != nil {
			return p, fmt.Errorf("gateway: %w", err)
		}
	}
}

// attach makes o the current connection, which the server closes after idle without a frame; mu is held.
func (d *dialer) attach(o *outlet, idle time.Duration) {
	o.interval = cmp.Or(d.heartbeat, min(20*time.Second, max(idle/3, time.Second)))
	o.ended = d.err != nil
	d.conn = o
	d.changed.Broadcast()
}

// converse writes what is queued while read reads, until the connection ends. It returns the reason.
func (d *dialer) converse(o *outlet, read func(o *outlet, patience time.Duration) error) error {
	patience := 2*o.interval + d.stallTime
	var writer sync.WaitGroup
	writer.Go(func() { d.write(o, patience) })
	d.mu.Lock()
	o.beat = time.AfterFunc(o.interval, func() { d.keepAlive(o) })
	d.mu.Unlock()
	err := read(o, patience)
	d.mu.Lock()
	o.ended, d.conn = true, nil
	o.beat.Stop()
	o.wake.Signal()
	d.changed.Broadcast()
	d.mu.Unlock()
	o.nc.Close()
	writer.Wait()
	return err
}

// queue hands a frame to the writer; mu is held.
func (o *outlet) queue(frame []byte) {
	o.out = append(o.out, frame...)
	o.quiet = false
	o.wake.Signal()
}

// keepAlive sends an empty Conn if the connection was idle for an interval, and rearms the
// timer.
func (d *dialer) keepAlive(o *outlet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.ended {
		return
	}
	if o.quiet {
		o.queue(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: helloID}))
	}
	o.quiet = true
	o.beat.Reset(o.interval)
}

// maxOut is how many bytes may be buffered for the connection before calls wait.
const maxOut = 1 << 20

// closeTime is how long a connection may take to close.
const closeTime = 2 * time.Second

// write is the writer goroutine. It sends all queued frames with one write.
func (d *dialer) write(o *outlet, patience time.Duration) {
	var frames []byte
	for ended := false; !ended; {
		d.mu.Lock()
		for len(o.out) == 0 && !o.ended {
			o.wake.Wait()
			d.mu.Unlock()
			runtime.Gosched() // let more frames queue up, for one write
			d.mu.Lock()
		}
		if len(o.out) >= maxOut {
			d.changed.Broadcast()
		}
		frames, o.out, o.said, ended = o.out, frames[:0], 0, o.ended
		d.mu.Unlock()
		o.nc.SetWriteDeadline(time.Now().Add(patience))
		if _, err := o.nc.Write(frames); err != nil {
			ended = true
		}
		if cap(frames) > 2*maxOut {
			frames = nil
		}
	}
	o.nc.SetReadDeadline(time.Now().Add(closeTime)) // what the server still says, also why it has closed the connection
	if half, ok := o.nc.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// backoff is exponential backoff with jitter, so that clients do not reconnect all at once.
type backoff struct{ shortest, longest, now time.Duration }

func (p *backoff) reset() { p.now = 0 }

func (p *backoff) wait(ctx context.Context) {
	p.now = min(max(2*p.now, p.shortest), p.longest)
	sleep(ctx, p.now/2+rand.N(p.now/2))
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
