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

// marking puts a mark into requests.
type marking func(mark string) (target load.Target, content []byte)

// markings returns the ways to put a mark into requests, in which a server may give it back.
func (t *target) markings() []marking {
	switch at := t.Target.(type) {
	case load.HTTP:
		body := func(mark string) (load.Target, []byte) {
			marked := at
			marked.Body = withMark(at.Body, mark)
			return marked, nil
		}
		behind := func(separator string) marking {
			return func(mark string) (load.Target, []byte) {
				marked := at
				marked.URL += separator + mark
				return marked, nil
			}
		}
		switch {
		case len(at.Body) > 0:
			return []marking{body}
		case strings.Contains(at.URL, "?"):
			return []marking{behind("&")}
		case strings.Count(at.URL, "/") < 3:
			return []marking{behind("/?"), behind("/")}
		}
		return []marking{behind("?"), behind("")}
	case load.Messages:
		if strings.HasPrefix(at.Framing.String(), "fixed:") && len(t.content) < len(unmarked) {
			return nil
		}
	}
	return []marking{func(mark string) (load.Target, []byte) { return t.Target, withMark(t.content, mark) }}
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
func (t *target) marker(m marking) client {
	c := client{target: t, mark: rand.Text()[:len(unmarked)]}
	at, content := m(c.mark)
	c.codec, c.content = at.Caller(), content
	c.size = len(at.Caller().AppendRequest(nil, 1, content))
	return c
}

// learnMarking finds out whether answers have something of the request in them. If so, every other
// client sends a mark of its own from now on, so that it notices another client's answer.
func (t *target) learnMarking(ctx context.Context, within time.Duration) {
	ask := func(c client) (answer, bool) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		nc, err := t.Dial(ctx)
		if err != nil {
			return answer{}, false
		}
		defer nc.Close()
		deadline, _ := ctx.Deadline()
		if err = nc.SetDeadline(deadline); err == nil {
			_, err = nc.Write(c.request(nil))
		}
		var got answer
		if err == nil {
			got, err = c.read(nc)
		}
		return got, err == nil
	}
	plain, ok := ask(t.plain())
	if !ok || plain.status == streaming {
		return
	}
	for _, m := range t.markings() {
		got, ok := ask(t.marker(m))
		if ok && !got.alien && got.status == plain.status {
			t.marking = m
			return
		}
	}
}
