//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
)

const clients = 100

// peers measures a request and an idle connection of each server.
func (o options) peers(ctx context.Context, dir string) error {
	certificate, err := certified(dir)
	if err != nil {
		return err
	}
	var all []*server
	defer func() {
		for _, s := range all {
			s.close()
			s.Stop()
		}
	}()
	start := func(name, version string) error {
		s, err := (*server)(nil), error(nil)
		if name == "haproxy" || name == "nginx" {
			s, err = others(ctx, dir, name, certificate)
		} else {
			s, err = ours(ctx, dir, name, version)
		}
		if err != nil {
			return err
		}
		s.http2, s.costs = o.http2, map[int][]float64{}
		all = append(all, s)
		return nil
	}
	names, streams := []string{"http1", "fasthttp", "nethttp", "nbhttp", "haproxy", "nginx"}, []int{1}
	if o.http2 {
		names, streams = []string{"http1", "nethttp", "haproxy", "nginx"}, []int{1, 10}
	}
	for _, name := range names {
		if err := start(name, ""); err != nil {
			return err
		}
	}
	if o.alsoGo != "" {
		if err := cmp.Or(start("http1", o.alsoGo), start("nethttp", o.alsoGo)); err != nil {
			return err
		}
	}
	for range o.rounds {
		for _, s := range all {
			for _, n := range streams {
				if err := s.round(o.requests, n); err != nil || ctx.Err() != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
	}
	for _, s := range all {
		if err := s.rest(ctx, o.idle); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, n := range streams {
		fmt.Printf("\n| server | CPU of a request, %d connections × %d | of http1's, median and 95%% interval of %d pairs | memory of an idle connection |\n|---|---|---|---|\n", clients, n, o.rounds)
		for _, s := range all {
			_, cost, _ := median(s.costs[n])
			var ratios []float64
			for i, of := range all[0].costs[n] {
				ratios = append(ratios, s.costs[n][i]/of)
			}
			low, ratio, high := median(ratios)
			fmt.Printf("| %s | %.1f µs | %.2f (%.2f to %.2f) | %d B |\n", s.name, cost, ratio, low, high, s.memory)
		}
	}
	return nil
}

// round has 100 clients make so many requests at a time.
func (s *server) round(requests, streams int) error {
	defer s.close()
	if err := s.connect(clients); err != nil {
		return err
	}
	before, err := fleet.ProcessCPU(s.pid)
	if err != nil {
		return err
	}
	all := clients * streams
	if requests < all {
		return fmt.Errorf("-requests %d: use %d or more", requests, all)
	}
	err = each(all, all, func(i int) error {
		for range requests / all {
			if err := s.conns[i%clients].ask(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := fleet.ProcessCPU(s.pid)
	s.costs[streams] = append(s.costs[streams], float64((after-before)/time.Duration(requests/all*all))/1e3)
	return err
}

// rest measures idle connections.
func (s *server) rest(ctx context.Context, idle int) error {
	resident := func() (int64, error) {
		<-time.After(3 * time.Second) // what a server frees after a while has no event
		if s.name != "haproxy" && s.name != "nginx" {
			var done string
			if err := s.Ask(ctx, service.Collect, 20*time.Second, &done); err != nil {
				return 0, err
			}
		}
		return fleet.ResidentOf(s.pid)
	}
	before, err := resident()
	if err == nil {
		err = s.connect(idle)
	}
	if err != nil {
		return err
	}
	after, err := resident()
	s.memory = (after - before) / int64(idle)
	s.close()
	return err
}
