package trial

import (
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
)

// Others marks a load's result invalid when other programs used too much CPU during the
// measured time.
type Others struct {
	// Most is the share of all CPUs that other programs may use. From 1 up it is not
	// checked.
	Most float64
	// Own are the processes of the server, if it runs on this machine.
	Own []int

	before, after machine.Usage
}

// Watch hooks into the start and end of p's measured time.
func (o *Others) Watch(p *load.Plan) {
	if o.Most >= 1 {
		return
	}
	opens, closes := p.WindowOpens, p.WindowCloses
	p.WindowOpens = func() {
		if opens != nil {
			opens()
		}
		o.before = machine.Measure()
	}
	p.WindowCloses = func() {
		o.after = machine.Measure()
		if closes != nil {
			closes()
		}
	}
}

// Judge adds to the result the reasons why the machine makes its figures unreliable.
func (o *Others) Judge(r *load.Result) {
	if o.Most >= 1 || r == nil {
		return
	}
	for _, reason := range disturbed(o.before.Between(o.after, o.Own...), o.Most) {
		r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, reason)
	}
}
