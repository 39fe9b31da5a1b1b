package trial

import (
	"slices"
	"testing"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
)

// What others used counts from the limit on, and nobody looks where they may use all.
func TestDisturbed(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	used := machine.Meanwhile{Others: of(0.4), Steal: of(0.01)}
	if got := disturbed(used, 0.3); !slices.Equal(got, []string{"other programs used 40 % of the processors (the limit is 30 %); end them, or wait"}) {
		t.Errorf("40 %% of 30 %%: %q", got)
	}
	if got := disturbed(used, 0.5); got != nil {
		t.Errorf("40 %% of 50 %%: %q", got)
	}
	if got := disturbed(machine.Meanwhile{}, 0.5); got != nil {
		t.Errorf("nothing is known: %q", got)
	}
}

// The moments of the plan's own window are still told.
func TestOthersWatch(t *testing.T) {
	told := ""
	plan := load.Plan{WindowOpens: func() { told += "opens " }, WindowCloses: func() { told += "closes" }}
	o := &Others{Most: 0.3}
	o.Watch(&plan)
	plan.WindowOpens()
	plan.WindowCloses()
	if told != "opens closes" {
		t.Errorf("told %q", told)
	}
	all := load.Plan{}
	(&Others{Most: 1}).Watch(&all)
	if all.WindowOpens != nil || all.WindowCloses != nil {
		t.Error("somebody looks")
	}
}
