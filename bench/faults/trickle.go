package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
)

const (
	trickling    = 1000        // connections
	trickleEvery = time.Second // a byte of each
	asksEvery    = 20 * time.Millisecond
	slowAt       = 500 * time.Millisecond
	readable     = 200 * time.Microsecond // for what has come long ago
)

// trickle sends the bytes of one request one by one on many connections, and asks
// on another meanwhile.
func trickle(ctx context.Context, s *scene) (verdict, error) {
	for range trickling {
		if _, err := s.dial(ctx); err != nil {
			return verdict{}, err
		}
	}
	request := drive.Request(nil, 1, []byte("sixteen letters."))
	ctx, cancel := context.WithTimeout(ctx, s.run.Trickle)
	defer cancel()
	cut := make(chan int, 1)
	go func() { cut <- drip(ctx, s.conns, request) }()
	worst, asked := time.Duration(0), 0
	for fleet.Wait(ctx, asksEvery) == nil {
		start := time.Now()
		if err := s.served(s.bystander); err != nil {
			cancel()
			<-cut
			return failed("another connection gets no answer within %v", patience), nil
		}
		worst, asked = max(worst, time.Since(start)), asked+1
	}
	words := fmt.Sprintf("keeps all of them for %v", s.run.Trickle)
	if n := <-cut; n > 0 {
		words = fmt.Sprintf("has cut off %d of %d within %v", n, trickling, s.run.Trickle)
	}
	if worst > slowAt {
		return failed("%s; another connection waits %v for an answer", words, worst.Round(time.Millisecond)), nil
	}
	return survived("%s; the slowest of %d answers to another takes %.1f ms", words, asked, float64(worst)/1e6), nil
}

// drip sends a byte of request on every connection, and the next a while later,
// until ctx ends. It says on how many connections the server has had enough by
// then: told so, or closed them.
func drip(ctx context.Context, conns []net.Conn, request []byte) (cut int) {
	gone := make([]bool, len(conns))
	for i := 0; i < len(request) && ctx.Err() == nil; i++ {
		next := time.Now().Add(trickleEvery)
		for j, conn := range conns {
			if gone[j] {
				continue
			}
			_, err := conn.Write(request[i : i+1])
			gone[j] = err != nil
		}
		if fleet.Wait(ctx, time.Until(next)) != nil {
			break
		}
	}
	var said [1]byte
	for _, conn := range conns {
		err := conn.SetReadDeadline(time.Now().Add(readable))
		if err == nil {
			_, err = conn.Read(said[:])
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			cut++
		}
	}
	return cut
}
