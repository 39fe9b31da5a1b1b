// Command peers compares hone with other Go servers, all of which answer the same
// requests over the same wire: hone's frames, HTTP/1.1, or WebSocket.
//
//	go run ./bench/cmd/peers race       speed and memory, within 20 minutes
//	go run ./bench/cmd/peers http       the same for servers of HTTP/1.1
//	go run ./bench/cmd/peers ws         the same for servers of WebSocket
//	go run ./bench/cmd/peers faults     hone torture against each server
//	go run ./bench/cmd/peers generators load generators against a server whose response times are known
//	go run ./bench/cmd/peers tables     makes the tables in bench/figures.md from bench/results
//	go run ./bench/cmd/peers picture    draws docs/img/beside-others.svg from bench/results
//	go run ./bench/cmd/peers versions   writes when versions were released into bench/results/versions.json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hone-go/hone/bench/drive"
)

// The exit codes that scripts may count on, as hone's own.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInvalid     = 4
	exitInterrupted = 130
)

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
}

// Error returns the line.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) { // the flags have been printed
		return
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	code := exitFailed
	if f := new(failure); errors.As(err, &f) {
		code = f.code
	}
	os.Exit(code)
}

// clientCommand is how this program runs itself as a client.
const clientCommand = "client"

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	usage := &failure{exitUsage, errors.New("say what to do: race, http, ws, faults, generators, tables, picture or versions; race -h lists its flags")}
	if len(args) == 0 {
		return usage
	}
	switch args[0] {
	case "race":
		return framesContest().do(ctx, args[1:], stdout, stderr)
	case "http":
		return httpContest().do(ctx, args[1:], stdout, stderr)
	case "ws":
		return wsContest().do(ctx, args[1:], stdout, stderr)
	case "faults":
		return runFaults(ctx, args[1:], stdout, stderr)
	case "generators":
		return runGenerators(ctx, args[1:], stdout, stderr)
	case stallsCommand:
		return serveStalls(args[1:], stdin, stdout)
	case "tables", "picture", "versions":
		return publish(ctx, args[0], args[1:], stderr)
	case clientCommand:
		return drive.Obey(ctx, stdin, stdout)
	}
	return usage
}
