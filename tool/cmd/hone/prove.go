package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/prove"
	"github.com/hone-go/hone/tool/session"
)

// proveFlags holds the parsed flags of hone prove.
type proveFlags struct {
	prove.Options
	out session.Output
}

func newProve() *cobra.Command {
	f := new(proveFlags)
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Kill a gateway with kill -9 under load, and verify every message",
		Long: `Start a honed, submit a million messages to it, kill it with kill -9 half-way, restart
it, and compare its log with what it has acknowledged: is each message there, once, in
order and with its content?

honed listens on a free port of 127.0.0.1, and its log is in a folder that is deleted
at the end, unless --keep names one. That folder's disk is what is tested.`,
		Example: `  go build -o honed ./gateway/cmd/honed && hone prove --honed ./honed
  hone prove --messages 20000000 --kills 100 --keep /mnt/disk/proof`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Honed, "honed", "honed", "the `PROGRAM` to kill")
	flags.IntVar(&f.Messages, "messages", 1_000_000, "how many messages to submit")
	flags.IntVar(&f.Clients, "clients", 4, "how many clients submit them")
	flags.IntVar(&f.Window, "window", 256, "messages in flight per client")
	flags.IntVar(&f.Size, "size", 128, "size of a message in `BYTES`")
	flags.IntVar(&f.Kills, "kills", 1, "how often to kill, evenly spread over the messages")
	flags.StringVar(&f.Folder, "keep", "", "use this `FOLDER` for the log, and keep it")
	f.out.Define(cmd)
	return cmd
}

func (f *proveFlags) run(cmd *cobra.Command) error {
	if f.Messages < 1 || f.Clients < 1 || f.Window < 1 || f.Size < prove.MinSize || f.Kills < 0 {
		return exit.Usagef("prove: it takes at least 1 message of %d bytes, 1 client, a window of 1 and no kill", prove.MinSize)
	}
	if _, err := exec.LookPath(f.Honed); err != nil {
		return exit.Failedf("prove: %w; build it with go build -o honed ./gateway/cmd/honed, and name it with --honed ./honed", err)
	}
	if f.Folder == "" {
		made, err := os.MkdirTemp("", "hone-prove-")
		if err != nil {
			return exit.FailedIf(err)
		}
		defer os.RemoveAll(made)
		f.Folder = filepath.Join(made, "log")
	}
	f.Progress = func(n int) {
		if n%(100*1000) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d messages acknowledged\n", n, f.Messages)
		}
	}
	r, err := prove.Run(cmd.Context(), f.Options)
	if err != nil {
		return exit.Failedf("prove: %w", err)
	}
	if err := f.out.Print(cmd, r, func(w io.Writer) {
		fmt.Fprintf(w, "%d messages submitted, %d acknowledged in %.1f s (%.0f/s), honed killed %d times, %d resent\n"+
			"%d records in the log: %d lost, %d stored twice, %d out of order, %d wrong\n",
			r.Messages, r.Acknowledged, r.Seconds, r.PerSecond, r.Kills, r.Resent,
			r.Stored, r.Lost, r.Twice, r.OutOfOrder, r.Wrong)
	}); err != nil {
		return err
	}
	if !r.Holds() {
		return exit.Failedf("prove: the log does not match the acknowledgements")
	}
	return nil
}
