package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// What the driver does for one client.

// note changes what the server's side knows, and tells the driver.
func (g *guest) note(change func()) {
	g.mu.Lock()
	change()
	g.mu.Unlock()
	g.l.events.Add(1)
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// await waits until ok, which is called with g.mu held. Meanwhile the client reads.
func (g *guest) await(what string, ok func() bool) {
	for {
		g.mu.Lock()
		wasOpen := g.isOpen // before exists looks: OnOpen may come in between
		g.mu.Unlock()
		exists, _ := g.exists()
		g.mu.Lock()
		done, lost := ok(), wasOpen && !exists && g.closed == 0
		g.mu.Unlock()
		switch {
		case done || g.l.isOver():
			return
		case lost:
			g.l.fail("callbacks", "client %d: the connection has ended without OnClose", g.id)
		case time.Now().After(g.l.deadline):
			g.stuck(what)
		}
		g.l.timer.Reset(time.Millisecond)
		select {
		case <-g.changed:
		case <-g.l.timer.C:
			g.poll()
			g.l.srv.clock.SweepNow() // a first visit may wait until sweeps find that none returns
		}
	}
}

// exists reports whether the server still has the connection, and whether that ends.
func (g *guest) exists() (exists, ends bool) {
	g.mu.Lock()
	c := g.conn // OnOpen sets it
	g.mu.Unlock()
	k, ok := c.lock()
	if ok {
		defer k.s.mu.Unlock()
		ends = k.reason() != 0
	}
	return ok, ends
}

// stuck records that something does not happen, with what the server's goroutines do.
func (g *guest) stuck(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	g.l.fail("stuck", "client %d waits for %s: %s\n%s", g.id, what, g.describe(), serverStacks(stacks))
}

// serverStacks returns the goroutines that are in the engine's code: loops, helpers, connections and what accepts.
func serverStacks(all []byte) []byte {
	var of [][]byte
	for _, one := range bytes.Split(all, []byte("\n\n")) {
		for _, in := range []string{"goroutineConn)", "flusher)", "connRef)", "loop)", "helpers)", "Server)", "owner."} {
			if bytes.Contains(one, []byte("engine.(*"+in)) || bytes.Contains(one, []byte("engine."+in)) {
				of = append(of, one)
				break
			}
		}
	}
	return bytes.Join(of, []byte("\n\n"))
}

// do makes a move of one client, or with its connection.
func (g *guest) do(m move) {
	if g.catchUp(); g.l.isOver() {
		return
	}
	f, down := &g.model, g.l.down != nil
	switch m.do {
	case "deaf", "hear":
		g.deaf = m.do == "deaf"
	case "send":
		if !g.gone && !g.eof && !f.shut && f.why == 0 && !f.draining && !f.mayDrain && !down {
			g.send(m)
		}
	case "rest":
		g.sendRest()
	case "settle":
		g.settleOne(m)
	case "settle all":
		g.settleAll(m)
	case "push":
		alive := f.exact && f.why == 0 && f.loan == nil && !f.drains && f.served > f.lent
		if err := g.push(g.fitting(m.size), nil); err != nil && alive {
			g.l.fail("posts", "client %d: Push returned %v", g.id, err)
		}
	case "release":
		g.release()
	case "close", "end":
		g.endHere(m)
	case "shut":
		if !g.gone && !f.shut {
			g.shut()
		}
	case "leave", "reset":
		if !g.gone && !g.eof {
			g.leave(m.do == "reset")
		}
	default:
		panic("unknown move: " + m.do)
	}
}

// fitting bounds what is posted to a connection whose output may be held back: above
// Limits.HardCap it would end.
func (g *guest) fitting(size int) int {
	if g.model.exact && !g.model.atRest() {
		return min(size, 4<<10)
	}
	return size
}

// send sends requests, except for the last bytes of the last one.
func (g *guest) send(m move) {
	waiting := 0
	for _, a := range g.model.pending {
		waiting += a.body + a.tail
	}
	if g.sendRest(); len(g.unsent) > 0 || waiting > 64<<10 {
		return
	}
	var all []asked
	var text []byte
	for i := range m.asks {
		a := asked{&m.asks[i], uint16(len(g.asked) + i)}
		all = append(all, a)
		text = append(text, a.encode(g.id)...)
	}
	back := min(m.back, requestHead+all[len(all)-1].body+all[len(all)-1].tail-1)
	g.note(func() { g.asked = append(g.asked, all...) })
	g.model.sent(all, back)
	g.back = text[len(text)-back:]
	text = text[:len(text)-back]
	for cut := max(m.cut, len(text)/16); m.cut > 0 && len(text) > cut && len(g.unsent) == 0; text = text[cut:] {
		g.write(text[:cut:cut])
	}
	g.write(text)
}

// sendRest sends what was kept back. In a drain only a handler may still wait for it.
func (g *guest) sendRest() {
	f := &g.model
	switch drains := f.draining || f.mayDrain || g.l.down != nil; {
	case len(g.back) == 0 || g.gone || g.eof:
	case drains && f.blind && !g.runs():
		g.cutShort = true
		return // a handler may still begin
	case drains && f.now == nil && !f.blind:
		g.cutShort = true
	default:
		f.missing = 0
		f.advance()
		g.write(g.back)
	}
	g.back = nil
}

// runs reports whether a handler runs.
func (g *guest) runs() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running > 0
}

// write sends what the socket accepts, and keeps the rest.
func (g *guest) write(p []byte) {
	g.unsent = append(g.unsent, g.seal(p)...)
	for len(g.unsent) > 0 {
		n, err := 0, error(nil)
		if outer := g.raw.Write(func(fd uintptr) bool { n, err = syscall.Write(int(fd), g.unsent); return true }); outer != nil {
			err = outer
		}
		if err != nil {
			if err != syscall.EAGAIN {
				g.unsent = nil // the connection has ended
			}
			break
		}
		if g.tls == nil {
			g.written.Add(int64(n))
		}
		g.unsent = g.unsent[n:]
	}
	if len(g.unsent) > 0 && g.model.exact {
		g.l.fail("harness", "client %d: a socket is full", g.id)
	}
}

// settleOne sends one of the owed replies, if there is one.
func (g *guest) settleOne(m move) bool {
	var target debt
	g.mu.Lock()
	owed := len(g.owed)
	if owed > 0 {
		target = g.owed[m.n%owed]
	}
	g.mu.Unlock()
	if g.model.exact && !g.model.over() && owed != g.model.owed {
		g.l.fail("promises", "client %d: %d replies are owed, the model has %d", g.id, owed, g.model.owed)
	} else if owed > 0 {
		seq, err := g.settle(func(p debt) bool { return p == target }, g.fitting(m.size), nil)
		g.sent(seq, err)
	}
	return owed > 0
}

// sent tells the model of a late reply.
func (g *guest) sent(seq uint16, err error) {
	if f := &g.model; f.exact && !f.over() {
		if err != nil {
			g.l.fail("promises", "client %d: Send for request %d returned %v", g.id, seq, err)
		}
		f.settled(seq)
	}
}

// settleAll sends all owed replies with one call.
func (g *guest) settleAll(m move) {
	var all []debt
	errs := map[int]error{}
	g.note(func() {
		var replies []Reply
		var out []byte
		var ends []int
		all, g.owed = g.owed, nil
		size := g.fitting(m.size) / max(1, len(all))
		frames := make([]frame, len(all))
		for i, p := range all {
			frames[i] = frame{kind: aLate, id: g.id, seq: p.seq, part: p.part, size: uint32(size)}
			replies, out = append(replies, p.reply), append(out, frames[i].bytes()...)
			ends = append(ends, len(out))
		}
		sent := g.conn.SendAll(replies, out, ends, func(i int, err error) { errs[i] = err })
		if sent+len(errs) != len(all) {
			g.l.fail("settled", "client %d: SendAll reports %d sent and %d failed, of %d", g.id, sent, len(errs), len(all))
		}
		for i, f := range frames {
			g.post(f, nil, errs[i])
		}
	})
	for i, p := range all {
		g.sent(p.seq, errs[i])
	}
}

// release opens the gate at which a handler waits.
func (g *guest) release() (released bool) {
	g.mu.Lock()
	waits := g.entered > g.passed+len(g.permits)
	g.mu.Unlock()
	if g.model.exact {
		if waits = g.model.gate; waits {
			g.model.released()
		}
	}
	if waits {
		g.permits <- struct{}{}
	}
	return waits
}

// endHere ends the connection from outside of its handlers.
func (g *guest) endHere(m move) {
	f, why := &g.model, closeReasons[m.n]
	if f.exact && (f.now != nil || f.loan != nil || f.why != 0 || f.shut || f.draining || f.served == f.lent) {
		f.loosen()
	}
	switch {
	case m.do == "end":
		why = closeReasons[m.n%2]
		words := frame{kind: aWord, id: g.id, seq: ^uint16(0), size: uint32(m.size)}
		if err := g.conn.End(why, words.bytes()); err == nil {
			f.words = append(f.words, words)
		} else if f.exact {
			g.l.fail("posts", "client %d: End returned %v", g.id, err)
		}
	default:
		g.conn.Close(why)
	}
	f.causes.add(why)
	switch {
	case why == ShuttingDown:
		f.drain()
	case f.exact:
		f.fail(why)
		f.advance()
	}
}

// shut closes the client's sending side.
func (g *guest) shut() {
	f := &g.model
	if !g.goodbye() {
		g.leave(true)
		return
	}
	if f.draining && f.why == 0 || f.loan != nil {
		f.loosen()
	}
	g.cutShort = g.cutShort || len(g.back)+len(g.unsent) > 0
	g.back, g.unsent, f.shut = nil, nil, true
	f.causes.add(PeerClosed)
	f.advance()
	g.nc.(interface{ CloseWrite() error }).CloseWrite()
}

// leave closes the client's connection.
func (g *guest) leave(hard bool) {
	g.model.loosen(PeerClosed, PeerReset)
	if !hard {
		g.goodbye()
	}
	g.gone, g.back, g.unsent = true, nil, nil
	if tcp, ok := g.nc.(*net.TCPConn); ok && hard {
		tcp.SetLinger(0)
	}
	g.nc.Close()
}

// catchUp waits until the server has done what the model predicts, and the client has
// read it. Without predictions it reads what there is.
func (g *guest) catchUp() {
	f := &g.model
	if !f.exact || g.denied {
		g.poll()
		return
	}
	for f.now == nil && g.heard.answers < len(f.answers) && g.read() {
	}
	if !f.over() {
		g.await("its handlers", func() bool { return g.served >= f.served && g.entered >= f.entered })
	}
	for f.now == nil && !f.over() && g.lacks() && g.read() {
	}
	if f.over() {
		for g.read() {
		}
		g.await("OnClose", func() bool { return g.closed > 0 })
	}
	if g.eof && !f.over() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.l.fail("end", "client %d: the connection has ended early, for %v, with %v", g.id, g.why, g.missing())
	}
}

// lacks reports whether the client has not received yet what it must.
func (g *guest) lacks() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heard.answers < len(g.model.answers) || g.heard.posts < len(g.posts) && !g.model.said && !g.model.lossy
}

// rests waits until the connection waits for what the model says: before the clock
// advances.
func (g *guest) rests() {
	g.catchUp()
	m := &g.model
	rests := func() bool {
		k, ok := g.conn.lock()
		if !ok {
			return true
		}
		defer k.s.mu.Unlock()
		x := k.x.Load()
		switch {
		case m.why != 0 || m.vague:
			return true
		case m.gate: // a goroutine may be about to write a push
			return x == nil || x.g == nil || x.stall.Load() == 0 && !x.writing && x.queue.Waits()
		}
		read := x != nil && x.g != nil && x.g.Raw == nil || k.link().Unread() == 0
		switch {
		case x == nil:
			return read && m.partial == 0
		case m.now != nil && m.partial == 0:
			return x.stall.Load() == 0
		case m.loan != nil || len(m.pending) > 0 && m.partial == 0:
			return k.s.marks.has(isWaiting)
		}
		return read && (m.partial != 0) == (x.frame.Began() != 0) && x.stall.Load() == 0 && (m.now != nil || x.unwritten())
	}
	for g.model.exact && !rests() && !g.l.isOver() {
		if time.Now().After(g.l.deadline) {
			g.stuck("rest")
		}
		<-time.After(50 * time.Microsecond)
		g.poll()
	}
}

// read waits for bytes, and reports whether there were any.
func (g *guest) read() bool {
	if g.eof || g.l.isOver() {
		return false
	}
	n, err := g.take(g.nc.Read)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.stuck(fmt.Sprintf("%v", g.missing()))
		return false
	}
	g.received(n, err)
	return !g.eof
}

// poll reads and writes without waiting.
func (g *guest) poll() {
	if len(g.unsent) > 0 && !g.gone {
		g.write(nil)
	}
	for !g.deaf && !g.gone && !g.eof && !g.l.isOver() {
		n, err := g.take(g.readNow)
		if err == syscall.EAGAIN {
			return
		}
		g.received(max(n, 0), err)
	}
}

// readNow reads what there is.
func (g *guest) readNow(p []byte) (n int, err error) {
	if outer := g.raw.Read(func(fd uintptr) bool { n, err = syscall.Read(int(fd), p); return true }); outer != nil {
		err = outer
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// received passes bytes to the judge. At the end the client closes, as most do.
func (g *guest) received(n int, err error) {
	g.hears(n)
	if err != nil {
		g.eof = true
		if err == errNoGoodbye && g.model.exact && !g.model.cut {
			g.l.fail("close_notify", "client %d: %v", g.id, err)
		}
		g.nc.Close()
	}
}

// endsWithin reports whether the connection begins to end soon.
func (g *guest) endsWithin(soon time.Duration) bool {
	for until := time.Now().Add(soon); ; <-time.After(50 * time.Microsecond) {
		exists, ends := g.exists()
		if done := !exists || ends && !g.model.cut; done || time.Now().After(until) {
			return done
		}
	}
}

// isQuiet reports whether the connection has ended, or waits for requests only.
func (g *guest) isQuiet() bool {
	exists, ends := g.exists()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch f := &g.model; {
	case g.denied:
		return g.eof || g.gone
	case g.closed > 0:
		return g.gone || g.eof
	case !exists:
		g.l.fail("callbacks", "client %d: the connection has ended without OnClose", g.id)
		return false
	case g.gone, g.eof, f.shut, f.over(), ends, g.l.down != nil:
		return false
	case f.exact:
		return f.atRest() && f.why == 0
	default:
		return len(g.unsent) == 0 && g.served == len(g.asked) && len(g.owed) == 0 && g.entered == g.passed && g.running == 0 && g.missing() == ""
	}
}
