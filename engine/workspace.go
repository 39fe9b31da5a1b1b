package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/pool"
)

// workspace is the scratch memory of a goroutine that serves connections: of a loop, of a helper, or of
// one connection.
type workspace struct {
	turn  Turn
	in    []byte         // read buffer
	fed   []byte         // read buffer for TLS, nil until first used
	box   input.Buffer   // the input being served
	ref   connRef        // the connection being served, for the turn
	g     *goroutineConn // the same, on a goroutine engine
	visit uint64         // the loop's number of the visit
	out   pool.Buffer    // the buffer behind turn.Out, where a connection owns the workspace
	size  int            // bytes of the last output in it
	// offLoop is set when the goroutine runs no loop, or no longer: the watchdog has taken
	// it away.
	offLoop bool
}

// dropBuffers drops memory to which user code may still refer after a panic. Unsent
// output is copied: it may have to wait for a slow peer, in a buffer that others use
// next.
func (d *workspace) dropBuffers() {
	d.turn.Out = append([]byte(nil), d.turn.Out...)
	d.loseBuffers()
	d.in, d.out = make([]byte, len(d.in)), pool.Buffer{}
	if d.g != nil {
		d.box.Lend(&d.ref.sh.srv.input, d.in)
	}
}

func (d *workspace) loseBuffers() {
	d.box.Lose(&d.ref.sh.srv.input)
	if d.out.Lent() {
		d.out.Drop()
	}
}

const (
	maxPooled = 128 << 10 // largest buffer that a workspace keeps
	maxShared = 1 << 20   // largest buffer that is reused for another connection
	keepOut   = 4 << 10   // largest output buffer that an idle connection keeps
)

// lendOut gives a connection's own workspace an output buffer.
func (d *workspace) lendOut() {
	if buffers := &d.ref.sh.srv.buffers; !d.out.Lent() {
		d.out = buffers.Get(max(d.size, 1))
		d.turn.Out = d.out.Bytes()[:0]
	}
}

// returnOut releases the buffer if it is too large to keep while idle.
func (d *workspace) returnOut() {
	if d.out.Lent() && cap(d.turn.Out) > keepOut {
		d.out.Release() // not what append made of it, to which a protocol may still refer
		d.out, d.turn.Out = pool.Buffer{}, nil
	}
}

// release releases the buffers of a connection's own workspace when it has ended.
func (d *workspace) release(why Reason) {
	if why == 0 || why == Panicked { // user code may still refer to them
		d.loseBuffers()
		return
	}
	d.box.Forget(&d.ref.sh.srv.input)
	if d.out.Lent() {
		d.out.Release()
	}
}

// streamRead is the read size of a visit after it has waited: there may be thousands of
// them, and most wait.
const streamRead = 16 << 10

// slim replaces a large read buffer by one of that size, before a wait, and before a
// visit leaves its loop: the loop's next runner needs a large one. A connection's own
// buffer stays.
func (d *workspace) slim(size int) {
	if len(d.in) <= streamRead || d.g != nil {
		return
	}
	srv := d.ref.sh.srv
	d.box.GiveBack(&srv.input)
	srv.workspaces.Put(&workspace{in: d.in, fed: d.fed})
	d.in, d.fed = make([]byte, size), nil
	d.box.Lend(&srv.input, d.in)
}

// freeInput frees the visit's read buffer if More has returned all that was read.
func (t *Turn) freeInput() {
	if t.moved && t.d.box.Len() == 0 {
		t.d.slim(helperRead)
	}
}

// loopRead is the read size of a loop, and helperRead that of a helper: there may be many
// of those.
const (
	loopRead   = 64 << 10
	helperRead = 4 << 10
)

// unpack moves kept input to where it can be served.
func (k owner) unpack(d *workspace) {
	d.box.Use(d.in)
	if x := k.x.Load(); x != nil && x.in.Len() > 0 {
		d.box, x.in = x.in, input.Buffer{}
		d.box.Lend(&k.sh.srv.input, d.in)
	}
}

// pack keeps unserved input, and clears the workspace for the next connection.
func (k owner) pack(d *workspace) {
	if x := k.x.Load(); x != nil || d.box.Len() > 0 || d.box.IsKept() {
		k.packInput(d, x)
	}
	d.box = input.Buffer{}
}

// packInput is pack where there may be input to keep.
func (k owner) packInput(d *workspace, x *inflight) {
	memory := &k.sh.srv.input
	if d.box.Len() > 0 && !k.holdsTooMuch(&d.box) {
		d.box.GiveBack(memory)
		x = k.attachUnlocked()
		x.in = d.box
	} else if d.box.IsKept() {
		d.box.Forget(memory)
	}
	if x != nil {
		x.noteInput(&d.box)
	}
}
