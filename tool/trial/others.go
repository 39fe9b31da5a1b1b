package trial

import (
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
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
	// Elsewhere says that the server is on another machine.
	Elsewhere bool
	// Server is a process whose use, with that of its descendants, Judge adds to the result; zero: none.
	Server int

	window
}

// Reachable checks that the server's process can be watched.
func (o *Others) Reachable() error {
	_, err := child.UsedBy(o.Server)
	return err
}

// Watch hooks into the start and end of p's measured time.
func (o *Others) Watch(p *load.Plan) {
	if o.Most >= 1 && o.Server == 0 {
		return
	}
	of := o.Own
	if o.Server != 0 {
		of = []int{o.Server}
	}
	o.use = func() (child.Use, error) { return child.UsedBy(of...) }
	opens, closes := p.WindowOpens, p.WindowCloses
	p.WindowOpens = func() {
		if opens != nil {
			opens()
		}
		o.opens()
	}
	p.WindowCloses = func() {
		o.closes()
		if closes != nil {
			closes()
		}
	}
	if o.Most < 1 && (o.Server != 0 || o.Own != nil || o.Elsewhere) {
		p.Rivals = func() (*float64, time.Duration) { return o.rivals(o.Own) }
	}
}

// Judge adds to the result the reasons why the machine makes its figures unreliable, or the
// warnings, and returns these.
func (o *Others) Judge(r *load.Result) (warnings []string) {
	if r == nil {
		return nil
	}
	if o.Server != 0 {
		o.fill(r)
	}
	if o.Most >= 1 {
		return nil
	}
	reasons := disturbed(o.meanwhile(o.Own), o.Most)
	switch {
	case len(reasons) == 0:
	case o.Warn:
		r.Warnings, warnings = append(r.Warnings, reasons...), reasons
	default:
		r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, reasons...)
	}
	return warnings
}
