package engine

import "github.com/hone-go/hone/pool"

// workspace is what a goroutine needs that serves connections: the loops and the
// goroutines beside them, Direct and Buffered connections own one; Parked ones
// borrow it while bytes are in flight.
type workspace struct {
	turn  Turn
	in    []byte         // to read into
	box   inputBuffer    // the input that is served
	ref   connRef        // the connection that is served, for the turn
	g     *goroutineConn // the same, on a goroutine engine
	visit uint64         // the loop's number of the visit
	out   pool.Buffer    // what turn.Out was lent, where a connection owns the workspace
	size  int            // of the last output there
	// beside says that the goroutine runs no loop, or no longer: the watchdog has
	// taken it away.
	beside bool
}

// dropBuffers forgets memory that a panic has left in somebody else's hands. What is to be
// written is copied: it may have to wait for a slow peer, in a buffer that others use
// next.
func (d *workspace) dropBuffers() {
	d.turn.Out = append([]byte(nil), d.turn.Out...)
	memory := &d.ref.sh.srv.input
	d.box.lose(memory)
	d.in, d.out = make([]byte, len(d.in)), pool.Buffer{}
	if d.g != nil && !d.g.borrows() {
		d.box.lend(memory, d.in)
	}
}

const (
	maxPooled = 128 << 10 // the largest buffer that a workspace keeps
	maxShared = 1 << 20   // the largest that is used again for another connection
	keepOut   = 4 << 10   // the output buffer that an idle connection may keep
)

// lendOut gives a connection's own workspace something to write on.
func (d *workspace) lendOut() {
	if buffers := &d.ref.sh.srv.buffers; !d.g.borrows() && !d.out.Lent() {
		d.out = buffers.Get(max(d.size, 1))
		d.turn.Out = d.out.Bytes()[:0]
	}
}

// returnOut takes it back when it has become too large to keep while nothing
// happens.
func (d *workspace) returnOut() {
	if d.out.Lent() && cap(d.turn.Out) > keepOut {
		d.out.Release() // and not what append made of it, which a protocol may have sliced
		d.out, d.turn.Out = pool.Buffer{}, nil
	}
}
