package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	inputsAtOnce = 32
	mostHeard    = 4 << 20              // bytes of what comes back for one input
	partPause    = 5 * time.Millisecond // between the parts of an input, so that they arrive apart
	retryFactor  = 3                    // how much longer the second try of an input waits
)

// hear sends parts and collects what comes back, until the server closes or is silent for that
// long.
func (c *Conn) hear(ctx context.Context, silence time.Duration, parts [][]byte) heard {
	began := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i, part := range parts {
			if i > 0 && !c.arena.Pause(ctx, partPause) {
				return
			}
			if _, err := c.Write(part); err != nil {
				return // the server has closed, which reading notices
			}
		}
	}()
	got := c.collect(ctx, silence, nil)
	got.took = time.Since(began)
	c.Close()
	<-sent
	return got
}

// collect reads until the server closes, is silent for that long, or has sent mostHeard bytes. It
// calls came, if that is not nil, for what it has read.
func (c *Conn) collect(ctx context.Context, silence time.Duration, came func()) heard {
	var got heard
	buf := make([]byte, readSize)
	for len(got.bytes) < mostHeard {
		if c.SetReadDeadline(earlier(ctx, silence)) != nil {
			break
		}
		n, err := c.Conn.Read(buf)
		got.bytes = append(got.bytes, buf[:n]...)
		if came != nil {
			came()
		}
		if err != nil {
			got.closed = !timedOut(err)
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

// timedOut reports whether err is that of a deadline, and not the connection's end.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// judged is an input with what the server did.
type judged struct {
	*httpInput
	ruling
	words string
}

// play sends one input and judges what comes back.
func (a *Arena) play(ctx context.Context, in *httpInput, mark string, good int, silence time.Duration) (judged, error) {
	c, err := a.Dial(ctx)
	if err != nil {
		return judged{}, err
	}
	got := c.hear(ctx, silence, in.render(a.Host, a.Path, mark))
	if err := ctx.Err(); err != nil {
		return judged{}, err
	}
	found := judged{httpInput: in}
	found.ruling, found.words = in.judge(got, mark, good)
	return found, nil
}

// playAll plays inputs, several at once, and those that look wrong a second time, more patiently.
func (a *Arena) playAll(ctx context.Context, inputs []httpInput, good int, silence time.Duration) ([]judged, error) {
	found := make([]judged, len(inputs))
	errs := make([]error, len(inputs))
	marks := make([]string, len(inputs))
	for i := range marks {
		marks[i] = fmt.Sprintf("/hone-%016x", a.Rand.Uint64())
	}
	turns := make(chan int)
	var players sync.WaitGroup
	for range inputsAtOnce {
		players.Go(func() {
			for i := range turns {
				found[i], errs[i] = a.play(ctx, &inputs[i], marks[i], good, silence)
			}
		})
	}
	for i := range inputs {
		turns <- i
	}
	close(turns)
	players.Wait()
	for i := range found {
		if errs[i] == nil && found[i].ruling == wrong {
			found[i], errs[i] = a.play(ctx, &inputs[i], marks[i], good, retryFactor*silence)
		}
	}
	for _, err := range errs {
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// goodStatus returns the status of the good request that stands behind each input.
func (a *Arena) goodStatus(ctx context.Context) (int, error) {
	c, err := a.Dial(ctx)
	if err != nil {
		return 0, err
	}
	good := httpInput{text: "{next}"}
	all, err := httpAnswers(c.hear(ctx, a.Answer, good.render(a.Host, a.Path, "")).bytes)
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
		found, err := a.playAll(ctx, slices.Concat(inputs...), good, a.Answer)
		count := [3]int{}
		for _, f := range found {
			if f.httpInput == nil {
				continue
			}
			count[f.ruling]++
			if f.ruling == wrong {
				a.Note("%s (RFC %s): %s", f.name, f.rfc(), f.words)
			}
		}
		for _, f := range found {
			if f.httpInput != nil && f.ruling == lenient {
				a.Note("lenient: %s (RFC %s): %s", f.name, f.rfc(), f.words)
			}
		}
		words := fmt.Sprintf("%d of %d right, %d lenient, %d wrong", count[right], len(found), count[lenient], count[wrong])
		switch {
		case count[wrong] > 0:
			return falls("%s", words)
		case err != nil:
			return unknown("%s; %v", words, err)
		}
		return survives("%s", words)
	}
}
