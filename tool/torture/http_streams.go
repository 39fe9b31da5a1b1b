package torture

import (
	"bytes"
	"context"
	"io"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	aloneStreams = 3               // before the crowd
	streamCrowd  = 500             // that starts at once
	lateStream   = 2 * time.Second // until the first event, for a fall
	lateTimes    = 10              // of one stream alone
)

// streams starts a crowd of event streams at once.
func streams(ctx context.Context, a *Arena) Finding {
	var single []time.Duration
	for range aloneStreams {
		c, err := a.Dial(ctx)
		if err != nil {
			return unknown("%v", err)
		}
		took, kind, err := c.firstEvent(ctx, time.Now())
		c.Close()
		if kind != "" && !strings.HasPrefix(kind, "text/event-stream") {
			return doesNotApply("the answer is %s, not text/event-stream", kind)
		}
		if err != nil {
			return unknown("a single stream: %v", err)
		}
		single = append(single, took)
	}
	alone := slices.Min(single)
	crowd, err := a.Crowd(ctx, min(streamCrowd, a.Conns-1), (*Arena).Dial)
	if err != nil {
		return unknown("%v", err)
	}
	began := time.Now()
	took := make([]time.Duration, len(crowd))
	errs := make([]error, len(crowd))
	var readers sync.WaitGroup
	for i, c := range crowd {
		readers.Go(func() { took[i], _, errs[i] = c.firstEvent(ctx, began) })
	}
	readers.Wait()
	late := 0
	for _, err := range errs {
		if err != nil {
			late++
		}
	}
	worst, half := slices.Max(took), slices.Sorted(slices.Values(took))[len(took)/2]
	switch {
	case late > 0:
		return falls("%d of %d streams that start at once have no event after %s; one alone has it after %s", late, len(crowd), elapsed(worst), elapsed(alone))
	case worst >= lateStream && worst >= lateTimes*alone:
		return falls("%d streams that start at once have their first event after up to %s, half of them after %s; one alone after %s", len(crowd), elapsed(worst), elapsed(half), elapsed(alone))
	}
	return survives("%d streams that started at once had their first event after up to %s; one alone after %s", len(crowd), elapsed(worst), elapsed(alone))
}

// firstEvent asks for the target's path and returns how long after began the first byte of its body
// came, and its type.
func (c *Conn) firstEvent(ctx context.Context, began time.Time) (took time.Duration, kind string, err error) {
	ended := func(err error) (time.Duration, string, error) { return time.Since(began), kind, err }
	if _, err := io.WriteString(c, c.arena.head("GET", "Accept: text/event-stream\r\n\r\n")); err != nil {
		return ended(err)
	}
	if err := c.SetReadDeadline(earlier(ctx, c.arena.Within)); err != nil {
		return ended(err)
	}
	var in []byte
	buf := make([]byte, 4<<10)
	for len(in) < readSize {
		n, err := c.Conn.Read(buf)
		in = append(in, buf[:n]...)
		if head, body, found := bytes.Cut(in, []byte("\r\n\r\n")); found {
			kind = contentType(head)
			if !strings.HasPrefix(kind, "text/event-stream") || len(body) > 0 {
				return ended(nil)
			}
		}
		if err != nil {
			return ended(err)
		}
	}
	return ended(errNotHTTP)
}

// contentType returns the Content-Type of an answer, given its head.
func contentType(head []byte) string {
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(line, ":")
		if textproto.CanonicalMIMEHeaderKey(name) == "Content-Type" {
			return strings.TrimSpace(value)
		}
	}
	return "of no type"
}

// endless reports whether answers are event streams.
func (t *target) endless() bool { return t.known.status == streaming }

// streams reports whether the answer that is being read is a stream of events whose first has come.
// Such an answer has no end: the connection is of no more use.
func (c *client) streams() bool {
	if c.target.kind != HTTP {
		return false
	}
	head, body, _ := bytes.Cut(c.raw, []byte("\r\n\r\n"))
	if len(body) == 0 || !strings.HasPrefix(contentType(head), "text/event-stream") {
		return false
	}
	c.closing = true
	return true
}
