package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/hone-go/hone/engine"
)

// errUsage is an error of who typed the command.
var errUsage = errors.New("usage")

// engineFlag defines -engine: the name of one of engine.All. Without it, the
// engine is the default of this operating system.
func engineFlag(flags *flag.FlagSet) *engine.Engine {
	var chosen engine.Engine
	var names []string
	for _, e := range engine.All() {
		names = append(names, e.Name())
	}
	list := strings.Join(names, ", ")
	usage := fmt.Sprintf("move bytes with the engine `name`: %s (default %s)", list, chosen.Name())
	flags.Func("engine", usage, func(name string) error {
		for _, e := range engine.All() {
			if e.Name() == name {
				chosen = e
				return nil
			}
		}
		return fmt.Errorf("there is no such engine; choose one of %s", list)
	})
	return &chosen
}

// parse reads the flags. Asked for help, it prints that and returns flag.ErrHelp;
// every other error is an errUsage, which nobody has printed.
func parse(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.Usage()
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() > 0:
		return fmt.Errorf("%w: %q is no flag; -h lists those that there are", errUsage, flags.Arg(0))
	}
	return nil
}
