package trial

import (
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
)

// Others makes a load's result invalid when other programs used the processors in the
// measured time.
type Others struct {
	// Most is the part of all processors that they may use. From 1 up nobody looks.
	Most float64
	// Own are the processes of the server, if it is on this machine.
	Own []int

	before, after machine.Usage
}

// Watch makes p tell when its measured time begins and ends.
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

// Judge adds to the result why the machine makes its figures unbelievable.
func (o *Others) Judge(r *load.Result) {
	if o.Most >= 1 || r == nil {
		return
	}
	for _, reason := range disturbed(o.before.Between(o.after, o.Own...), o.Most) {
		r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, reason)
	}
}
