package spec

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// Others says how much other programs may disturb a measurement.
type Others struct{ Most Percent }

// Define adds the flag.
func (o *Others) Define(cmd *cobra.Command, usual Percent) {
	o.Most = usual
	cmd.Flags().Var(&o.Most, "most-others", "part of all processors that other programs may use before a figure is not valid; 100% also does not mind a quota, or the host's other machines")
}

// Watch is what looks at others while target is loaded. A server on this machine is no
// other: its admin side says which process it is.
func (o *Others) Watch(cmd *cobra.Command, target load.Target, server *admin.Server) (*trial.Others, error) {
	watch := &trial.Others{Most: float64(o.Most)}
	if watch.Most >= 1 {
		return watch, nil
	}
	if server == nil && trial.Topology(target) != "network" {
		return nil, exit.Usagef("%s: --most-others needs --server-stats where the server is on this machine: it is no other program; give its admin side, or leave --most-others out", cmd.Name())
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
