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

func backup(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, config := commandline.New("honed backup")
	data := flags.String("data", "honed-data", "`FOLDER` of the log; a honed may write to it")
	to := flags.String("to", "", "write the copy into this `FOLDER`; one that has an earlier backup gets what is new")
	return copied(ctx, flags, config, args, data, to, false, stdout, stderr)
}

func restore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, config := commandline.New("honed restore")
	from := flags.String("from", "", "`FOLDER` of the backup")
	data := flags.String("data", "honed-data", "new `FOLDER` for the log")
	return copied(ctx, flags, config, args, from, data, true, stdout, stderr)
}

// copied copies a log from a folder to another, which has to be empty for restore.
func copied(ctx context.Context, flags *flag.FlagSet, config *string, args []string, from, to *string, empty bool, stdout, stderr io.Writer) error {
	asJSON := flags.Bool("json", false, "print the result as JSON")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if empty && *from == "" || !empty && *to == "" {
		return commandline.UsageError{Err: fmt.Errorf("give the folder of the backup with %s", map[bool]string{false: "--to", true: "--from"}[empty])}
	}
	watch := &progress{out: stderr, what: "copied", unit: "bytes"}
	c, err := journal.Backup(ctx, *from, *to, journal.BackupOptions{Empty: empty, Progress: watch.set, Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	var lost *journal.Damage
	if err != nil && !errors.As(err, &lost) {
		return commandline.OrInterrupted(ctx, err)
	}
	if *asJSON {
		if err := json.NewEncoder(stdout).Encode(c); err != nil {
			return err
		}
	} else if c.Next == c.First {
		fmt.Fprintf(stdout, "%s has a copy of the log, which is empty\n", *to)
	} else {
		fmt.Fprintf(stdout, "%s has a copy of the log, positions %d to %d in %d segments; %d bytes were written\n", *to, c.First, c.Next-1, c.Segments, c.Written)
	}
	if lost != nil {
		fmt.Fprintln(stderr, err)
		return fmt.Errorf("%w: in %s already, and so in %s, as named above", errLost, *from, *to)
	}
	return nil
}
