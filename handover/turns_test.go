package handover

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

// The model below is everything that can happen between processes that share a path: each message and each death
// between any two steps. It is small enough to visit every state.

type place uint8 // where a modelled process is

const (
	absent  place = iota
	queued        // it has connected, and nobody has accepted yet
	waits         // for the answer to its first message
	accepts       // it has the sockets and has not said that it is ready
	said          // that it is
	owns
	left // it was replaced, or shuts down
	gone // it has died, or given up
)

// modelled is a process with its connection to another.
type modelled struct {
	at     place
	holder holder
	to     int8  // whom it asks
	in     uint8 // what it has been told and has not read
	ready  bool  // its word is on its way
	hungUp bool  // the other end has closed the connection
}

// What a process has been told, as bits; it reads them in this order.
const (
	sockets uint8 = 1 << iota
	takesOver
	refusal
	misled // refused by one that does not serve on
)

type world [3]modelled

// has reports whether a process has the sockets, maybe in a message that it has not read.
func (w world) has(i int) bool {
	return w[i].at >= accepts && w[i].at <= owns || w[i].at == waits && w[i].in&sockets != 0
}

// listening reports whether a process has the socket at the path.
func (w world) listening() bool { return w.has(0) || w.has(1) || w.has(2) }

// end ends a process: its connections close.
func (w *world) end(i int, at place) {
	w[i].at = at
	for j := range w {
		if p := w[j].at; int(w[j].to) == i && p >= waits && p <= said {
			w[j].hungUp = true
		}
	}
	for j := range w {
		if w[j].at == queued && !w.listening() {
			w[j].hungUp = true
		}
	}
}

// steps calls visit with every world that can follow.
func (w world) steps(visit func(what string, next world)) {
	for i := range w {
		do := func(what string, change func(n *world)) {
			n := w
			change(&n)
			visit(fmt.Sprintf("%d %s", i, what), n)
		}
		p := w[i]
		if p.at != absent && p.at != gone {
			do("dies", func(n *world) { n.end(i, gone) })
		}
		switch p.at {
		case absent:
			do("connects", func(n *world) { n.connect(i) })
		case accepts:
			do("says ready", func(n *world) { n[i].at, n[i].ready = said, true })
		case owns:
			do("shuts down", func(n *world) { n[i].holder.left = true; n.end(i, left) })
			for j := range w {
				w.serves(i, j, do)
			}
		case left:
			for j := range w {
				if w[j].at == queued && !w[j].hungUp {
					w.answers(i, j, do) // had accepted it before
				}
			}
		}
		if p.at == waits || p.at == said || p.at == queued && p.hungUp {
			w.reads(i, do)
		}
	}
}

// connect is what Take does.
func (w *world) connect(i int) {
	w[i].in, w[i].ready, w[i].hungUp, w[i].to = 0, false, false, -1
	w[i].at = queued
	if again, err := next(false, syscall.ECONNREFUSED); !w.listening() && !again && err == nil {
		w[i].at = owns
	}
}

// serves are the steps of the process i that has the sockets with j.
func (w world) serves(i, j int, do func(string, func(*world))) {
	mine := w[j].to == int8(i) && w[j].at != queued
	switch {
	case w[j].at == queued && !w[j].hungUp:
		w.answers(i, j, do)
	case mine && w[j].ready && w[i].holder.heir == j+1:
		do(fmt.Sprint("hears that ready is ", j), func(n *world) {
			if n[j].ready = false; n[j].at == said {
				n[j].in |= takesOver
				n[i].holder.left = true
				n.end(i, left)
			} else {
				n[i].holder.heir = 0
			}
		})
	}
	if mine && w[i].holder.heir == j+1 { // too late, or it is seen to be dead
		do(fmt.Sprint("gives up ", j), func(n *world) {
			n[i].holder.heir = 0
			n[j].in |= refusal
			n[j].hungUp = true
		})
	}
}

// answers is what i does with the first message of j.
func (w world) answers(i, j int, do func(string, func(*world))) {
	do(fmt.Sprint("answers ", j), func(n *world) {
		n[j].at, n[j].to = waits, int8(i)
		gives, why := n[i].holder.asked(j+1, true)
		if gives {
			n[j].in |= sockets
		} else if n[j].hungUp = true; why != "" {
			n[j].in |= refusal
		}
		if (gives || why != "") && n[i].at != owns {
			n[j].in |= misled
		}
	})
}

// reads is what a new process does with what it was told.
func (w world) reads(i int, do func(string, func(*world))) {
	err, took, p := error(nil), uint8(0), w[i]
	switch in := w[i].in; {
	case in&sockets != 0:
		took = sockets
	case in&takesOver != 0:
		took = takesOver
	case in&refusal != 0:
		err, took = errors.New("refused"), refusal
	case w[i].hungUp:
		err = io.EOF
	default:
		return
	}
	do("reads", func(n *world) {
		n[i].in &^= took
		switch again, err := next(p.at == said, err); {
		case again:
			n.connect(i)
		case err != nil:
			n.end(i, gone)
		case p.at == said:
			n[i].at, n[i].ready = owns, false
		default:
			n[i].at = accepts
		}
	})
}

// broken returns which invariant a world violates.
func (w world) broken(last bool) string {
	owners, alive := 0, 0
	for _, p := range w {
		if p.at == owns {
			owners++
		}
		if p.at != absent && p.at != gone && p.at != left {
			alive++
		}
		if p.in&misled != 0 {
			return "answered by one that has left"
		}
	}
	switch {
	case owners > 1:
		return "two processes own the sockets"
	case last && alive > 0 && owners != 1:
		return "nobody owns the sockets, although somebody lives"
	}
	return ""
}

// TestEveryOrderOfDeaths: whatever happens in whichever order, nobody gives up but for one that serves on, and whoever
// is alive at the end has one owner of the sockets.
func TestEveryOrderOfDeaths(t *testing.T) {
	begin := world{{at: owns, to: -1}, {to: -1}, {to: -1}}
	seen, queue := map[world]bool{begin: true}, []world{begin}
	for len(queue) > 0 {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		last := true
		w.steps(func(what string, next world) {
			for i := range w {
				gaveUp := w[i].at == waits || w[i].at == said
				if gaveUp && next[i].at == gone && what == fmt.Sprint(i, " reads") && w[i].in&refusal == 0 {
					t.Fatalf("%s and gives up, although nobody refuses it: %+v", what, w)
				}
			}
			if voluntary := what[2:] == "dies" || what[2:] == "shuts down"; !voluntary {
				last = false
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		})
		if broken := w.broken(last); broken != "" {
			t.Fatalf("%s: %+v", broken, w)
		}
	}
	t.Log(len(seen), "worlds")
	if len(seen) < 1000 {
		t.Error("the model is too small")
	}
}
