package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

// reportFlags are report's, as they were given.
type reportFlags struct {
	against, file string
	store         storeFlag
}

func newReport() *cobra.Command {
	f := new(reportFlags)
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write a run as one page that needs nobody",
		Long: `Write a run as one file of HTML, to look at, keep or pass on: the charts of the live
page, with the figures in them. It opens from a disk, asks nothing of any network and
is the same to the byte for the same runs.

RUN is one that was kept (latest, if none is given; see hone run --help). With
--against an earlier run is drawn beneath, and the differences are judged as hone
compare does.`,
		Example: `  hone report -o report.html
  hone report after --against before -o report.html
  hone report latest --against baseline:main -o report.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := oneRef(args, true, "hone report latest -o report.html")
			if err != nil {
				return err
			}
			return f.run(cmd, ref)
		},
		ValidArgsFunction: f.store.completeRuns,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.against, "against", "", "the earlier `RUN`")
	flags.StringVarP(&f.file, "output", "o", "", "write the page to `FILE` instead of standard output")
	f.store.define(cmd)
	return cmd
}

// run writes the page.
func (f *reportFlags) run(cmd *cobra.Command, ref string) error {
	run, err := f.store.withRun(cmd.Context(), "report", ref)
	if err != nil {
		return err
	}
	var against *record.Run
	if f.against != "" {
		if against, err = f.store.withRun(cmd.Context(), "report", f.against); err != nil {
			return err
		}
	}
	var html bytes.Buffer
	if err := page.Report(&html, run, against); err != nil {
		return failed("report: %w", err)
	}
	out, err := openResult(f.file, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.Close()
	if err = out.begin(); err == nil {
		_, err = out.Write(html.Bytes())
	}
	if err != nil {
		return failed("report: %w", err)
	}
	return nil
}
