package torture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	inputsAtOnce = 8                    // some servers let few connections wait
	mostHeard    = 4 << 20              // bytes of what comes back for one input
	partPause    = 5 * time.Millisecond // between the parts of an input, so that they arrive apart
	retryFactor  = 3                    // how much longer the second try of an input waits
)

// hear sends parts and collects what comes back.
func (c *Conn) hear(ctx context.Context, silence time.Duration, parts [][]byte, enough func([]byte) bool) heard {
	began := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i, part := range parts {
			if i > 0 && !pause(ctx, partPause) {
				return
			}
			if _, err := c.Write(part); err != nil {
				return // the server has closed, which reading notices
			}
		}
	}()
	got := c.collect(ctx, silence, enough)
	got.took = time.Since(began)
	c.Close()
	<-sent
	return got
}

// collect reads until the server closes, is silent for that long, or has sent mostHeard bytes, or
// until enough, if it is not nil, says so of all that has come.
func (c *Conn) collect(ctx context.Context, silence time.Duration, enough func([]byte) bool) heard {
	var got heard
	buf := make([]byte, readSize)
	for len(got.bytes) < mostHeard {
		if c.SetReadDeadline(earlier(ctx, silence)) != nil {
			break
		}
		n, err := c.Conn.Read(buf)
		got.bytes = append(got.bytes, buf[:n]...)
		if err != nil {
			got.closed = !isTimeout(err)
			break
		}
		if enough != nil && enough(got.bytes) {
			break
		}
	}
	return got
}

// earlier is the time after d, or ctx's end if that is earlier.
func earlier(ctx context.Context, d time.Duration) time.Time {
	at := time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		return end
	}
	return at
}

// judged is an input with what the server did.
type judged struct {
	name, section string
	ruling
	words string
}

// marks returns n paths that nobody else uses.
func (a *Arena) marks(n int) []string {
	marks := make([]string, n)
	for i := range marks {
		marks[i] = fmt.Sprintf("/hone-%016x", a.Rand.Uint64())
	}
	return marks
}

// playAll plays n inputs, several at once, and those that look wrong a second time, more patiently.
func playAll(n int, play func(i, try int) (judged, error)) ([]judged, error) {
	found := make([]judged, n)
	errs := make([]error, n)
	var turn atomic.Int64
	var players sync.WaitGroup
	for range inputsAtOnce {
		players.Go(func() {
			for i := int(turn.Add(1)) - 1; i < n; i = int(turn.Add(1)) - 1 {
				found[i], errs[i] = play(i, 1)
			}
		})
	}
	players.Wait()
	for i := range found {
		if errs[i] == nil && found[i].ruling == wrong {
			found[i], errs[i] = play(i, retryFactor)
		}
	}
	return found, cmp.Or(errs...)
}

// rule plays n inputs, and sums up what the server did.
func (a *Arena) rule(n int, play func(i, try int) (judged, error)) Finding {
	found, err := playAll(n, play)
	if err != nil {
		return unknown("not all of %d inputs were sent: %v", n, err)
	}
	count := [3]int{}
	for _, f := range found {
		count[f.ruling]++
		if f.ruling == wrong {
			a.Note("%s (%s): %s", f.name, f.section, f.words)
		}
	}
	for _, f := range found {
		if f.ruling == lenient {
			a.Note("lenient: %s (%s): %s", f.name, f.section, f.words)
		}
	}
	words := fmt.Sprintf("%d of %d right, %d lenient, %d wrong", count[right], n, count[lenient], count[wrong])
	if count[wrong] > 0 {
		return falls("%s: %s", words, a.notes[0])
	}
	return survives("%s", words)
}

// playRequests returns a function that plays one of inputs, until enough has come, and judges it.
func (a *Arena) playRequests(ctx context.Context, inputs []httpInput, enough func([]byte) bool, judge func(in *httpInput, got heard, mark string) (ruling, string)) func(i, try int) (judged, error) {
	marks := a.marks(len(inputs))
	return func(i, try int) (judged, error) {
		in := &inputs[i]
		found := judged{name: in.name, section: in.rfc()}
		c, err := a.Dial(ctx)
		if err != nil {
			return found, err
		}
		got := c.hear(ctx, time.Duration(try)*a.Answer, in.render(a.target.host, a.target.path, marks[i]), enough)
		found.ruling, found.words = judge(in, got, marks[i])
		return found, ctx.Err()
	}
}

// judgeBeside returns a function that judges inputs, where the good request has a status.
func judgeBeside(good int) func(in *httpInput, got heard, mark string) (ruling, string) {
	return func(in *httpInput, got heard, mark string) (ruling, string) { return in.judge(got, mark, good) }
}

// goodStatus returns the status of the good request that stands behind each input.
func (a *Arena) goodStatus(ctx context.Context) (int, error) {
	c, err := a.Dial(ctx)
	if err != nil {
		return 0, err
	}
	good := httpInput{text: "{next}"}
	all, err := httpAnswers(c.hear(ctx, a.Answer, good.render(a.target.host, a.target.path, ""), nil).bytes)
	if err == nil && len(all) != 1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("the good request: %w", err)
	}
	return all[0].status, nil
}

// sendMalformed returns an attack that sends inputs.
func sendMalformed(inputs ...[]httpInput) func(context.Context, *Arena) Finding {
	return func(ctx context.Context, a *Arena) Finding {
		good, err := a.goodStatus(ctx)
		if err != nil {
			return unknown("%v", err)
		}
		all := slices.Concat(inputs...)
		return a.rule(len(all), a.playRequests(ctx, all, nil, judgeBeside(good)))
	}
}
