package commandline

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/hone-go/hone/handover"
	"github.com/hone-go/hone/observe"
)

// Serving are the flags that the commands have in common which run until a signal.
type Serving struct {
	Sockets                      handover.Sockets // that another process may take over
	admin, adminToken, logFormat string
	untilEOF                     bool
}

// Add adds the flags, with the address of the admin side and what --until-eof does.
func (f *Serving) Add(flags *flag.FlagSet, admin, untilEOF string) {
	flags.StringVar(&f.admin, "admin", admin, "serve metrics, profiles and health on `HOST:PORT` or unix:PATH, or off")
	flags.StringVar(&f.adminToken, "admin-token-file", "", "`FILE` with the token that other machines need for the admin side")
	flags.StringVar(&f.logFormat, "log-format", "text", "format of the log on standard error: text or json")
	flags.BoolVar(&f.untilEOF, "until-eof", false, untilEOF)
}

// Logger returns the logger for standard error.
func (f *Serving) Logger(stderr io.Writer) (*slog.Logger, error) {
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(stderr, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(stderr, nil)), nil
	}
	return nil, UsageError{fmt.Errorf("--log-format is text or json, not %q", f.logFormat)}
}

// Context returns a context that ends with ctx, or with --until-eof at the end of standard input.
func (f *Serving) Context(ctx context.Context) context.Context {
	if !f.untilEOF {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process
		defer cancel()
		io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// StartAdmin serves an admin side until stop. token reads the flag's file. If the admin side is off, addr is empty.
func (f *Serving) StartAdmin(side *observe.Admin, token func(flag, path string) (string, error)) (addr string, stop func(), err error) {
	if f.admin == "off" {
		return "", func() {}, nil
	}
	if side.Token, err = token("--admin-token-file", f.adminToken); err != nil {
		return "", nil, err
	}
	ln, err := f.Sockets.Listen("admin "+f.admin, func() (net.Listener, error) { return side.Listen(f.admin) })
	if err != nil {
		return "", nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		side.Serve(ln)
	}()
	return ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		side.Shutdown(ctx) // closes what is left at its end
		<-done
	}, nil
}

// AnswerJSON answers a request with a value as JSON.
func AnswerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

// Metrics writes numbers for Prometheus.
type Metrics struct {
	To     io.Writer
	Labels string // that all have, in braces
}

// Counter writes a number that only rises.
func (m Metrics) Counter(name, help string, value any) { m.write(name, "counter", help, value) }

// Gauge writes any other number.
func (m Metrics) Gauge(name, help string, value any) { m.write(name, "gauge", help, value) }

func (m Metrics) write(name, kind, help string, value any) {
	m.Head(name, kind, help)
	fmt.Fprintf(m.To, "%s%s %v\n", name, m.Labels, value)
}

// Head writes what precedes the values of a metric.
func (m Metrics) Head(name, kind, help string) {
	fmt.Fprintf(m.To, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// AnswerMetrics returns a page of what write writes.
func AnswerMetrics(write func(io.Writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		write(w)
	}
}
