package session

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
)

// Flags are those that commands which measure have in common.
type Flags struct {
	Output
	Store           Store
	UI              UI
	Progress, Plain bool
}

// Define adds all of them; each is what the command reports, as in "every second".
func (f *Flags) Define(cmd *cobra.Command, each string) {
	f.DefineProgress(cmd, each)
	f.Output.Define(cmd)
	f.UI.Define(cmd)
	f.Store.Define(cmd)
}

// DefineProgress adds those of the progress.
func (f *Flags) DefineProgress(cmd *cobra.Command, each string) {
	cmd.Flags().BoolVar(&f.Progress, "progress", false, "report "+each+", even if standard error is not a terminal")
	cmd.Flags().BoolVar(&f.Plain, "plain", false, "on a terminal, report in lines that stay instead of a view that changes")
}

// Open opens what cmd needs: the store if its runs are kept, and the page if one was asked for.
func (f *Flags) Open(cmd *cobra.Command, keep bool, p *page.Page) (*Session, error) {
	return Open(cmd.Context(), Plan{
		Command: cmd.Name(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Output: f.Output,
		Keep: keep, Store: f.Store, UI: f.UI, Page: p, Progress: f.Progress, Plain: f.Plain,
	})
}

// Define adds the flags of a command that writes a result.
func (o *Output) Define(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON object")
	o.define(cmd)
}

// DefineReport adds the flags of a command whose result is for people, too: as Markdown and, unless
// it is nil, as a page.
func (o *Output) DefineReport(cmd *cobra.Command, html *bool) {
	flags := cmd.Flags()
	flags.BoolVar(&o.JSON, "json", false, "print one JSON object")
	flags.BoolVar(&o.MD, "md", false, "print Markdown, for a pull request")
	if html != nil {
		flags.BoolVar(html, "html", false, "print a self-contained HTML page")
	}
	o.define(cmd)
}

func (o *Output) define(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.File, "output", "o", "", "write the result to `FILE` instead of standard output")
}

// Define adds the flag of a command that uses a store.
func (f *Store) Define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "store", "", "the `FOLDER` with the runs (default: .hone/runs in the nearest parent folder with .hone, else the user's)")
}

// Define adds the flags of a command with a live page.
func (f *UI) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Addr, "ui", "", "show progress on a live page at this `ADDR`, as in 127.0.0.1:8080; port 0 picks a free one")
	flags.BoolVar(&f.Stay, "ui-stay", false, "keep serving the page after the end, until Ctrl-C")
	flags.StringVar(&f.TokenFile, "ui-token-file", "", "`FILE` with the token that opens the page to other machines: a browser asks for it as a password")
}

// Check refuses flags that would have no effect.
func (f *UI) Check(command string) error {
	switch {
	case f.Addr != "":
	case f.Stay:
		return exit.Usagef("%s: --ui-stay needs --ui, the page's address, as in --ui 127.0.0.1:8080", command)
	case f.TokenFile != "":
		return exit.Usagef("%s: --ui-token-file needs --ui, the page's address, as in --ui :8080", command)
	}
	return nil
}
