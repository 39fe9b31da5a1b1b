package spec

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/trial"
)

// Others limits the CPU use of other programs during a measurement.
type Others struct {
	Most Percent
	pid  int
}

// Define adds the flag. What is above its default is a warning only, unless strict: other programs
// may be the server's own, such as its database.
func (o *Others) Define(cmd *cobra.Command, strict bool) {
	o.Most = trial.MaxOthers
	usage := "share of all CPUs that other programs may use; above it a result is INVALID"
	if !strict {
		usage = "share of all CPUs that other programs may use; above it a result has a warning, or is INVALID if you give this flag"
	}
	cmd.Flags().Var(&o.Most, "max-others", usage+"; 100% also accepts CPU quotas and steal")
	if !strict {
		cmd.Flags().IntVar(&o.pid, "server-pid", 0, "the process `ID` of a server on this machine, of any kind: adds what it and its children use (CPU, memory, descriptors)")
	}
}

// Watch returns the watcher of other programs while target is loaded. A server on this machine
// does not count as another program: its admin side reports its process, or its port tells. Where
// neither does, only a limit that the user gives is an error.
func (o *Others) Watch(cmd *cobra.Command, target codec.Target, server *admin.Server) (*trial.Others, error) {
	given := cmd.Flags().Changed("max-others")
	watch := &trial.Others{Most: float64(o.Most), Warn: !given, Server: o.pid, Elsewhere: trial.Elsewhere(target)}
	if cmd.Flags().Changed("server-pid") {
		if err := watch.Reachable(); err != nil {
			return nil, exit.Failedf("%s: --server-pid: %w; give the id of a running process of this machine", cmd.Name(), err)
		}
	}
	switch local := trial.Topology(target) != "network"; {
	case watch.Most >= 1 || o.pid > 0:
	case server != nil:
		seen, err := server.Read(cmd.Context())
		if err != nil {
			return nil, exit.Failedf("%s: --server-stats: %w", cmd.Name(), err)
		}
		watch.Own = []int{seen.PID}
	case local:
		if watch.Own = trial.Listeners(target); watch.Own != nil {
			break
		}
		if given {
			return nil, exit.Usagef("%s: --max-others needs --server-pid or --server-stats when the server is on this machine and its process cannot be told by its port; give one of them, or leave --max-others out", cmd.Name())
		}
		watch.Most = 1
	}
	return watch, nil
}
