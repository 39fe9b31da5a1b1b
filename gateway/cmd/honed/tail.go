package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
)

// gapLine is the line for records that are missing.
type gapLine struct {
	Gap  string `json:"gap"` // why
	From string `json:"from"`
	To   string `json:"to"`
}

// tailing are the flags of honed tail.
type tailing struct {
	commandline.Reading
	follow bool
}

// tail prints the records of a running honed.
func tail(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f tailing
	r := &f.Reader
	flags, config := commandline.New("honed tail")
	f.Add(flags, "from", "first")
	flags.StringVar(&r.Name, "name", "tail", "`NAME` of the reader, for its token or certificate. Nothing is stored under it")
	flags.BoolVar(&f.follow, "follow", false, "go on with what is stored from now on; without it, honed tail ends where the log ends now")
	r.Passing, r.Eager, r.Start = true, true, gateway.FromFirst
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if err := f.Prepare("--name"); err != nil {
		return err
	}
	r.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	defer r.Close()
	out := bufio.NewWriter(stdout)
	err := f.print(ctx, out)
	return errors.Join(commandline.OrInterrupted(ctx, err), out.Flush())
}

// print prints until the log's end, or for ever.
func (f *tailing) print(ctx context.Context, out *bufio.Writer) error {
	lines := json.NewEncoder(out)
	for {
		b, err := f.Reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range b.Messages {
			line := commandline.Line(&m.Record)
			line.Number = number.Format(m.Number)
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		if b.Gap != nil {
			if err := lines.Encode(gapLine{b.Gap.Reason.String(), number.Format(b.Gap.From), number.Format(b.Gap.To)}); err != nil {
				return err
			}
		}
		if len(b.Messages) == 0 && b.Gap == nil {
			if !f.follow {
				return nil
			}
			if err := out.Flush(); err != nil { // it has everything for now
				return err
			}
		}
	}
}
