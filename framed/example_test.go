package framed_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

func ExampleServer() {
	srv := &framed.Server{
		Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			return append(dst, bytes.ToUpper(req)...), nil
		}),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := framed.Dial(ctx, ln.Addr().String(), framed.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Call(ctx, nil, []byte("hello"))
	fmt.Printf("%s, %v\n", reply, err)

	err = srv.Shutdown(ctx)
	fmt.Println("forced:", srv.Stats().Drained.Forced, err)
	fmt.Println(<-served)
	// Output:
	// HELLO, <nil>
	// forced: 0 <nil>
	// engine: server closed
}

func ExampleCall_Later() {
	srv := &framed.Server{
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			name := string(req) // req is invalid when the handler has returned
			reply := c.Later()
			go reply.Send([]byte("slowly, " + name))
			return dst, nil
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
	reply, err := client.Call(ctx, nil, []byte("ann"))
	fmt.Printf("%s, %v\n", reply, err)
	// Output: slowly, ann, <nil>
}

func ExampleConn_Push() {
	joined := make(chan framed.Conn, 1)
	srv := &framed.Server{
		Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			joined <- c.Conn() // may be kept
			return append(dst, "welcome"...), nil
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
	news := make(chan string, 1)
	client, err := framed.Dial(ctx, ln.Addr().String(), framed.ClientOptions{
		OnDeliver: func(id uint64, content []byte) { news <- fmt.Sprintf("%d %s", id, content) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Call(ctx, nil, []byte("join"))
	fmt.Printf("%s, %v\n", reply, err)

	member := <-joined
	if err := member.Push(7, []byte("it rains")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-news)
	// Output:
	// welcome, <nil>
	// 7 it rains
}

// Middleware is a function from Handler to Handler.
func ExampleHandler_wrapped() {
	authenticated := func(next framed.Handler) framed.Handler {
		return framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if c.Conn().Value() == nil {
				return dst, wire.Unauthorised
			}
			return next.Handle(c, dst, req)
		})
	}
	timed := func(next framed.Handler) framed.Handler {
		return framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			start := time.Now()
			defer func() {
				if took := time.Since(start); took > time.Second {
					log.Printf("request %d from %v took %v", c.ID(), c.Conn().RemoteAddr(), took)
				}
			}()
			return next.Handle(c, dst, req)
		})
	}
	// A panic that is not recovered closes the connection.
	recovered := func(next framed.Handler) framed.Handler {
		return framed.HandlerFunc(func(c framed.Call, dst, req []byte) (_ []byte, err error) {
			defer func() {
				if v := recover(); v != nil {
					log.Printf("request %d panicked: %v", c.ID(), v)
					err = wire.Failed
				}
			}()
			return next.Handle(c, dst, req)
		})
	}

	srv := &framed.Server{
		Connect: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) != "secret" {
				return dst, wire.Unauthorised
			}
			c.Conn().SetValue("ann")
			return dst, nil
		}),
		Handler: timed(recovered(authenticated(framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			return fmt.Appendf(dst, "%v: %c", c.Conn().Value(), req[0]), nil
		})))),
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
	call := func(req string) {
		reply, err := client.Call(ctx, nil, []byte(req))
		fmt.Printf("%q: %q, %v\n", req, reply, err)
	}
	call("hello")
	_, err = client.Connect(ctx, nil, []byte("secret"))
	fmt.Println("connect:", err)
	call("hello")
	call("") // the handler panics
	call("still here")
	// Output:
	// "hello": "", wire: unauthorised
	// connect: <nil>
	// "hello": "ann: h", <nil>
	// "": "", wire: failed
	// "still here": "ann: s", <nil>
}
