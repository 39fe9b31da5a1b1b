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
	// Warn makes it a warning, and the result stays valid.
	Warn bool
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

// Judge adds to the result the reasons why the machine makes its figures unreliable, or the
// warnings, and returns these.
func (o *Others) Judge(r *load.Result) (warnings []string) {
	if o.Most >= 1 || r == nil {
		return nil
	}
	reasons := disturbed(o.before.Between(o.after, o.Own...), o.Most)
	switch {
	case len(reasons) == 0:
	case o.Warn:
		r.Warnings, warnings = append(r.Warnings, reasons...), reasons
	default:
		r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, reasons...)
	}
	return warnings
}
