package trial

import (
	"slices"
	"testing"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
)

// Other programs' use counts from the limit on, and is not checked at a limit of 1.
func TestDisturbed(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	used := machine.Meanwhile{Others: of(0.4), Steal: of(0.01)}
	if got := disturbed(used, 0.3); !slices.Equal(got, []string{"other programs used 40 % of the CPUs (limit 30 %); stop them, or wait"}) {
		t.Errorf("40 %% of 30 %%: %q", got)
	}
	if got := disturbed(used, 0.5); got != nil {
		t.Errorf("40 %% of 50 %%: %q", got)
	}
	if got := disturbed(machine.Meanwhile{}, 0.5); got != nil {
		t.Errorf("nothing is known: %q", got)
	}
}

// The plan's own callbacks are still called.
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
