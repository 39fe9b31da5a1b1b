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

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// use sends the first request on a connection and waits for its answer until ctx ends. It returns
// the bytes that came after the answer.
func (r *run) use(ctx context.Context, nc net.Conn, speaks codec.Codec, content []byte) (rest []byte, wrong *Error) {
	long := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(long) }) // fails only if nc is closed
	defer stop()
	v := oneShot{run: r, nc: nc, codec: speaks, content: content}
	request := speaks.AppendRequest(nil, oneShotID, content, nil)
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
	codec   codec.Codec
	content []byte
	answer  codec.Answer
}

const oneShotID = 1

// await reads until the answer has come.
func (v *oneShot) await() (rest []byte, wrong *Error) {
	in, held := make([]byte, leastRead), 0
	for {
		n, err := v.nc.Read(in[held:])
		held += n
		used, done, wrong := v.settle(in[:held])
		if wrong == nil {
			reply(v.nc, &v.answer)
		}
		switch {
		case wrong != nil || done:
			return in[used:held], wrong
		case err != nil:
			return nil, v.ended(err)
		}
		held = copy(in, in[used:held])
		if held == len(in) || n == len(in) && n < defaultRead {
			in = append(in, make([]byte, len(in))...)
		}
	}
}

// reply sends what the protocol sends back by itself. If the write fails, the reader notices.
func reply(nc net.Conn, a *codec.Answer) {
	if len(a.Reply) > 0 {
		_, _ = nc.Write(a.Reply)
		a.Reply = a.Reply[:0]
	}
}

// settle decodes what has come, and reports whether the answer was among it.
func (v *oneShot) settle(in []byte) (used int, done bool, wrong *Error) {
	for used < len(in) {
		n, err := codec.Next(v.codec, &v.answer, in[used:])
		used += n
		switch {
		case err != nil:
			return used, false, codec.Explain(err)
		case v.answer.ID != 0:
			return used, true, v.verify(&v.answer)
		case !v.answer.Last:
			return used, false, nil
		case v.answer.Err != nil:
			return used, false, codec.Explain(v.answer.Err)
		}
	}
	return used, false, nil
}

func (v *oneShot) verify(a *codec.Answer) *Error {
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
		return &Error{Kind: codec.WrongContent, What: "an answer has other content than expected", Try: "look into the server's log"}
	}
	return nil
}

// ended explains why the stream ended before the answer, unless its end completes the answer.
func (v *oneShot) ended(err error) *Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{
			Kind: Timeout, Err: err, What: fmt.Sprintf("no answer within %v", v.run.plan.Timeout),
			Try: "check that the server runs and speaks this protocol, or raise the time-out (--timeout)",
		}
	case errors.Is(err, io.EOF):
		if _, wrong := codec.Next(v.codec, &v.answer, nil); wrong != nil {
			return codec.Explain(wrong)
		}
		if v.answer.ID != 0 {
			return v.verify(&v.answer)
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
