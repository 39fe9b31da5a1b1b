package framed_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	connpool "github.com/hone-go/hone/conns" // conns is a test helper here
	"github.com/hone-go/hone/framed"
)

func ExampleMux() {
	srv := &framed.Server{Handler: framed.HandlerFunc(echo)}
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)

	client := &framed.Mux{Addr: ln.Addr().String(), StallTime: 10 * time.Second}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	reply, err := client.Call(ctx, nil, []byte("hello"))
	switch {
	case err == nil:
		fmt.Printf("%s\n", reply)
	case errors.Is(err, framed.ErrNotSent):
		fmt.Println("safe to retry:", err)
	default:
		fmt.Println("it may have been executed:", err)
	}
	// Output:
	// hello
}

// A connection per long call: a slow call delays no others.
func ExampleClient_pool() {
	srv := &framed.Server{Handler: framed.HandlerFunc(echo)}
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)

	pool := connpool.New(connpool.Config[*framed.Client]{
		Dial: func(ctx context.Context) (*framed.Client, error) {
			return framed.Dial(ctx, ln.Addr().String(), framed.ClientOptions{})
		},
		Alive:     func(c *framed.Client, _ time.Duration) error { return c.Err() },
		AlwaysAsk: true, // a Client knows at once, and checking it is cheap
		Max:       8,
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	defer pool.Close(ctx)
	var reply []byte
	err = pool.Do(ctx, func(ctx context.Context, c *framed.Client) (err error) {
		reply, err = c.Call(ctx, nil, []byte("take your time"))
		return err // a call that gave up discards its connection
	})
	fmt.Printf("%s, %v\n", reply, err)
	// Output:
	// take your time, <nil>
}
