package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// openForReading parses the flags of a verb that only reads the log, and opens the log.
func openForReading(ctx context.Context, verb string, args []string, stdout, stderr io.Writer, from *uint64) (journal.Log, error) {
	var f logFlags
	flags, config := newFlags("honed " + verb)
	f.add(flags)
	if from != nil {
		flags.Uint64Var(from, "from", 0, "start with the envelope at this `POSITION`")
	}
	if err := parse(flags, config, args, stdout); err != nil {
		return nil, err
	}
	logger, err := newLogger("text", stderr)
	if err != nil {
		return nil, err
	}
	log, err := f.open(ctx, verifying(stderr), logger)
	return log, interrupted(ctx, err)
}

// interrupted returns errInterrupted instead of an error that ctx caused.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// verify checks envelopes and records.
func verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	log, err := openForReading(ctx, "verify", args, stdout, stderr, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.Verify(ctx, verifying(stderr).set); err != nil {
		return interrupted(ctx, err)
	}
	checked, err := gateway.Check(ctx, log, nil)
	if err != nil {
		return interrupted(ctx, err)
	}
	return json.NewEncoder(stdout).Encode(checked)
}

// inspect prints the header of each envelope.
func inspect(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return printed(ctx, "inspect", args, stdout, stderr, journal.Inspect)
}

// export prints every record.
func export(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return printed(ctx, "export", args, stdout, stderr, journal.Export)
}

func printed(ctx context.Context, verb string, args []string, stdout, stderr io.Writer,
	print func(context.Context, journal.Log, uint64, io.Writer) error,
) error {
	var from uint64
	log, err := openForReading(ctx, verb, args, stdout, stderr, &from)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := print(ctx, log, from, stdout); err != nil {
		return interrupted(ctx, fmt.Errorf("%s: %w", verb, err))
	}
	return nil
}
