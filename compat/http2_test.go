//go:build linux

package compat

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/hone-go/hone/http1"
)

// hitNoLimit checks that a server on which ordinary clients speak HTTP/2 has ended nothing.
func hitNoLimit(t *testing.T, s *http1.Server) {
	t.Helper()
	st := s.Stats()
	if st.OpenLoans == 0 && st.Loans == 0 {
		t.Error("nobody spoke HTTP/2")
	}
	if st.Own[0].Count+st.Own[1].Count+st.SlowBodies+st.ClosedWindows != 0 {
		t.Errorf("a limit was hit: %+v", st)
	}
}

// conversation answers each message of a stream with the same one.
var conversation = grpc.ServiceDesc{ServiceName: "Talk", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
	StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			if err := s.RecvMsg(&m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}}}}

// TestGRPC has a stream wait for ten times as long as a message may take.
func TestGRPC(t *testing.T) {
	const frameTime = 200 * time.Millisecond
	eachSide(t, engines(), func(t *testing.T, on side) {
		t.Parallel() // it waits
		g := grpc.NewServer()
		g.RegisterService(&conversation, nil)
		on.http2, on.limits.FrameTime = true, frameTime
		s := serve(t, on, &http.Server{Handler: g})
		c, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		stream, err := c.NewStream(ctx, &conversation.Streams[0], "/Talk/Echo")
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, 10 * frameTime, 0} {
			<-time.After(wait)
			var m wrapperspb.StringValue
			if err := stream.SendMsg(wrapperspb.String("hello")); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&m); err != nil || m.Value != "hello" {
				t.Fatalf("after %v: %q, %v", wait, m.Value, err)
			}
		}
		stream.CloseSend()
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
			t.Errorf("the stream ends with %v", err)
		}
		if s.http != nil {
			hitNoLimit(t, s.http)
		}
	})
}
