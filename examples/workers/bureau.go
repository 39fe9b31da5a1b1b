package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
	"github.com/hone-go/hone/workers"
)

// bureau runs requests on a worker pool.
type bureau struct {
	pool *workers.Func[request]
}

// request is a task's argument: a value, copied into the pool's queue.
type request struct {
	work  func(ctx context.Context, text []byte) ([]byte, error)
	text  []byte
	reply framed.Reply
}

// newBureau makes a bureau whose pool refuses what its queue cannot hold: a handler that waited
// for room would block every other request of its connection.
func newBureau(o workers.Options) *bureau {
	o.Overflow = workers.Reject
	return &bureau{workers.NewFunc(o, func(ctx context.Context, r request) {
		answer, err := r.work(ctx, r.text)
		if err != nil {
			r.reply.Fail(err)
			return
		}
		r.reply.Send(answer) // an error means that the connection has ended
	})}
}

func (b *bureau) server(how engine.Engine) *framed.Server {
	return &framed.Server{Handler: framed.HandlerFunc(b.handle), Engine: how}
}

// handle passes a request to the pool. It copies the bytes, because they are valid only until
// handle returns.
func (b *bureau) handle(c framed.Call, dst, req []byte) ([]byte, error) {
	kind, text, _ := bytes.Cut(req, []byte(" "))
	r := request{text: bytes.Clone(text)}
	switch string(kind) {
	case "compute":
		r.work = compute
	case "ask":
		r.work = ask
	case "mixed":
		r.work = mixed
	default:
		return dst, wire.Malformed
	}
	r.reply = c.Later()
	// Not c.Context(): a task is dropped from the queue when its context ends, and would owe its reply.
	switch err := b.pool.Go(context.Background(), r); {
	case errors.Is(err, workers.ErrFull):
		return dst, wire.Overloaded // withdraws the promise of a late reply
	case err != nil:
		return dst, wire.ShuttingDown
	}
	return dst, nil
}

const rounds = 2000

func compute(_ context.Context, text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	for range rounds - 1 {
		sum = sha256.Sum256(sum[:])
	}
	return fmt.Appendf(nil, "%x", sum), nil
}

// ask simulates a request to another server.
func ask(ctx context.Context, text []byte) ([]byte, error) {
	select {
	case <-time.After(5 * time.Millisecond):
		return text, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func mixed(ctx context.Context, text []byte) ([]byte, error) {
	answer, err := ask(ctx, text)
	if err != nil {
		return nil, err
	}
	sum, err := compute(ctx, text)
	return fmt.Appendf(answer, " %s", sum), err
}

// report prints what the pool did, and why its limit moved.
func (b *bureau) report(w io.Writer) {
	st := b.pool.Stats()
	fmt.Fprintf(w, "%d requests done, %d refused, limit %d\n", st.Done, st.Rejected, st.Limit)
	for _, d := range b.pool.Decisions() {
		fmt.Fprintf(w, "  %s  limit %d -> %d: %v (%.0f/s, %.0f waiting, %.0f %% of the CPUs)\n",
			d.At.Format(time.TimeOnly), d.From, d.To, d.Reason, d.Throughput, d.Waiting, 100*d.CPU)
	}
}
