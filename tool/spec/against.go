package spec

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/trial"
)

// Against describes the other program of a comparison of two.
type Against struct {
	cmd, build, target, ready string
	env                       []string
}

// Define adds the flags.
func (f *Against) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cmd, "against-cmd", "", "shell `COMMAND` that runs another program (A), to measure alternately with that of --cmd (B)")
	flags.StringVar(&f.target, "against-target", "", "where A listens, as in --target and over the same protocol (default: at --target as well)")
	flags.StringVar(&f.build, "against-build", "", "shell `COMMAND` that builds A, run once")
	flags.StringArrayVar(&f.env, "against-env", nil, "environment variable of A; those of --env are B's alone")
	flags.StringVar(&f.ready, "against-ready", "", "how to tell that A is ready, as in --ready (its target accepts connections)")
}

// Given reports whether there is another program.
func (f *Against) Given() bool { return f.cmd != "" }

// Server returns the other program, with the time limits of the subject's server.
func (f *Against) Server(s *Subject, server trial.Server) (trial.Server, error) {
	other := trial.Server{
		Name: programName(f.cmd), Build: f.build, Command: f.cmd, Env: f.env, ReadyWithin: server.ReadyWithin, StopWithin: server.StopWithin,
	}
	if f.ready != "" {
		var err error
		if other.Ready, err = trial.ParseReady(f.ready); err != nil {
			return other, exit.Usagef("bench: --against-ready: %w", err)
		}
	}
	if f.target == "" {
		return other, nil
	}
	scheme := func(target string) string {
		name, _, _ := strings.Cut(target, "://")
		return kindOf(name).String()
	}
	if a, b := scheme(f.target), scheme(s.Target); a != b {
		return other, exit.Usagef("bench: --against-target %s: the protocol is not that of --target %s; compare programs that do the same", Public(f.target), Public(s.Target))
	}
	var err error
	other.Target, err = s.Load.target.parse("bench", f.target, &s.Load.settings)
	return other, err
}

// Names fills in what the two programs are called, unless they have a name.
func (f *Against) Names(a, b *trial.Server) {
	if b.Name == "" {
		b.Name = programName(b.Command)
	}
	if a.Name == b.Name {
		a.Name += " (A)"
	}
}

// programName is the name of the program that a command starts: the rest may be secret.
func programName(command string) string {
	for word := range strings.FieldsSeq(command) {
		if word != "exec" && !strings.Contains(word, "=") {
			return strings.Trim(filepath.Base(filepath.ToSlash(word)), `'"`)
		}
	}
	return "the server"
}
