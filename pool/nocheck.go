//go:build !poolcheck

package pool

// checking is false, so the compiler removes everything below.
const checking = false

type trace struct{}

func (trace) history() string   { return "" }
func (t trace) ended(m *memory) { m.trace = t }
func (trace) moved(*memory)     {}
func (*trace) lent(*memory)     {}

type bufferCheck struct{}

func (bufferCheck) swap(m *memory, _ *Buffers) *memory { return m }

type objectCheck[T any] struct{}

func (objectCheck[T]) lent(*T, func(Finding)) {}
func (objectCheck[T]) back(*T, func(Finding)) {}
func (objectCheck[T]) dropped(*T, *bool)      {}

func checkAbsent[T any]([]*T, *T) {}
