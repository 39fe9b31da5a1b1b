package http1_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/hone-go/hone/http1"
)

// listen listens on a free port.
func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return ln
}

// get returns the body of an answer.
func get(client *http.Client, url string) string {
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer client.CloseIdleConnections()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// ServeTLS serves TLS on the event loops, HTTP/2 included. Files that are renewed without a restart
// come from package tlsfiles: its Config goes into Std.TLSConfig.
func ExampleServer_ServeTLS() {
	test := httptest.NewTLSServer(nil) // for its certificate, and a client that trusts it
	defer test.Close()
	srv := &http1.Server{Std: &http.Server{
		TLSConfig: &tls.Config{Certificates: test.TLS.Certificates},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s over %s", r.Proto, tls.VersionName(r.TLS.Version))
		}),
	}}
	ln := listen()
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(ln, "", "") }()
	fmt.Println(get(test.Client(), "https://"+ln.Addr().String()))
	srv.Close()
	<-served
	// Output: HTTP/1.1 over TLS 1.3
}

// Shutdown answers the requests that have arrived, then closes. A program calls it for SIGTERM, see
// signal.NotifyContext.
func ExampleServer_Shutdown() {
	begun, proceed := make(chan bool), make(chan bool)
	srv := &http1.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-proceed
		io.WriteString(w, "answered during the shutdown")
	})}
	ln := listen()
	served, answer := make(chan error, 1), make(chan string, 1)
	go func() { served <- srv.Serve(ln) }()
	go func() { answer <- get(&http.Client{Transport: &http.Transport{}}, "http://"+ln.Addr().String()) }()
	<-begun

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- srv.Shutdown(ctx) }()
	fmt.Println(<-served == http.ErrServerClosed) // no new connections from here on
	close(proceed)
	fmt.Println(<-answer)
	fmt.Println(<-ended)
	// Output:
	// true
	// answered during the shutdown
	// <nil>
}

// Logger gets what a server has to say. Without one, panics go to slog.Default, and refused
// connections are not logged.
func ExampleServer_logger() {
	quiet := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey || a.Key == slog.MessageKey || a.Key == "panic" {
			return a
		}
		return slog.Attr{} // the time, the stack and the client's port differ from run to run
	}
	srv := &http1.Server{
		Logger:  slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: quiet})),
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("no such user") }),
	}
	ln := listen()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	get(&http.Client{Transport: &http.Transport{}}, "http://"+ln.Addr().String())
	srv.Close()
	<-served
	// Output: level=ERROR msg="panic in a handler" panic="no such user"
}

// A prepared response has its header encoded once. Fields that differ are given with each response.
func ExamplePrepare() {
	page := http1.Prepare(http.StatusOK, http.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Cache-Control":          {"max-age=60"},
		"X-Content-Type-Options": {"nosniff"},
	})
	srv := &http1.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.Send(w, []byte("hello"), http1.Field{Key: "Etag", Value: `"1"`})
	})}
	ln := listen()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Get("http://" + ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	client.CloseIdleConnections()
	fmt.Println(string(body), answer.Header.Get("Cache-Control"), answer.Header.Get("Etag"))
	srv.Close()
	<-served
	// Output: hello max-age=60 "1"
}
