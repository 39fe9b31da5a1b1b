package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// runTables fills the tables of the pages that are named, or of bench/README.md.
func runTables(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("tables", flag.ContinueOnError)
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		return usageError(err)
	}
	module, err := fleet.Module(context.Background())
	if err != nil {
		return err
	}
	pages := f.Args()
	if len(pages) == 0 {
		pages = []string{filepath.Join(module, "README.md")}
	}
	for _, path := range pages {
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := report.Fill(string(before), filepath.Join(module, "results"))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// runPicture draws docs/img/beside-others.svg.
func runPicture(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("picture", flag.ContinueOnError)
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		return usageError(err)
	}
	module, err := fleet.Module(context.Background())
	if err != nil {
		return err
	}
	svg, err := report.Picture(filepath.Join(module, "results"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(module, "..", "docs", "img", "beside-others.svg"), []byte(svg), 0o644)
}
