package websocket

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/hone-go/hone/engine"
)

// upgrade is a request that may become a connection.
type upgrade struct {
	upgrader  *Upgrader
	handshake handshake
	request   *http.Request
	header    http.Header // of the response, as set by middleware
}

// protocol is what the connection speaks from its next visit on.
func (up *upgrade) protocol() *protocol { return &up.upgrader.protocols[up.handshake.window] }

// answer lets Open accept or refuse the connection, and answers the request. The connection
// already speaks up.protocol().
func (up *upgrade) answer(t *engine.Turn) {
	t.Hold() // nothing may be sent before the response
	if open := up.upgrader.Open; open != nil {
		if err := open(Conn{t.Conn(), up.protocol()}, up.request); err != nil {
			t.Out = appendRefusal(t.Out, refusalOf(err))
			t.State = stateOver | stateRefused
			return
		}
	}
	if up.upgrader.AuthLater {
		t.Conn().Distrust()
	} else {
		t.Conn().Trust()
	}
	t.Out = appendSwitching(t.Out, up.handshake, up.header)
	d := decoder{window: up.handshake.window}
	t.State = d.state()
}

// Refusal is a refused request: an error for Upgrader.Open to return, and the error that Dial
// returns if the server does not answer with a WebSocket.
type Refusal struct {
	Status int         // Zero: 403.
	Text   string      // for people; Dial keeps its beginning. Zero: the status in words.
	Header http.Header // further fields of the response. Zero: none.
}

// Error returns the status and the text.
func (r *Refusal) Error() string {
	return "websocket: refused: " + strconv.Itoa(r.status()) + " " + r.text()
}

func (r *Refusal) status() int {
	if r.Status == 0 {
		return http.StatusForbidden
	}
	return r.Status
}

func (r *Refusal) text() string {
	if r.Text == "" {
		return http.StatusText(r.status())
	}
	return r.Text
}

// refusalOf is the refusal for an error of Open. The error's own text is not sent: it may not
// be meant for clients.
func refusalOf(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok && r != nil {
		return r
	}
	return &Refusal{}
}

// appendRefusal appends the response that refuses a request.
func appendRefusal(dst []byte, r *Refusal) []byte {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	text := r.text()
	h.Set("Connection", "close")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(strconv.AppendInt(dst, int64(r.status()), 10), ' ')
	dst = append(append(dst, http.StatusText(r.status())...), "\r\n"...)
	var fields strings.Builder
	_ = h.Write(&fields) // writing to a Builder cannot fail
	dst = append(append(dst, fields.String()...), "\r\n"...)
	return append(dst, text...)
}
