package probe

import (
	"cmp"
	"slices"

	"github.com/google/pprof/profile"
)

// Frame is a call in a flame graph, with the cost of the function including its callees
// there.
type Frame struct {
	Function string
	Value    float64
	Before   *float64 // nil: no earlier profile
	Calls    []Frame  // by name
}

// Flame returns the profile, and the earlier one, as a tree from the first caller to the
// leaves. Calls below part of the larger profile's total are left out, with their
// callees. The root has no name and is the whole.
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

// callNode is a Frame under construction.
type callNode struct {
	now, before float64
	calls       map[string]*callNode
}

// grow adds a profile's samples to all their callers.
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
