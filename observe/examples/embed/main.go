// Embed is a web service with hone's admin side embedded: metrics, profiles, counters and
// health, on a listener that the service's clients cannot reach.
//
//	go run ./observe/examples/embed
//	curl http://127.0.0.1:8080/hello/Ann
//	curl http://127.0.0.1:7070/metrics        # or open http://127.0.0.1:7070/ in a browser
//
// To reach the admin side from other machines, set a token and the host name that they use:
//
//	openssl rand -hex 16 > token
//	go run ./observe/examples/embed -admin :7070 -admin-token-file token -admin-host service.example
//
// It is in the module of package observe, which has two dependencies that the library does not
// have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/observe"
)

// drainTime is how long a shutdown waits for requests in progress.
const drainTime = 5 * time.Second

// options are the command's flags.
type options struct {
	addr, admin, tokenFile string
	hosts                  []string
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8080", "serve on `host:port`; port 0 picks a free one")
	flag.StringVar(&o.admin, "admin", "127.0.0.1:7070", "serve the admin side on `host:port` or unix:PATH")
	flag.StringVar(&o.tokenFile, "admin-token-file", "", "the `file` with the token that opens the admin side to other machines")
	flag.Func("admin-host", "allow requests to the admin side under this host `name` too; repeat for more", func(name string) error {
		o.hosts = append(o.hosts, name)
		return nil
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, o, service(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// service is the web service itself.
func service() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "Hello, "+r.PathValue("name")+"!\n")
	})
	return mux
}

// run serves both sides until ctx ends.
func run(ctx context.Context, o options, service http.Handler, stdout, stderr io.Writer) error {
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	token, err := readToken(o.tokenFile)
	if err != nil {
		return err
	}
	var draining atomic.Bool
	latency := new(observe.Latency) // times one request in 128
	srv := &http1.Server{Handler: latency.WrapHTTP(service), Logger: logger}
	admin := &observe.Admin{
		HTTP:    srv.Stats,
		Latency: latency,
		Ready:   func() bool { return !draining.Load() },
		Token:   token,
		Hosts:   o.hosts,
		Info:    observe.Info{Service: "embed", Version: "v1.0.0"},
		Logger:  logger,
	}
	public, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr", err)
	}
	private, err := admin.Listen(o.admin) // refuses an address that other machines can reach unless there is a token
	if err != nil {
		public.Close()
		return fmt.Errorf("%w; choose another address with -admin", err)
	}
	ended := make(chan error, 2)
	go func() { ended <- srv.Serve(public) }()
	go func() { ended <- admin.Serve(private) }()
	fmt.Fprintf(stdout, "serving on http://%v/, admin side on http://%v/\n", public.Addr(), private.Addr())
	var failed error
	waitFor := 2
	select {
	case failed = <-ended:
		waitFor = 1
	case <-ctx.Done():
	}
	draining.Store(true) // /healthz answers 503 from now on, so that load balancers stop sending clients
	limit, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	err = srv.Shutdown(limit)
	err = errors.Join(failed, err, admin.Shutdown(limit)) // last, so that it shows the drain
	for range waitFor {
		<-ended
	}
	return err
}

// readToken reads the token and strips its line end.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("%s is empty; make a token with: openssl rand -hex 16", file)
	}
	return token, nil
}
