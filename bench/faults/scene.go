package faults

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
)

// scene is a server and its clients.
type scene struct {
	run       *Run
	server    *fleet.Server
	bystander net.Conn // has done nothing wrong
	conns     []net.Conn
	last      uint64 // the bystander's last id
}

func (s *scene) close() {
	if s.bystander != nil {
		s.bystander.Close()
	}
	for _, c := range s.conns {
		c.Close()
	}
}

// dial opens a connection; sending or reading on it fails at the probe's end at
// the latest.
func (s *scene) dial(ctx context.Context) (*net.TCPConn, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", s.server.Addr)
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, conn)
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.New("a connection that is not TCP")
	}
	return tcp, nil
}

// patience is how long an innocent client waits for an answer before it counts as
// not served.
const patience = 2 * time.Second

// served asks one request on a connection that has done nothing wrong.
func (s *scene) served(conn net.Conn) error {
	s.last++
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return drive.Exchange(conn, s.last+100, []byte("innocent"))
}

// ended reports whether the process has, now or in a moment.
func (s *scene) ended(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-s.server.Ended():
		return true
	case <-timer.C:
		return false
	}
}

// deathTime is how long a process that is about to die may take.
const deathTime = 300 * time.Millisecond

// othersGoOn says what, if anything, has become of those who did nothing: the
// process, a connection that was there before, and a new one.
func (s *scene) othersGoOn(ctx context.Context) (v verdict, ok bool) {
	if s.ended(deathTime) {
		return failed("the whole process ends"), false
	}
	if err := s.served(s.bystander); err != nil {
		return failed("another connection gets no answer any more"), false
	}
	conn, err := drive.Served(ctx, s.server.Addr)
	if err != nil {
		return failed("new connections are not served any more"), false
	}
	conn.Close()
	return verdict{}, true
}

// watch follows what a server's process uses.
type watch struct {
	server *fleet.Server
	start  time.Time
	cpu    time.Duration
	before int64
	end    chan struct{}
	result chan used
}

type used struct {
	grown *int64
	cpu   *float64
}

const watchStep = 20 * time.Millisecond

func startWatch(s *fleet.Server) *watch {
	w := &watch{server: s, start: time.Now(), end: make(chan struct{}), result: make(chan used, 1)}
	w.before, _ = fleet.ResidentOf(s.PID) // 0 when it has gone, and then stop finds nothing either
	w.cpu, _ = fleet.ProcessCPU(s.PID)
	go w.follow()
	return w
}

func (w *watch) follow() {
	ticker := time.NewTicker(watchStep)
	defer ticker.Stop()
	var u used
	for {
		if now, err := fleet.ResidentOf(w.server.PID); err == nil && w.before > 0 {
			grown := now - w.before
			if u.grown == nil || grown > *u.grown {
				u.grown = &grown
			}
		}
		if cpu, err := fleet.ProcessCPU(w.server.PID); err == nil {
			share := (cpu - w.cpu).Seconds() / time.Since(w.start).Seconds()
			u.cpu = &share
		}
		select {
		case <-ticker.C:
		case <-w.end:
			w.result <- u
			return
		}
	}
}

// stop returns the most that the process's memory has grown by, and its part of a
// CPU; nil where it had gone before that could be read.
func (w *watch) stop() (grown *int64, cpu *float64) {
	close(w.end)
	u := <-w.result
	return u.grown, u.cpu
}
