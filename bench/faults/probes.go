package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/wire"
)

const (
	spare     = 20                     // descriptors that are left to the process
	crowd     = 60                     // clients that want one
	late      = 10                     // and more, when there is none
	exhausted = 500 * time.Millisecond // how long there are hardly any, and how long none
	spinsAt   = 0.5                    // of a CPU, for doing nothing
)

func outOfDescriptors(ctx context.Context, s *scene) (verdict, error) {
	if err := fleet.LeaveDescriptors(s.server.PID, spare); err != nil {
		return verdict{}, err
	}
	s.crowd(ctx, crowd)
	w := startWatch(s.server)
	err := fleet.Wait(ctx, exhausted)
	// An engine that takes two for a moment has given the last one back.
	if left := fleet.LeaveDescriptors(s.server.PID, 0); left != nil && !s.ended(deathTime) {
		err = errors.Join(err, left)
	}
	s.crowd(ctx, late)
	err = errors.Join(err, fleet.Wait(ctx, exhausted))
	_, share := w.stop()
	if err != nil {
		return verdict{}, err
	}
	oldFriend := s.served(s.bystander)
	words := s.fates()
	for _, conn := range s.conns {
		conn.Close()
	}
	if v, ok := s.recovers(ctx); !ok {
		return v, nil
	}
	switch {
	case oldFriend != nil:
		return failed("%s; connections that are there are not served meanwhile", words), nil
	case share != nil && *share > spinsAt:
		return failed("%s; uses %.0f %% of a CPU for nothing; recovers", words, 100**share), nil
	}
	return survived("%s; serves everybody again when there are some", words), nil
}

// crowd connects n clients, each with a request. That this fails is one of the
// things to find out, by what follows.
func (s *scene) crowd(ctx context.Context, n int) {
	for range n {
		conn, err := s.dial(ctx)
		if err == nil {
			_, err = conn.Write(drive.Request(nil, 1, nil))
		}
		if err != nil {
			return
		}
	}
}

// fates says what has become of a crowd.
func (s *scene) fates() string {
	served, waiting, away := 0, 0, 0
	for _, conn := range s.conns {
		err := conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if err == nil {
			err = drive.ReadAnswer(conn, 1, nil)
		}
		switch {
		case err == nil:
			served++
		case errors.Is(err, os.ErrDeadlineExceeded):
			waiting++
		default:
			away++
		}
	}
	return fmt.Sprintf("%d are served, %d wait, %d are turned away", served, waiting, away)
}

// recovers looks whether new connections are served, for as long as patience
// lasts.
func (s *scene) recovers(ctx context.Context) (verdict, bool) {
	for until := time.Now().Add(patience); ; {
		attempt, cancel := context.WithDeadline(ctx, until)
		conn, err := drive.Served(attempt, s.server.Addr)
		cancel()
		if err == nil {
			conn.Close()
			return verdict{}, true
		}
		if s.ended(watchStep) {
			return failed("the whole process ends"), false
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return failed("serves no new connection any more, although descriptors are free again"), false
		}
	}
}

const (
	floodContent = 4 << 10
	stalled      = time.Second // without anything sent: the server reads no more
	floodHolds   = 64 << 20    // memory that a server may hold for one client
)

func neverReads(ctx context.Context, s *scene) (verdict, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return verdict{}, err
	}
	w := startWatch(s.server)
	request := drive.Request(nil, 1, bytes.Repeat([]byte("f"), floodContent))
	sent := 0
	for err == nil && sent < s.run.Flood && ctx.Err() == nil {
		var n int
		if err = conn.SetWriteDeadline(time.Now().Add(stalled)); err == nil {
			n, err = conn.Write(request)
		}
		sent += n
	}
	held, _ := w.stop()
	afterwards := startWatch(s.server)
	if err := fleet.Wait(ctx, exhausted); err != nil {
		return verdict{}, err
	}
	_, share := afterwards.stop()
	if v, ok := s.othersGoOn(ctx); !ok {
		return v, nil
	}
	how := fmt.Sprintf("has read all of %d MiB", sent>>20)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		how = fmt.Sprintf("stops reading after %.1f MiB", float64(sent)/(1<<20))
	case err != nil:
		how = fmt.Sprintf("closes the connection after %.1f MiB", float64(sent)/(1<<20))
	}
	if held != nil && *held > floodHolds {
		return failed("%s and holds %d MiB for one client", how, *held>>20), nil
	}
	if share != nil && *share > spinsAt {
		return failed("%s and then uses %.0f %% of a CPU for nothing", how, 100**share), nil
	}
	return survived("%s", how), nil
}

const halfCloseRequests = 100

func halfClose(ctx context.Context, s *scene) (verdict, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return verdict{}, err
	}
	var requests []byte
	for id := range uint64(halfCloseRequests) {
		requests = drive.Request(requests, id+1, []byte("last words"))
	}
	if _, err := conn.Write(requests); err != nil {
		return verdict{}, err
	}
	if err := conn.CloseWrite(); err != nil {
		return verdict{}, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return verdict{}, err
	}
	answered := 0
	for answered < halfCloseRequests {
		if err := drive.ReadAnswer(conn, uint64(answered+1), []byte("last words")); err != nil {
			break
		}
		answered++
	}
	if v, ok := s.othersGoOn(ctx); !ok {
		return v, nil
	}
	if answered < halfCloseRequests {
		return failed("%d of %d answers are lost", halfCloseRequests-answered, halfCloseRequests), nil
	}
	return survived("all answered"), nil
}

func longClose(ctx context.Context, s *scene) (verdict, error) {
	return long(ctx, s, service.LongLast, func(*net.TCPConn) error { return nil })
}

func longHalfClose(ctx context.Context, s *scene) (verdict, error) {
	return long(ctx, s, service.Long, (*net.TCPConn).CloseWrite)
}

// readLater is how long the kernel's buffers have to fill.
const readLater = 200 * time.Millisecond

// long asks for a long answer, does something with the connection and reads late.
func long(ctx context.Context, s *scene, marker byte, then func(*net.TCPConn) error) (verdict, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return verdict{}, err
	}
	if _, err = conn.Write(drive.Request(nil, 1, []byte{marker})); err == nil {
		err = then(conn)
	}
	if err == nil {
		err = fleet.Wait(ctx, readLater)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Now().Add(5 * patience))
	}
	if err != nil {
		return verdict{}, err
	}
	content, _ := service.Options{}.Reply(nil, []byte{service.Long})
	want := wire.Standard.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 1, Content: content})
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if v, ok := s.othersGoOn(ctx); !ok {
		return v, nil
	}
	part := 100 * float64(n) / float64(len(want))
	switch {
	case err == nil && bytes.Equal(got, want):
		return survived("all of it arrives"), nil
	case err == nil:
		return failed("other bytes arrive"), nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return failed("%.0f %% of it arrives, and then an end as if that were all", part), nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failed("%.0f %% of it arrives, and then nothing", part), nil
	}
	return failed("%.0f %% of it arrives, and then a reset", part), nil
}

func panics(ctx context.Context, s *scene) (verdict, error) {
	conn, err := s.dial(ctx)
	if err == nil {
		_, err = conn.Write(drive.Request(nil, 1, []byte{service.Panic}))
	}
	if err != nil {
		return verdict{}, err
	}
	if v, ok := s.othersGoOn(ctx); !ok {
		return v, nil
	}
	return survived("%s, others go on", afterwards(conn)), nil
}

func impossibleLength(ctx context.Context, s *scene) (verdict, error) {
	conn, err := s.dial(ctx)
	if err == nil {
		_, err = conn.Write([]byte{0, 0, 0, 3})
	}
	if err != nil {
		return verdict{}, err
	}
	if v, ok := s.othersGoOn(ctx); !ok {
		return v, nil
	}
	return survived("%s, others go on", afterwards(conn)), nil
}

// afterwards says what a server does with a connection that it cannot serve.
func afterwards(conn net.Conn) string {
	if conn.SetReadDeadline(time.Now().Add(patience/4)) != nil {
		return "the connection has gone"
	}
	said, err := io.Copy(io.Discard, conn)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "the connection stays open"
	case said > 0:
		return "the client is told why and the connection closes"
	}
	return "the connection closes"
}
