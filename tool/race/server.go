package race

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/child"
)

const startTime = 10 * time.Second // for a server to become ready

// command returns the command that starts an engine, or a plain server.
func (p *Plan) command(name, service string) []string {
	if step, plain := strings.CutPrefix(name, onNet); plain {
		return append(p.Step[:len(p.Step):len(p.Step)], step)
	}
	return append(p.Serve[:len(p.Serve):len(p.Serve)], "--json", "--until-eof", "--engine", name, "--service", service,
		"--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--handler-times=false")
}

// ownServer is a server in a separate process. It ends with stop, with its context, and
// when this process dies, because its standard input then ends.
type ownServer struct {
	addr  string
	stats *admin.Server

	process *child.Child
}

// startServer runs command and waits until the server is ready.
func startServer(ctx context.Context, command []string) (*ownServer, error) {
	process, err := child.Start(exec.CommandContext(ctx, command[0], command[1:]...), child.Options{})
	if err != nil {
		return nil, err
	}
	s := &ownServer{process: process}
	var ready struct {
		Addr  string  `json:"addr"`
		Admin *string `json:"admin"`
	}
	if err = process.Answer(ctx, startTime, &ready); err == nil && ready.Admin != nil {
		s.addr = ready.Addr
		s.stats, err = admin.Open(*ready.Admin)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("cannot start the server process: %w", err)
	}
	return s, nil
}

// stop drains the server, kills it after a time limit, and waits for it.
func (s *ownServer) stop() {
	if s.stats != nil {
		s.stats.Close()
		s.stats = nil
	}
	s.process.Stop()
}
