//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/child"
)

// What an attack consists of.
const (
	halfHandshakes = 2000 // at a time
	perSecond      = 500  // whole handshakes
)

// floods measures what clients of http1 notice of a flood: on their server, on another process
// beside it, and the same on net/http.
func (o options) floods(ctx context.Context, dir string) error {
	var all []*server
	defer func() {
		for _, s := range all {
			s.Stop()
		}
	}()
	for _, name := range []string{"http1", "nethttp", "http1"} { // the last one is the other process
		s, err := ours(ctx, dir, name, "")
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	hone, std, other := all[0], all[1], all[2]
	var on, beside, onStd []float64
	for range o.rounds {
		for _, c := range []struct {
			watched, flooded *server
			p99              *[]float64
		}{{hone, hone, &on}, {hone, other, &beside}, {std, std, &onStd}} {
			p99, err := c.watched.notices(ctx, c.flooded, o.span)
			if err != nil {
				return err
			}
			*c.p99 = append(*c.p99, p99)
		}
	}
	show := func(what string, figures, of []float64) {
		_, middle, _ := median(figures)
		var ratios []float64
		for i := range figures {
			ratios = append(ratios, figures[i]/of[i])
		}
		low, ratio, high := median(ratios)
		fmt.Printf("| %s | %.1f ms | %.2f (%.2f to %.2f) |\n", what, middle, ratio, low, high)
	}
	fmt.Printf("| %d half handshakes at a time and %d handshakes/s | p99 of %d clients | of the second line's |\n|---|---|---|\n", halfHandshakes, perSecond, clients)
	show("on http1", on, beside)
	show("on another process beside http1", beside, beside)
	show("on net/http", onStd, beside)
	return nil
}

// notices returns the p99 in ms of clients that make ten requests a second each while another
// process floods a server.
func (s *server) notices(ctx context.Context, flooded *server, span time.Duration) (p99 float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := s.connect(clients); err != nil {
		return 0, err
	}
	defer s.close()
	attacker, err := child.Start(exec.CommandContext(ctx, self, "-flood-on", flooded.addr), child.Options{})
	if err != nil {
		return 0, err
	}
	defer attacker.Stop()
	<-time.After(2 * time.Second) // the half handshakes are there
	var mu sync.Mutex
	var took []float64
	end := time.Now().Add(span)
	err = each(clients, clients, func(i int) error {
		const every = 100 * time.Millisecond
		due := time.Now().Add(every * time.Duration(i) / clients)
		for ; due.Before(end); due = due.Add(every) {
			<-time.After(time.Until(due))
			if err := s.conns[i].ask(); err != nil {
				return err
			}
			mu.Lock()
			took = append(took, time.Since(due).Seconds()*1e3)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s at %s, flooded %s: %w", s.name, s.addr, flooded.addr, err)
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}

// attack floods a server until standard input ends.
func attack(addr string) {
	go func() {
		for due := time.Now(); ; due = due.Add(time.Second / perSecond) {
			<-time.After(time.Until(due))
			go func() {
				if c, err := dial(addr); err == nil {
					c.Handshake()
					c.NetConn().Close()
				}
			}()
		}
	}()
	for range halfHandshakes {
		go func() {
			for {
				c, err := dial(addr)
				if err != nil {
					continue
				}
				half := tls.Client(&deaf{c.NetConn()}, &tls.Config{InsecureSkipVerify: true})
				half.Handshake() // until the server ends it
				half.NetConn().Close()
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
}

// deaf is a connection of which a client reads nothing that it would answer.
type deaf struct{ net.Conn }

func (d *deaf) Read(p []byte) (int, error) {
	_, err := io.Copy(io.Discard, d.Conn)
	if err == nil {
		err = io.EOF
	}
	return 0, err
}
