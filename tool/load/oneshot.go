package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hone-go/hone/wire"
)

// use sends the first request on a connection and waits for its answer until ctx ends. It returns
// the bytes that came after the answer.
func (r *run) use(ctx context.Context, nc net.Conn, caller Caller, content []byte) (rest []byte, wrong *Error) {
	long := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(long) }) // fails only if nc is closed
	defer stop()
	v := oneShot{run: r, nc: nc, caller: caller, content: content}
	request := v.caller.AppendRequest(nil, oneShotID, content)
	if len(request) > smallestBuffer { // the server may stop reading until its answer is read
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = nc.Write(request) // whether it arrived shows in the answer
		}()
		defer func() {
			nc.SetWriteDeadline(long)
			<-written
		}()
	} else if _, err := nc.Write(request); err != nil {
		return nil, v.ended(err)
	}
	return v.await()
}

// oneShot is a connection with its only request.
type oneShot struct {
	run     *run
	nc      net.Conn
	caller  Caller
	content []byte
}

const oneShotID = 1

// await reads until the answer has come.
func (v *oneShot) await() (rest []byte, wrong *Error) {
	in, held := make([]byte, leastRead), 0
	for {
		n, err := v.nc.Read(in[held:])
		held += n
		used, done, wrong := v.settle(in[:held])
		if owed, ok := v.caller.(*wsCaller); ok && wrong == nil {
			reply(v.nc, owed)
		}
		switch {
		case wrong != nil || done:
			return in[used:held], wrong
		case err != nil:
			return nil, v.ended(err)
		}
		held = copy(in, in[used:held])
		if held == len(in) || n == len(in) && n < usualRead {
			in = append(in, make([]byte, len(in))...)
		}
	}
}

// reply sends the protocol's replies. If the write fails, the reader notices.
func reply(nc net.Conn, caller *wsCaller) {
	if words := caller.appendReplies(nil); len(words) > 0 {
		_, _ = nc.Write(words)
	}
}

// settle decodes what has come, and reports whether the answer was among it.
func (v *oneShot) settle(in []byte) (used int, done bool, wrong *Error) {
	for used < len(in) {
		var a Answer
		n, err := v.caller.Decode(&a, in[used:])
		switch {
		case err != nil:
			return used, false, decodeError(err)
		case n == 0:
			return used, false, nil
		case a.ID != 0:
			return used + n, true, v.verify(&a)
		case a.Last && a.Err != nil:
			return used, false, decodeError(a.Err)
		}
		used += n
	}
	return used, false, nil
}

func (v *oneShot) verify(a *Answer) *Error {
	expect := v.run.plan.Expect
	if v.run.plan.Echo {
		expect = v.content
	}
	switch {
	case a.ID != oneShotID:
		return wrongID(a.ID)
	case a.Err != nil:
		try := "look into the server's log"
		if errors.Is(a.Err, wire.Unauthorised) {
			try = "log in with --credentials-file"
		}
		return &Error{Kind: Failed, Err: a.Err, What: fmt.Sprintf("a request failed (%v)", a.Err), Try: try}
	case expect != nil && !bytes.Equal(a.Content, expect):
		return &Error{Kind: WrongContent, What: "an answer has other content than expected", Try: "look into the server's log"}
	}
	return nil
}

// ended explains why the stream ended before the answer, unless its end completes the answer.
func (v *oneShot) ended(err error) *Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{
			Kind: Timeout, Err: err, What: fmt.Sprintf("no answer within %v", v.run.plan.Timeout),
			Try: "check that the server runs and speaks this protocol and dialect, or raise the time-out (--timeout)",
		}
	case errors.Is(err, io.EOF):
		var a Answer
		if _, wrong := v.caller.Decode(&a, nil); wrong != nil {
			return decodeError(wrong)
		}
		if a.ID != 0 {
			return v.verify(&a)
		}
	}
	return &Error{
		Kind: Closed, Err: err, What: fmt.Sprintf("the server closed a connection before its answer (%v)", err),
		Try: "look into the server's log: it may limit its clients",
	}
}

// sizedContent returns the content of the n-th such request.
func (r *run) sizedContent(n uint64) []byte {
	if !r.sized {
		return r.plan.Content
	}
	return r.plan.Content[:r.plan.Sizes.At(r.plan.Seed, n)]
}
