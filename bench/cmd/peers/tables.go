package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// publish shows what is stored: it fills the tables of the pages that are named, or of
// bench/figures.md, draws the picture, or brings the list of versions up to date.
func publish(ctx context.Context, what string, args []string, stderr io.Writer) error {
	f := flag.NewFlagSet(what, flag.ContinueOnError)
	f.SetOutput(stderr)
	err := f.Parse(args)
	if err == nil && what != "tables" && f.NArg() > 0 {
		err = errors.New(what + " takes no arguments")
	}
	if err != nil {
		return usageError(err)
	}
	module, err := fleet.Module(ctx)
	if err != nil {
		return err
	}
	results := filepath.Join(module, "results")
	switch what {
	case "versions":
		return report.Refresh(ctx, results)
	case "picture":
		svg, err := report.Picture(results)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(module, "..", "docs", "img", "beside-others.svg"), []byte(svg), 0o644)
	}
	pages := f.Args()
	if len(pages) == 0 {
		pages = []string{filepath.Join(module, "figures.md")}
	}
	for _, path := range pages {
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := report.Fill(string(before), results)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return err
		}
	}
	return nil
}
