package framed_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// span has what OpenTelemetry needs for a request. Its SDK is called like this:
//
//	_, o := tracer.Start(ctx, s.name(), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(s.Began))
//	o.SetAttributes(semconv.ClientAddress(s.peer.Addr().String()))
//	if err := s.failure(); err != nil {
//		o.SetStatus(codes.Error, err.Error())
//	}
//	o.End(trace.WithTimestamp(s.ended()))
type span struct {
	framed.Request
	peer netip.AddrPort // read while the connection is open
}

func (s span) name() string     { return "framed " + s.Command.String() }
func (s span) ended() time.Time { return s.Began.Add(s.Took) }

func (s span) failure() error {
	if s.Err == nil && s.Result != wire.OK {
		return s.Result // a panic: the Logger has the stack
	}
	return s.Err
}

// tracer passes spans to a goroutine that exports them. No request waits for that: spans
// that do not fit are counted instead.
type tracer struct {
	spans   chan span
	dropped atomic.Uint64
}

func (t *tracer) onRequest(r framed.Request) {
	select {
	case t.spans <- span{r, r.Conn.RemoteAddr()}:
	default:
		t.dropped.Add(1)
	}
}

// Every request becomes a span, without code in the handler.
func ExampleServer_onRequest() {
	traced := &tracer{spans: make(chan span, 1024)}
	srv := &framed.Server{
		OnRequest: traced.onRequest,
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			switch string(req) {
			case "order":
				return dst, fmt.Errorf("nothing left: %w", wire.Failed)
			case "ask somebody":
				reply := c.Later()
				time.AfterFunc(10*time.Millisecond, func() { reply.Send([]byte("yes")) })
				return dst, nil
			}
			return append(dst, bytes.ToUpper(req)...), nil
		}),
	}
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := framed.Dial(ctx, ln.Addr().String(), framed.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, req := range []string{"hello", "order", "ask somebody"} {
		client.Call(ctx, nil, []byte(req))
		s := <-traced.spans
		fmt.Printf("%s from %v, late: %v, took some time: %v, failure: %v\n",
			s.name(), s.peer.Addr(), s.Late, s.ended().After(s.Began), s.failure())
	}
	fmt.Println("dropped:", traced.dropped.Load())
	// Output:
	// framed Submit from 127.0.0.1, late: false, took some time: true, failure: <nil>
	// framed Submit from 127.0.0.1, late: false, took some time: true, failure: nothing left: wire: failed
	// framed Submit from 127.0.0.1, late: true, took some time: true, failure: <nil>
	// dropped: 0
}
