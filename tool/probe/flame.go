package probe

import (
	"cmp"
	"slices"

	"github.com/google/pprof/profile"
)

// Frame is a function where it was called, of a flame graph: what it took together with
// all that it called from there.
type Frame struct {
	Function string
	Value    float64
	Before   *float64 // nil: there is no earlier profile
	Calls    []Frame  // by name
}

// Flame is the profile, and the earlier one, as a tree from the first caller to the
// functions that ran. Calls of less than part of the larger profile's total are left out,
// with all that they call. The root has no name and is the whole.
func (v *View) Flame(part float64) Frame {
	root := new(callNode)
	v.grow(root, v.now, func(n *callNode) *float64 { return &n.now })
	total := root.now
	if v.before != nil {
		v.grow(root, v.before, func(n *callNode) *float64 { return &n.before })
		total = max(total, root.before)
	}
	return root.frame("", part*total, v.before != nil)
}

// callNode is a Frame that grows.
type callNode struct {
	now, before float64
	calls       map[string]*callNode
}

// grow adds a profile's samples, each to all that called it.
func (v *View) grow(root *callNode, p *profile.Profile, column func(*callNode) *float64) {
	for _, s := range p.Sample {
		value := v.value(p, s)
		at := root
		*column(at) += value
		for _, frame := range slices.Backward(frames(s)) {
			name := frame.Function.Name
			next := at.calls[name]
			if next == nil {
				next = new(callNode)
				if at.calls == nil {
					at.calls = make(map[string]*callNode)
				}
				at.calls[name] = next
			}
			at = next
			*column(at) += value
		}
	}
}

func (n *callNode) frame(name string, least float64, compared bool) Frame {
	f := Frame{Function: name, Value: n.now}
	if compared {
		f.Before = &n.before
	}
	for called, node := range n.calls {
		if max(node.now, node.before) >= least {
			f.Calls = append(f.Calls, node.frame(called, least, compared))
		}
	}
	slices.SortFunc(f.Calls, func(a, b Frame) int { return cmp.Compare(a.Function, b.Function) })
	return f
}
