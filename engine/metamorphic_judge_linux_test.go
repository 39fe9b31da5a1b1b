package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The judge compares what clients receive, why connections end, and what the server's
// budgets hold, with the model. Each violation belongs to a rule with a name.

// heard is what a client has received.
type heard struct {
	buffer []byte
	filled int // of buffer: bytes that are not judged yet

	answers, posts int // how many
	answered       int // 1 + the last request with a reply
	held           int // 1 + the last request after which a held post came
	refused        bool
	refusal        Reason
	word           bool
}

// space returns where to read to.
func (h *heard) space() []byte {
	if len(h.buffer)-h.filled < 4<<10 {
		h.buffer = append(h.buffer[:h.filled], make([]byte, max(16<<10, h.filled))...)
	}
	return h.buffer[h.filled:]
}

// hears judges n more bytes.
func (g *guest) hears(n int) {
	h := &g.heard
	h.filled += n
	rest := h.buffer[:h.filled]
	for len(rest) >= frameHead {
		f := frameOf(rest)
		whole := frameHead + int(f.size)
		if len(rest) < whole && f.size < 1<<20 {
			break
		}
		if whole > len(rest) || f.kind < anAnswer || f.kind > aPush || f.id != g.id && !(f.id == 0 && f.kind == aRefusal) ||
			bytes.Count(rest[frameHead:whole], filling(g.id, 1)) != int(f.size) {
			g.l.fail("bytes", "client %d received foreign or broken bytes: %+v, %.40q", g.id, f, rest)
			return
		}
		f.id = g.id
		g.mu.Lock()
		g.judge(f)
		g.mu.Unlock()
		rest = rest[whole:]
	}
	h.filled = copy(h.buffer, rest)
}

// judge judges a message to the client.
func (g *guest) judge(f frame) {
	h := &g.heard
	wrong := func(rule, format string, args ...any) {
		g.l.fail(rule, "client %d received %+v: %s; %s", g.id, f, fmt.Sprintf(format, args...), g.describe())
	}
	switch {
	case h.word:
		wrong("last", "it follows the words of End")
	case h.refused && f.kind == aPush:
		wrong("push after refusal", "the refusal (%v) came before", h.refusal)
	case h.refused && f.kind != aLate:
		wrong("last", "the refusal (%v) came before", h.refusal)
	}
	switch f.kind {
	case aLate, aPush:
		g.judgePost(f, wrong)
	default:
		g.judgeAnswer(f, wrong)
	}
	if f.kind == aRefusal {
		h.refused, h.refusal = true, Reason(f.seq)
	}
	h.word = h.word || f.kind == aWord
	if of := int(f.seq) + 1; f.kind == anAnswer || f.kind == aPart || f.kind == aLoan || f.kind == aLate && g.l.srv.ordered {
		switch {
		case of < h.answered:
			wrong("order", "request %d is answered already", h.answered-1)
		case (f.kind == anAnswer || f.kind == aPart) && of <= h.held:
			wrong("held", "a post that was held back until after this reply came before")
		}
		h.answered = of
	}
}

// judgeAnswer judges what a handler, Refuse or Conn.End has written.
func (g *guest) judgeAnswer(f frame, wrong func(rule, format string, args ...any)) {
	h, m := &g.heard, &g.model
	switch {
	case m.blind:
	case h.answers < len(m.answers) && m.answers[h.answers] == f:
		h.answers++
	case f.kind == aRefusal && (!m.exact || g.denied) && (m.causes | g.l.env).has(Reason(f.seq)):
	case f.kind == aWord && !m.exact && slices.Contains(m.words, f):
	case h.answers < len(m.answers):
		wrong("answers", "want %+v", m.answers[h.answers])
	default:
		wrong("answers", "want none")
	}
}

// judgePost judges a late reply or a push.
func (g *guest) judgePost(f frame, wrong func(rule, format string, args ...any)) {
	h := &g.heard
	for (h.refused || g.model.said) && h.posts < len(g.posts) && g.posts[h.posts].kind == aPush && f.kind == aLate {
		h.posts++ // dropped, because no push may follow a refusal
	}
	if h.posts == len(g.posts) {
		wrong("posts", "want none")
		return
	}
	want := g.posts[h.posts]
	if h.posts++; want.frame != f {
		wrong("posts", "want %+v", want.frame)
	}
	if want.held {
		h.held = int(want.at) + 1
	}
}

// missing says what the client has not received, or "".
func (g *guest) missing() string {
	h, m := &g.heard, &g.model
	if h.answers < len(m.answers) && !m.blind {
		return fmt.Sprintf("%d of %d answers received, next %+v", h.answers, len(m.answers), m.answers[h.answers])
	}
	for i, p := range g.posts[h.posts:] {
		if !(m.lossy || m.said && p.kind == aPush) {
			return fmt.Sprintf("%d of %d posts received, next %+v", h.posts, len(g.posts), g.posts[h.posts+i].frame)
		}
	}
	return ""
}

// describe returns the state of a connection. mu held.
func (g *guest) describe() string {
	var b strings.Builder
	m := &g.model
	fmt.Fprintf(&b, "%d asked, %d served (model %d), %d owed (%d), %d gates (%d), closed %d for %v (%v)", len(g.asked), g.served, m.served, len(g.owed), m.owed, g.entered, m.entered, g.closed, g.why, m.why)
	if g.l.isOver() {
		return b.String() // a lock may be held for ever
	}
	if k, ok := g.conn.lock(); ok {
		defer k.s.mu.Unlock()
		fmt.Fprintf(&b, "; why %v, phase %d, want %d, dead %v, drains %v", k.reason(), k.phase(), k.s.want, k.s.dead, k.s.own.has(drains))
		if x := k.x.Load(); x != nil {
			fmt.Fprintf(&b, ", goroutine %p of %p, unsent %d, listed %v, marks %b, goal %d, left %d, waiting %d, owed %d, blocked %v, queue %d, starves %v", x.g, k.sh.srv, len(g.unsent), k.s.marks.has(isDirty), k.s.marks, x.goal, x.left, x.waiting, x.promises.Open(), x.blocked.Load(), x.queue.Len(), x.starves())
		}
	}
	return b.String()
}

// gauge is a count that must be zero when everything is settled.
type gauge struct {
	rule string
	n    int64
}

// gauges returns the counts that must be zero while connections may be open.
func (l *playing) gauges() []gauge {
	s, st := l.srv, l.srv.Stats()
	p := s.places
	p.mu.Lock()
	displacing, excess, newcomers := p.displacing, p.excess, len(p.newcomers)
	p.mu.Unlock()
	c := &s.helpers
	c.mu.Lock()
	offLoop, line := c.offLoop, len(c.line)
	c.mu.Unlock()
	return []gauge{
		{"Owed", int64(st.Owed)}, {"Waiting", st.Waiting}, {"InLine", int64(st.InLine)}, {"Paused", int64(st.Paused)},
		{"requests.owed", s.requests.Owed()}, {"output.held", s.output.Held()}, {"output.trials", int64(s.output.Trials())},
		{"input.held", s.input.Held()}, {"displacing", int64(displacing)}, {"excess", int64(excess)}, {"newcomers", int64(newcomers)},
		{"helpers off loops", int64(offLoop)}, {"helpers in line", int64(line)}, {"helpers busy", int64(c.busy.Load())},
		{"contexts", l.contexts()},
	}
}

// nonzero returns the gauges that do not become zero, as text with the first one's rule.
func (l *playing) nonzero(gauges func() []gauge) (rule, text string) {
	soon := time.Now().Add(l.patience / 10)
	for round := 0; ; round++ {
		rule, text = "", ""
		for _, x := range gauges() {
			if x.n != 0 && !l.without[x.rule] {
				if rule == "" {
					rule = x.rule
				}
				text += fmt.Sprintf("%s %d, want 0; ", x.rule, x.n)
			}
		}
		if rule == "" || l.isOver() || time.Now().After(soon) || time.Now().After(l.deadline) {
			return rule, text
		}
		l.each((*guest).poll)
		if round%10 == 1 {
			l.srv.clock.SweepNow() // updates what is counted in batches
		}
		<-time.After(50 * time.Microsecond)
	}
}

// checkGauges checks that nothing is left while connections are open.
func (l *playing) checkGauges() {
	if rule, text := l.nonzero(l.gauges); rule != "" {
		l.fail(rule, "at a checkpoint, with %d connections open: %s", l.srv.Stats().Open, text)
	}
}

// contexts counts the contexts of handlers that are not cancelled.
func (l *playing) contexts() (n int64) {
	l.each(func(g *guest) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.contexts = slices.DeleteFunc(g.contexts, func(c context.Context) bool { return c.Err() != nil })
		n += int64(len(g.contexts))
	})
	return n
}

// checkEnd checks what remains of the connections, and of the server.
func (l *playing) checkEnd() {
	denied := uint64(0)
	l.each(func(g *guest) {
		if g.denied {
			denied++
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.checkEnd()
	})
	s := l.srv
	done := make(chan struct{})
	go func() { s.goroutines.Wait(); close(done) }()
	select {
	case <-done:
	case <-l.failed:
		return
	case <-time.After(time.Until(l.deadline)):
		l.fail("goroutines", "the server's goroutines have not ended")
	}
	rule, text := l.nonzero(func() []gauge {
		st := s.Stats()
		all := append(l.gauges(), gauge{"Open", int64(st.Open)}, gauge{"Helpers", int64(st.Helpers)}, gauge{"addresses", int64(s.addresses.Len())})
		if !l.failing.Load() {
			all = append(all, gauge{"Buffers", st.Buffers}, gauge{"Lent", st.Lent})
		}
		ended := -int64(st.Accepted + denied - l.unopened)
		for _, n := range st.Ended {
			ended += int64(n)
		}
		return append(all, gauge{"ended and accepted", ended})
	})
	if rule != "" {
		l.fail(rule, "after the end: %s", text)
	}
}

// checkEnd checks how the connection has ended. mu held.
func (g *guest) checkEnd() {
	m, why := &g.model, g.why
	allowed := m.causes
	if !m.exact {
		allowed |= g.l.env
	}
	switch {
	case g.closed != 1:
		g.l.fail("callbacks", "client %d: OnClose was called %d times", g.id, g.closed)
	case m.exact && why != m.why || !allowed.has(why):
		g.l.fail("reason", "client %d: ended for %v, the model says %v", g.id, why, m.why)
	case m.exact && !m.cut && g.missing() != "":
		g.l.fail("missing", "client %d: ended for %v with %s", g.id, why, g.missing())
	case why == PeerClosed && !g.gone && !m.cut && (len(g.asked) != g.served || g.missing() != "") && !g.cutShort:
		g.l.fail("missing", "client %d: ended for %v with %d of %d served and %s", g.id, why, g.served, len(g.asked), g.missing())
	case g.farewells != 1 && g.tongue >= endsWell:
		g.l.fail("Ended", "client %d: Ended was called %d times", g.id, g.farewells)
	}
	for _, r := range g.revoked {
		if err := r.Send(filling(g.id, 1)); err != ErrClosed && err != ErrSettled {
			g.l.fail("settled", "client %d: a revoked promise was sent: %v", g.id, err)
		}
	}
	if err := g.conn.Push(filling(g.id, 1)); err != ErrClosed {
		g.l.fail("settled", "client %d: Push after the end returned %v", g.id, err)
	}
}
