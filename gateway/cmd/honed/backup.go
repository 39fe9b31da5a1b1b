package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// backup copies the log of a running or a stopped honed.
func backup(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, config := commandline.New("honed backup")
	data := flags.String("data", "honed-data", "`FOLDER` of the log; a honed may write to it")
	to := flags.String("to", "", "write the copy into this `FOLDER`; one that has an earlier backup gets what is new")
	asJSON := flags.Bool("json", false, "print the result as JSON")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if *to == "" {
		return commandline.UsageError{Err: errors.New("give the folder of the backup with --to")}
	}
	return copied(ctx, *data, *to, false, *asJSON, stdout, stderr)
}

// restore copies a backup into a new data folder.
func restore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, config := commandline.New("honed restore")
	from := flags.String("from", "", "`FOLDER` of the backup")
	data := flags.String("data", "honed-data", "new `FOLDER` for the log")
	asJSON := flags.Bool("json", false, "print the result as JSON")
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if *from == "" {
		return commandline.UsageError{Err: errors.New("give the folder of the backup with --from")}
	}
	return copied(ctx, *from, *data, true, *asJSON, stdout, stderr)
}

func copied(ctx context.Context, from, to string, empty, asJSON bool, stdout, stderr io.Writer) error {
	watch := &progress{out: stderr, what: "copied", unit: "bytes"}
	c, err := journal.Backup(ctx, from, to, journal.BackupOptions{Empty: empty, Progress: watch.set})
	var lost *journal.Damage
	if err != nil && !errors.As(err, &lost) {
		return commandline.OrInterrupted(ctx, err)
	}
	if asJSON {
		if err := json.NewEncoder(stdout).Encode(c); err != nil {
			return err
		}
	} else if c.Next == c.First {
		fmt.Fprintf(stdout, "%s has a copy of the log, which is empty\n", to)
	} else {
		fmt.Fprintf(stdout, "%s has a copy of the log, positions %d to %d in %d segments; %d bytes were written\n", to, c.First, c.Next-1, c.Segments, c.Written)
	}
	if lost != nil {
		fmt.Fprintln(stderr, err)
		return fmt.Errorf("%w: in %s already, and so in %s, as named above", errLost, from, to)
	}
	return nil
}
