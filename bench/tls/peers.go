//go:build linux

package main

import (
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
	for _, name := range []string{"http1", "fasthttp", "nethttp", "nbhttp", "haproxy", "nginx"} {
		start := ours
		if name == "haproxy" || name == "nginx" {
			start = func(ctx context.Context, dir, name string) (*server, error) {
				return others(ctx, dir, name, certificate)
			}
		}
		s, err := start(ctx, dir, name)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for range o.rounds {
		for _, s := range all {
			if err := s.round(o.requests); err != nil || ctx.Err() != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for _, s := range all {
		if err := s.rest(ctx, o.idle); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Printf("| server | CPU of a request, 100 connections | of http1's, median and 95%% interval of %d pairs | memory of an idle connection |\n|---|---|---|---|\n", o.rounds)
	for _, s := range all {
		_, cost, _ := median(s.costs)
		var ratios []float64
		for i, of := range all[0].costs {
			ratios = append(ratios, s.costs[i]/of)
		}
		low, ratio, high := median(ratios)
		fmt.Printf("| %s | %.1f µs | %.2f (%.2f to %.2f) | %d B |\n", s.name, cost, ratio, low, high, s.memory)
	}
	return nil
}

// round has 100 clients make one request at a time.
func (s *server) round(requests int) error {
	defer s.close()
	if err := s.connect(clients); err != nil {
		return err
	}
	before, err := fleet.ProcessCPU(s.pid)
	if err != nil {
		return err
	}
	err = each(clients, clients, func(i int) error {
		for range requests / clients {
			if err := ask(s.conns[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := fleet.ProcessCPU(s.pid)
	s.costs = append(s.costs, float64((after-before)/time.Duration(requests/clients*clients))/1e3)
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
