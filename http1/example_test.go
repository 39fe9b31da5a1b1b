package http1_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/http1"
)

// A net/http server, moved to an event loop.
func Example() {
	std := &http.Server{
		Addr:              "127.0.0.1:8080",
		ReadHeaderTimeout: 5 * time.Second, // becomes a limit of the engine
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello!\n") }),
	}
	srv := &http1.Server{Std: std}
	log.Fatal(srv.ListenAndServe())
}

// Serve accepts an existing listener; Stats shows which half has served what.
func ExampleServer_Serve() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &http1.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	answer, err := http.Get("http://" + ln.Addr().String() + "/greeting")
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", body)
	http.DefaultClient.CloseIdleConnections()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(srv.Shutdown(ctx), <-served == http.ErrServerClosed)
	fmt.Println(srv.Stats().Fast, "on the fast path,", srv.Stats().Loans, "loans")
	// Output:
	// GET /greeting
	// <nil> true
	// 1 on the fast path, 0 loans
}
