package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Manage stored runs",
		Long: `Manage the runs that hone bench and hone load --save stored.

Refer to a run by its id or the id's first digits, by its name or that of its git
revision (the newest of that name), or by latest or latest~2.

hone compare and hone profile also accept files: a name means the file of that
name or, if there is none, the run. latest and latest~2 are always runs; write
./latest for a file of that name.`,
		Example: `  hone run list
  hone run show latest`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRunList(), newRunShow(), newRunRemove(), newRunExport())
	return cmd
}

// orLatest returns the run that is given, or else the newest.
func orLatest(args []string) string { return slices.Concat(args, []string{"latest"})[0] }

func newRunList() *cobra.Command {
	var store session.Store
	var out session.Output
	var filter record.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the runs, newest first",
		Example: "  hone run list --limit 5\n  hone run list --scenario hello --json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var runs []record.Summary
			if err := store.Reading("run list", func(s *record.Store) error {
				skipped, err := s.Skipped()
				for _, why := range skipped {
					fmt.Fprintf(cmd.ErrOrStderr(), "hone: run list: skipped: %v\n", why)
				}
				if err == nil {
					runs, err = s.List(filter)
				}
				return err
			}); err != nil {
				return err
			}
			return out.Print(cmd, listed{figure.SchemaRuns, runs}, func(w io.Writer) { writeList(w, runs) })
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&filter.Scenario, "scenario", "", "only runs of the scenario with this name or hash")
	flags.StringVar(&filter.Name, "name", "", "only runs of this name")
	flags.IntVar(&filter.Limit, "limit", 0, "number of runs, newest first (default: all)")
	out.Define(cmd)
	store.Define(cmd)
	return cmd
}

type listed struct {
	Schema string           `json:"schema"`
	Runs   []record.Summary `json:"runs"`
}

func writeList(w io.Writer, runs []record.Summary) {
	table := figure.Table{Head: []string{"id", "began", "by", "target", "scenario", "valid samples", "name"}}
	for _, r := range runs {
		table.Add(r.ID, r.At.Local().Format(time.DateTime), string(r.Made), r.Target, r.Scenario, fmt.Sprintf("%d of %d", r.Valid, r.Samples), r.Name)
	}
	table.Text(w)
}

func newRunShow() *cobra.Command {
	var store session.Store
	var out session.Output
	cmd := &cobra.Command{
		Use:     "show [RUN]",
		Short:   "Show a run: its figures and settings",
		Example: "  hone run show\n  hone run show before --json",
		Args:    arguments(0, 1, "name one run, as in: hone run show latest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var run *record.Run
			var folder string
			if err := store.Reading("run show", func(s *record.Store) (err error) {
				if run, err = s.Get(orLatest(args)); err == nil {
					folder, err = s.Folder(run.ID)
				}
				return err
			}); err != nil {
				return err
			}
			return out.Print(cmd, shown{figure.SchemaShown, run}, func(w io.Writer) {
				writeRun(w, run)
				fmt.Fprintf(w, "\nfolder: %s\n", folder)
			})
		},
	}
	out.Define(cmd)
	store.Define(cmd)
	return cmd
}

type shown struct {
	Schema string `json:"schema"`
	*record.Run
}

func writeRun(w io.Writer, r *record.Run) {
	valid := 0
	for _, s := range r.Samples {
		if s.Valid {
			valid++
		}
	}
	fmt.Fprintf(w, "%s %s, by hone %s, %s\n", r.ID, r.Name, r.Made, r.At.Local().Format(time.DateTime))
	if r.PairedWith != "" {
		fmt.Fprintf(w, "measured alternately with %s\n", r.PairedWith)
	}
	fmt.Fprintf(w, "scenario %s: %s\n", r.Scenario.Name, strings.Join(r.Scenario.Words(), ", "))
	if k := knee.Of(r); k != nil { // medians over all loads would mean nothing
		verdict := map[bool]string{true: "VALID", false: "INVALID"}[k.Valid]
		fmt.Fprintf(w, "%s: %s\n%d of %d trials are valid\n\n", verdict, k.Summary, valid, len(r.Samples))
	} else {
		fmt.Fprintf(w, "%d of %d samples are valid\n\n", valid, len(r.Samples))
		figuresOf(r).Text(w)
	}
	for i, s := range r.Samples {
		if !s.Valid {
			fmt.Fprintf(w, "sample %d is not valid: %s\n", i+1, s.Why())
		}
	}
	for _, part := range []struct {
		name     string
		settings map[string]string
	}{{"must be equal to compare", r.Environment.Strict}, {"may differ", r.Environment.Soft}} {
		fmt.Fprintf(w, "\n%s:\n", part.name)
		for _, key := range slices.Sorted(maps.Keys(part.settings)) {
			fmt.Fprintf(w, "  %s: %s\n", key, part.settings[key])
		}
	}
}

// figuresOf returns the median and the range of each figure over the valid samples, if any.
func figuresOf(r *record.Run) *figure.Table {
	table := new(figure.Table)
	for _, f := range r.Spreads() {
		median, around := f.Text()
		table.Head, table.Right = []string{"figure", "median", "range"}, "-rr"
		table.Add(figure.Of(f.Name, f.Unit), median, around)
	}
	return table
}

func newRunRemove() *cobra.Command {
	var store session.Store
	cmd := &cobra.Command{
		Use:     "rm RUN…",
		Short:   "Remove runs permanently, of a pair both",
		Example: "  hone run rm 3f9c2a71b04e",
		Args:    arguments(1, math.MaxInt, "run rm: name the runs to remove, as in: hone run rm 3f9c2a71b04e"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return store.Writing("run rm", func(s *record.Store) error {
				freed, err := s.Remove(args...)
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "hone: removed %s, %s freed\n", strings.Join(args, ", "), figure.Bytes(float64(freed)))
				}
				return err
			})
		},
	}
	store.Define(cmd)
	return cmd
}

func newRunExport() *cobra.Command {
	var store session.Store
	var file string
	cmd := &cobra.Command{
		Use:   "export [RUN…]",
		Short: "Export runs to other programs",
		Long: `Export runs to other programs. Store a load first:
hone load … --save NAME; hone run export NAME --format hdr.

  csv        one line per figure and sample
  hdr        one run's histograms, one line per second, for HdrHistogram's tools
  benchmark  Go's benchmark format, for benchstat

To have a run in another store, copy its folder, which hone run show names.`,
		Example: `  hone run export before after --format benchmark | benchstat -col side -
  hone run export nightly --format hdr -o nightly.hlog`,
	}
	format := spec.AddChoice(cmd, "format", "csv", "output format", "csv", "hdr", "benchmark")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"latest"}
		}
		if format.Value == "hdr" && len(args) > 1 {
			return exit.Usagef("run export: a file of --format hdr holds one run; export them one by one, or use another format")
		}
		return store.Reading("run export", func(s *record.Store) error {
			var runs []*record.Run
			for _, ref := range args {
				run, err := s.Get(ref)
				if err != nil {
					return err
				}
				runs = append(runs, run)
			}
			return exportRuns(cmd, format.Value, file, runs)
		})
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` instead of standard output")
	store.Define(cmd)
	return cmd
}

func exportRuns(cmd *cobra.Command, format, file string, runs []*record.Run) error {
	write := map[string]func(io.Writer) error{
		"csv":       func(w io.Writer) error { return record.WriteCSV(w, runs...) },
		"hdr":       func(w io.Writer) error { return record.WriteHistogramLog(w, runs[0]) },
		"benchmark": func(w io.Writer) error { return record.WriteBenchmarks(w, runs...) },
	}[format]
	return session.Output{File: file}.Stream("run export", cmd.OutOrStdout(), write)
}
