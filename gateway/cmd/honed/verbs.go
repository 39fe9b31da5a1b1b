package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// openForReading parses the flags of a verb that only reads the log, and opens the log.
func openForReading(ctx context.Context, verb string, args []string, stdout, stderr io.Writer, from *uint64) (journal.Reader, error) {
	var f logFlags
	flags, config := commandline.New("honed " + verb)
	f.add(flags)
	if from != nil {
		flags.Uint64Var(from, "from", 0, "start with the envelope at this `POSITION`")
	}
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return nil, err
	}
	log, err := f.read(ctx, slog.New(slog.NewTextHandler(stderr, nil)))
	return log, commandline.OrInterrupted(ctx, err)
}

// verify checks envelopes and records. It names what is lost on standard error.
func verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	log, err := openForReading(ctx, "verify", args, stdout, stderr, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	watch := &progress{out: stderr, what: "verified", unit: "envelopes"}
	damage := log.Verify(ctx, 0, watch.set)
	if ctx.Err() != nil {
		return commandline.ErrInterrupted
	}
	if damage != nil {
		fmt.Fprintln(stderr, damage)
	}
	checked, err := gateway.Check(ctx, log, nil)
	if err != nil {
		return commandline.OrInterrupted(ctx, err)
	}
	if err := json.NewEncoder(stdout).Encode(checked); err != nil {
		return err
	}
	switch {
	case checked.Lost > checked.Accepted:
		return fmt.Errorf("verify: %w: %d of them, named above; restore the log from a backup", errLost, checked.Lost-checked.Accepted)
	case checked.Lost == 0 && damage != nil:
		return errors.New("verify: the log is damaged, as named above, and nothing is lost")
	}
	return nil
}

// export prints every entry of the log.
func export(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var from uint64
	log, err := openForReading(ctx, "export", args, stdout, stderr, &from)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := exportLines(ctx, log, from, stdout); err != nil {
		return commandline.OrInterrupted(ctx, fmt.Errorf("export: %w", err))
	}
	return nil
}
