package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hone-go/hone/gateway/journal"
)

// migrate turns the log of an earlier version into one of this version.
func migrate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, config := newFlags("honed migrate")
	data := flags.String("data", "honed-data", "`FOLDER` of the log")
	accept := positions{}
	flags.Var(&accept, "accept-loss", "`FIRST-LAST`, or one position: go on without these envelopes, which the old log has lost")
	asJSON := flags.Bool("json", false, "print the result as JSON")
	if err := parse(flags, config, args, stdout); err != nil {
		return err
	}
	logger, err := newLogger("text", stderr)
	if err != nil {
		return err
	}
	watch := &progress{out: stderr, unit: "envelopes"}
	done, err := journal.Migrate(ctx, *data, journal.MigrateOptions{
		AcceptLoss: journal.Range(accept), Logger: logger,
		Progress: func(what string, done, all uint64) {
			watch.what = what
			watch.set(done, all)
		},
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	if done.Lost > 0 {
		fmt.Fprintf(stderr, "%d envelopes are lost; if the newest of them are newer than the log's last checkpoint, start honed once with --accept-loss %v\n",
			done.Lost, &accept)
	}
	switch {
	case *asJSON:
		return json.NewEncoder(stdout).Encode(done)
	case done.Old == "":
		_, err = fmt.Fprintf(stdout, "nothing to migrate: %s has a log of this version\n", *data)
	default:
		_, err = fmt.Fprintf(stdout, "migrated %d envelopes, positions %d to %d, old log kept in %s\n", done.Envelopes, done.First, done.Last, done.Old)
	}
	return err
}
