package spec

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// Others limits the CPU use of other programs during a measurement.
type Others struct{ Most Percent }

// Define adds the flag.
func (o *Others) Define(cmd *cobra.Command, usual Percent) {
	o.Most = usual
	cmd.Flags().Var(&o.Most, "most-others", "CPU share of all processors that other programs may use before a result is INVALID; 100% also accepts CPU quotas and steal")
}

// Watch returns the watcher of other programs while target is loaded. A server on this machine
// does not count as another program: its admin side reports its process.
func (o *Others) Watch(cmd *cobra.Command, target load.Target, server *admin.Server) (*trial.Others, error) {
	watch := &trial.Others{Most: float64(o.Most)}
	if watch.Most >= 1 {
		return watch, nil
	}
	if server == nil && trial.Topology(target) != "network" {
		return nil, exit.Usagef("%s: --most-others needs --server-stats when the server is on this machine, to tell it from other programs; give the server's admin side, or leave --most-others out", cmd.Name())
	}
	if server != nil {
		seen, err := server.Read(cmd.Context())
		if err != nil {
			return nil, exit.Failedf("%s: --server-stats: %w", cmd.Name(), err)
		}
		watch.Own = []int{seen.PID}
	}
	return watch, nil
}
