package http1

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// LateAnswer is the answer to a request whose handler has called Later. Whoever has it calls Send once,
// from any goroutine, also after the request's context has ended: what waits for it waits until then.
type LateAnswer struct {
	server   *Server
	reply    engine.Reply
	header   http.Header
	form     *multipart.Form
	deadline time.Time
	head     bool  // the request is a HEAD
	closes   bool  // the connection closes after the answer
	wait     *wait // nil: no handler waits for it

	mu     sync.Mutex
	sent   bool
	status int
	size   int64
	told   []func(status int, body int64)
}

// wait is what a handler waits for.
type wait struct {
	over chan struct{}
	body []byte
}

// Later has a handler return before its request is answered: Later calls start with the answer to send,
// and the handler returns as soon as Later has. Until Send, the connection costs a few hundred bytes and
// no goroutine; the requests behind this one wait, and the context, Std.WriteTimeout and Std.ConnState
// go on as if the handler had not returned. The request's memory is freed unless somebody keeps it, and
// its body is closed. The handler must not use w any more, and return soon: the answer waits for that.
//
// On loan, as for HTTP/2 and bodies that are chunked or longer than 48 KiB, on a net/http.Server, and if
// w is a wrapper without an Unwrap method, the handler waits inside Later until Send, and Later writes
// the answer to w. Stats.LateHandlers counts those on loan.
//
// Later fails, without having called start, if a part of the answer was written before.
func Later(w http.ResponseWriter, r *http.Request, start func(*LateAnswer)) error {
	if of := fastPath(w); of != nil {
		l, err := of.later()
		if err == nil {
			start(l)
		}
		return err
	}
	if lent, ok := r.Context().Value(loanKey{}).(*loan); ok {
		lent.lender.waiting.Add(1)
		defer lent.lender.waiting.Add(-1)
	}
	l := &LateAnswer{header: w.Header(), wait: &wait{over: make(chan struct{})}}
	start(l)
	<-l.wait.over
	if r.Method != http.MethodHead {
		l.header.Del("Content-Length")
	}
	if len(l.wait.body) > beforeChunking && bodyAllowed(l.status) {
		l.header.Set("Content-Length", strconv.Itoa(len(l.wait.body)))
	}
	w.WriteHeader(l.status)
	if bodyAllowed(l.status) {
		w.Write(l.wait.body) // it fails only if the client has disconnected
	}
	return nil
}

// AnswersLater is for access logs and metrics around a handler. It reports whether the handler, which has
// just returned, has promised an answer by Later: then told is called when Send is. Otherwise the answer
// is complete, as usual.
func AnswersLater(w http.ResponseWriter, told func(status int, body int64)) bool {
	of := fastPath(w)
	if of == nil || of.late == nil {
		return false
	}
	l := of.late
	l.mu.Lock()
	sent := l.sent
	l.told = append(l.told, told)
	l.mu.Unlock()
	if sent {
		told(l.status, l.size)
	}
	return true
}

// later makes the request's answer a late one.
func (w *response) later() (*LateAnswer, error) {
	a := w.begin()
	defer w.mu.Unlock()
	switch {
	case a.hijacked:
		return nil, http.ErrHijacked
	case a.wroteHeader || a.flushes > 0:
		return nil, errors.New("http1: Later after a part of the answer was written")
	case a.err != nil:
		return nil, a.err
	}
	l := &LateAnswer{
		server: w.server, header: a.header, form: w.req.MultipartForm, deadline: a.deadline,
		head: w.req.Method == http.MethodHead, closes: a.wantsClose || a.overLimit(),
	}
	l.reply = a.turn.LaterInOrder()
	a.turn.State |= stateOwed
	a.hijacked, a.switched = true, true
	w.contextMu.Lock()
	w.late = l
	w.contextMu.Unlock()
	return l, nil
}

// Header returns the header that Send sends, with what was in that of w. Only one goroutine at a time
// may use it, and none after Send.
func (l *LateAnswer) Header() http.Header {
	if l.header == nil {
		l.header = make(http.Header)
	}
	return l.header
}

// Send sends the answer, with its length; it copies body. It does not wait for the client. The error
// says that the client cannot get it: because the connection has ended, Std.WriteTimeout is over or an
// answer was sent before. Send panics if the status is below 200 or above 999.
func (l *LateAnswer) Send(status int, body []byte) error {
	if status < 200 || status > 999 {
		panic(fmt.Sprintf("http1: invalid status %d of a late answer", status))
	}
	l.mu.Lock()
	if l.sent {
		l.mu.Unlock()
		return engine.ErrSettled
	}
	l.sent, l.status, l.size = true, status, int64(len(body))
	all := l.told
	l.mu.Unlock()
	if l.wait != nil {
		l.wait.body = bytes.Clone(body)
		close(l.wait.over)
		return nil
	}
	err := l.post(body)
	for _, told := range all {
		told(status, l.size)
	}
	return err
}

// post writes the answer and queues it on its connection.
func (l *LateAnswer) post(body []byte) error {
	p, conn := &l.server.protocol, l.reply.Conn()
	v := p.visit()
	a := &v.answer
	a.turn, a.protocol, a.req, a.header, a.deadline = &v.late, p, &v.asked, l.header, l.deadline
	a.declared, a.wantsClose, a.whole, a.ended = -1, l.closes || l.server.lastAnswer(conn), true, true
	if v.asked.Method = http.MethodHead; !l.head {
		v.asked.Method = http.MethodGet // as good as any other
		delete(l.header, "Content-Length")
	}
	v.asked.MultipartForm = l.form
	if a.writeHeader(l.status); bodyAllowed(l.status) {
		a.written = l.size
		a.write(body)
	}
	err, out := a.finish(), v.late.Out
	switch {
	case err == nil:
		if l.server.hooks.state != nil {
			l.server.tellOf(conn, http.StateIdle)
		}
		err = l.reply.Send(out)
	case len(out) > 0: // it is the connection's last
		err = conn.End(engine.ClosedHere, out)
		l.reply.Send()
	default: // too late
		err = os.ErrDeadlineExceeded
		conn.Close(engine.ClosedHere)
		l.reply.Send()
	}
	a.reset()
	if v.asked, v.late.Out = (http.Request{}), out[:0]; cap(out) > flushAt {
		v.late.Out = nil
	}
	p.visits.Put(v)
	return err
}
