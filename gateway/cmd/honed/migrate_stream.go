package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
)

// migrateToStream copies a cluster's stream, or the log in a folder, to a new stream.
func migrateToStream(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f logFlags
	var to string
	flags, config := newFlags("honed migrate")
	f.add(flags)
	flags.StringVar(&to, "to-stream", "", "copy the stream --stream, or else the log in --data, to a new stream of this `NAME` in the cluster --log")
	if err := parse(flags, config, args, stdout); err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	from, dir := "", ""
	switch {
	case to == "" || !f.isCluster():
		return usageError{errors.New("migrate needs --to-stream NAME and --log nats://HOST:PORT,…")}
	case given["stream"]:
		from = f.stream
	case given["data"]:
		dir = f.data
	default:
		return usageError{errors.New("migrate needs --stream OLD, or --data FOLDER for a log on this machine")}
	}
	if err := f.check(); err != nil {
		return err
	}
	logger, err := newLogger("text", stderr)
	if err != nil {
		return err
	}
	shown := map[string]*progress{}
	o := f.clusterOptions(logger)
	o.Stream, o.Dir = to, ""
	first, next, err := o.Migrate(ctx, f.url, from, dir, func(what string, done, all uint64) {
		if shown[what] == nil {
			shown[what] = &progress{out: stderr, what: what, unit: "envelopes"}
		}
		shown[what].set(done, all)
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(stderr, "all envelopes are copied and compared; start each honed with --stream %s from now on\n", to)
	return json.NewEncoder(stdout).Encode(struct {
		Stream string `json:"stream"`
		First  uint64 `json:"first"`
		Next   uint64 `json:"next"`
	}{to, first, next})
}
