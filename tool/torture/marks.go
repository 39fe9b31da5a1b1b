package torture

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// unmarked stands for a client's mark in what is known of answers, and in the request that the user gave
// where the mark belongs there.
const unmarked = "################"

// marked returns the target and the content of requests with a mark: in the body of HTTP or at the end
// of its query, or in the content. None: there is no room.
func (t *target) marked(mark string) (to load.Target, content []byte) {
	switch at := t.Target.(type) {
	case load.HTTP:
		switch {
		case len(at.Body) > 0:
			at.Body = withMark(at.Body, mark)
			return at, nil
		case strings.Contains(at.URL, "?"):
			at.URL += "&"
		default:
			at.URL += "?"
		}
		at.URL += mark
		return at, nil
	case load.Messages:
		if strings.HasPrefix(at.Framing.String(), "fixed:") && len(t.content) < len(mark) {
			return t.Target, t.content
		}
	}
	return t.Target, withMark(t.content, mark)
}

// withMark returns content with a mark: where the user has left room, at the end of what is long, or
// behind what is short.
func withMark(content []byte, mark string) []byte {
	switch n := len(content) - len(mark); {
	case bytes.Contains(content, []byte(unmarked)):
		return bytes.Replace(content, []byte(unmarked), []byte(mark), 1)
	case n >= 0:
		return append(bytes.Clone(content[:n]), mark...)
	case len(content) == 0:
		return []byte(mark)
	}
	return append(append(bytes.Clone(content), ' '), mark...)
}

// marker returns a client with a mark of its own.
func (t *target) marker() client {
	c := client{target: t, mark: rand.Text()[:len(unmarked)]}
	to, content := t.marked(c.mark)
	c.codec, c.content = to.Caller(), content
	c.size = len(to.Caller().AppendRequest(nil, 1, content))
	return c
}

// learnMarks finds out whether answers have something of the request in them. If so, every other
// client sends a mark of its own from now on, so that it notices another client's answer.
func (t *target) learnMarks(ctx context.Context, within time.Duration) {
	plain, err := t.once(ctx, within, t.plain())
	if err == nil && plain.status != streaming {
		got, err := t.once(ctx, within, t.marker())
		t.marks = err == nil && !got.alien && got.status == plain.status
	}
}

// once asks on a connection of its own.
func (t *target) once(ctx context.Context, within time.Duration, c client) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	nc, err := t.Dial(ctx)
	if err != nil {
		return got, err
	}
	defer nc.Close()
	if err = nc.SetDeadline(earlier(ctx, within)); err == nil {
		if _, err = nc.Write(c.request(nil)); err == nil {
			return c.read(nc)
		}
	}
	return got, err
}
