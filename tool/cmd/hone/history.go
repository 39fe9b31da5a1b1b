package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/history"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// historyFlags holds the parsed flags of hone history.
type historyFlags struct {
	history.Options
	out   session.Output
	html  bool
	store session.Store
}

func newHistory() *cobra.Command {
	f := new(historyFlags)
	cmd := &cobra.Command{
		Use:   "history [RUN]",
		Short: "Report since which commit figures have changed",
		Long: `Report since which commit figures have changed, from the stored runs of one
name: a line per figure, with the level now and every change of the level before.

RUN is a run (see hone run --help), or the name of runs. The default is the newest run.
Runs whose settings differ are counted, and left out. See docs/bench.md. Exit code 4 when
no run has a valid sample.`,
		Example: `  hone history main
  hone history main --html -o history.html
  hone history main --across go,kernel`,
		Args: arguments(0, 1, "history: name one run, as in: hone history main"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, cmp.Or(args...)) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.All, "all", false, "include runs of other names")
	flags.StringSliceVar(&f.Across, "across", nil, "settings that may differ, as in go,kernel")
	flags.IntVar(&f.Limit, "limit", 200, "number of runs, the newest")
	f.out.DefineReport(cmd, &f.html)
	f.store.Define(cmd)
	return cmd
}

func (f *historyFlags) run(cmd *cobra.Command, ref string) error {
	switch {
	case f.out.JSON && f.out.MD || f.html && (f.out.JSON || f.out.MD):
		return exit.Usagef("history: choose one of --json, --md and --html")
	case f.Limit < 1:
		return exit.Usagef("history: --limit %d: use 1 or more", f.Limit)
	}
	var h *history.History
	if err := f.store.Reading("history", func(s *record.Store) (err error) {
		h, err = history.Read(s, ref, f.Options)
		return err
	}); err != nil {
		return err
	}
	text := h.Text
	switch {
	case f.out.MD:
		text = h.Markdown
	case f.html:
		text = func(w io.Writer) {
			_ = page.Tables(w, "hone history: "+h.Title(), []string{h.Summary() + "; comparable with run " + h.Baseline}, // into memory
				page.Section{Heading: "Figures over time", Table: h.Table()}, page.Section{Heading: "Every run", Table: h.Each()})
		}
	}
	if err := f.out.Print(cmd, h, text); err != nil {
		return err
	}
	if !h.Valid {
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("history: %s", h.InvalidReasons[0])}
	}
	return nil
}
