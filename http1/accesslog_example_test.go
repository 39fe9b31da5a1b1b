package http1_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hone-go/hone/http1"
)

// answered is a ResponseWriter that remembers the status and counts the bytes of the body.
type answered struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answered) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) { // others of 1xx are informational
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// ReadFrom keeps the fast way of io.Copy, for files.
func (a *answered) ReadFrom(r io.Reader) (int64, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := io.Copy(a.ResponseWriter, r)
	a.bytes += n
	return n, err
}

// Unwrap keeps http.ResponseController (Flush, Hijack, deadlines) and WebSockets working.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// accessLog logs the requests that a handler has answered.
func accessLog(of http.Handler, to *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, began := &answered{ResponseWriter: w}, time.Now()
		remote, method, uri, returned := r.RemoteAddr, r.Method, r.RequestURI, false
		write := func(status int, body int64) {
			to.LogAttrs(context.Background(), slog.LevelInfo, "request",
				slog.String("remote", remote), slog.String("method", method), slog.String("uri", uri),
				slog.Int("status", status), slog.Int64("bytes", body), slog.Duration("duration", time.Since(began)))
		}
		defer func() { // also when the handler panics
			switch {
			case returned && http1.AnswersLater(w, write):
				return
			case a.status != 0:
			case !returned:
				a.status = http.StatusInternalServerError // the connection ends without an answer
			case r.Header.Get("Upgrade") != "":
				a.status = http.StatusSwitchingProtocols
			default:
				a.status = http.StatusOK // net/http's answer of a handler that writes nothing
			}
			write(a.status, a.bytes)
		}()
		of.ServeHTTP(a, r)
		returned = true
	})
}

// An access log: a line for each request, with the client's address, the status, the bytes of the
// body and the time that the handler took.
func Example_accessLog() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "now")
		http.NewResponseController(w).Flush()
		io.WriteString(w, " and then")
	})
	mux.HandleFunc("GET /later", func(w http.ResponseWriter, r *http.Request) {
		http1.Later(w, r, func(answer *http1.LateAnswer) {
			go answer.Send(http.StatusAccepted, []byte("done"))
		})
	})
	lines := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key { // they differ from run to run
		case "time", "duration":
			return slog.Attr{}
		case "remote":
			host, _, _ := net.SplitHostPort(a.Value.String())
			return slog.String("remote", host)
		}
		return a
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &http1.Server{Handler: accessLog(mux, slog.New(lines))}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	for _, request := range []string{"GET /hello", "GET /stream", "POST /hello", "GET /none", "GET /later"} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequest(method, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	srv.Shutdown(context.Background())
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	// Output:
	// level=INFO msg=request remote=127.0.0.1 method=GET uri=/hello status=200 bytes=5
	// level=INFO msg=request remote=127.0.0.1 method=GET uri=/stream status=200 bytes=12
	// level=INFO msg=request remote=127.0.0.1 method=POST uri=/hello status=405 bytes=19
	// level=INFO msg=request remote=127.0.0.1 method=GET uri=/none status=404 bytes=19
	// level=INFO msg=request remote=127.0.0.1 method=GET uri=/later status=202 bytes=4
}
