package gateway_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// start serves a gateway with its log in a temporary folder. honed is a whole program around these
// lines.
func start() (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		log.Fatal(err)
	}
	stored, err := journal.OpenSegments(dir, journal.SegmentsOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &gateway.Server{Log: stored}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	return ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			log.Print(err)
		}
		<-served
		stored.Close()
		os.RemoveAll(dir)
	}
}

// A client submits messages; each is acknowledged when it is on disk. A reader gets them.
func Example() {
	addr, stop := start()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	client := &gateway.Client{Addrs: []string{addr}, ID: "meter-17"}
	for _, reading := range []string{"21.5 °C", "21.6 °C"} {
		seq, err := client.Submit(ctx, []byte(reading))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("stored as", seq)
	}
	if err := client.Close(ctx); err != nil {
		log.Fatal(err)
	}

	reader := &gateway.Reader{Addrs: []string{addr}, Name: "billing", Start: gateway.FromFirst}
	defer reader.Close()
	for seen := 0; seen < 2; {
		batch, err := reader.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range batch.Messages {
			fmt.Printf("%s %d: %s\n", m.Client, m.Seq, m.Data)
			seen++
		}
		reader.Ack(batch.Position) // the next reader of this name goes on behind it
	}
	// Output:
	// stored as 1
	// stored as 2
	// meter-17 1: 21.5 °C
	// meter-17 2: 21.6 °C
}

// A program that keeps its session's epoch goes on with it after a restart: what it sends again is
// not stored again.
func ExampleClient_resume() {
	addr, stop := start()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	before := &gateway.Client{Addrs: []string{addr}, ID: "meter-17"}
	session, err := before.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := before.Submit(ctx, []byte("21.5 °C")); err != nil {
		log.Fatal(err)
	}
	if err := before.Close(ctx); err != nil {
		log.Fatal(err)
	}
	next, sum := before.Acknowledged() // to be kept in a file, with session.Epoch

	after := &gateway.Client{Addrs: []string{addr}, ID: "meter-17", Epoch: session.Epoch, Next: next, Sum: sum}
	seq, err := after.Submit(ctx, []byte("21.6 °C"))
	fmt.Println("goes on with record", seq, err)
	fmt.Println(after.Close(ctx))
	// Output:
	// goes on with record 2 <nil>
	// <nil>
}
