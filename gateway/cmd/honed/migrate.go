package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// migrate turns the log of an earlier version into one of this version, or copies a log to a new stream
// of a cluster.
func migrate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f logFlags
	flags, config := commandline.New("honed migrate")
	f.add(flags)
	to := flags.String("to-stream", "", "copy the stream --stream, or else the log in --data, to a new stream of this `NAME` in the cluster --log")
	flags.Func("accept-loss", "`FIRST-LAST`, or one position: go on without these envelopes, which the old log in --data has lost", f.acceptLoss)
	asJSON := flags.Bool("json", false, "print the result as JSON")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case *to != "" && !f.isCluster():
		return commandline.UsageError{Err: errors.New("--to-stream needs the cluster: --log nats://HOST:PORT,…")}
	case *to != "" && given["stream"] == given["data"]:
		return commandline.UsageError{Err: errors.New("--to-stream needs what to copy: --stream OLD, or --data FOLDER for a log on this machine")}
	case *to == "" && f.url != "":
		return commandline.UsageError{Err: errors.New("--log needs --to-stream NAME, the new stream; without both, migrate brings over the folder --data")}
	}
	if *to != "" {
		from, dir := f.cluster.Stream, ""
		if given["data"] {
			from, dir = "", f.data
		}
		return f.toStream(ctx, *to, from, dir, *asJSON, stdout, stderr)
	}
	done, err := journal.Migrate(ctx, f.data, journal.MigrateOptions{
		AcceptLoss: f.segments.AcceptLoss, Logger: slog.New(slog.NewTextHandler(stderr, nil)), Progress: steps(stderr),
	})
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	switch {
	case *asJSON:
		return json.NewEncoder(stdout).Encode(done)
	case done.Old == "":
		_, err = fmt.Fprintf(stdout, "nothing to migrate: %s has a log of this version\n", f.data)
	default:
		lost := ""
		if done.Lost > 0 {
			lost = fmt.Sprintf("%d lost as accepted, ", done.Lost)
		}
		_, err = fmt.Fprintf(stdout, "migrated %d envelopes, positions %d to %d, %sold log kept in %s\n", done.Envelopes, done.First, done.Last, lost, done.Old)
	}
	return err
}

// toStream copies the stream from, or the log in the folder dir, to a new stream.
func (f *logFlags) toStream(ctx context.Context, to, from, dir string, asJSON bool, stdout, stderr io.Writer) error {
	f.cluster.Stream, f.cluster.Logger = to, slog.New(slog.NewTextHandler(stderr, nil))
	first, next, err := f.cluster.Migrate(ctx, f.url, from, dir, steps(stderr))
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(map[string]any{"stream": to, "first": first, "next": next})
	}
	_, err = fmt.Fprintf(stdout, "positions %d to %d are copied and compared; start each honed with --stream %s from now on\n", first, next-1, to)
	return err
}

// steps prints the progress of work in steps.
func steps(stderr io.Writer) func(what string, done, all uint64) {
	shown := map[string]*progress{}
	return func(what string, done, all uint64) {
		if shown[what] == nil {
			shown[what] = &progress{out: stderr, what: what, unit: "envelopes"}
		}
		shown[what].set(done, all)
	}
}
