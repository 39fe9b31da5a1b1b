package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/child"
)

const startTime = 10 * time.Second // for a server to be ready

// ownServer is a hone serve in a process of its own. It ends with stop, with its
// context, and when this process dies, because its standard input ends then.
type ownServer struct {
	addr  string
	stats *admin.Server

	process *child.Child
}

// startServer starts this very program and waits until it serves.
func startServer(ctx context.Context, engine, service string) (*ownServer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process, err := child.Start(exec.CommandContext(ctx, exe, "serve", "--json", "--until-eof", "--engine", engine, "--service", service,
		"--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--handler-times=false"), child.Options{})
	if err != nil {
		return nil, err
	}
	s := &ownServer{process: process}
	var ready readiness
	if err = process.Answer(ctx, startTime, &ready); err == nil && ready.Admin != nil {
		s.addr = ready.Addr
		s.stats, err = admin.Open(*ready.Admin)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("the server in a process of its own: %w", err)
	}
	return s, nil
}

// stop lets the server drain, kills it if it will not, and waits for it.
func (s *ownServer) stop() {
	if s.stats != nil {
		s.stats.Close()
		s.stats = nil
	}
	s.process.Stop()
}
