package session

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/tool/exit"
)

// Serve serves a page that does not change, to this machine or to whoever has the token, until ctx
// ends.
func (f UI) Serve(ctx context.Context, command string, stderr io.Writer, html []byte) error {
	guard, ln, err := f.listen(command)
	if err != nil {
		return err
	}
	server := guard.Server(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		w.Write(html) // an error means that the client has left
	})))
	fmt.Fprintf(stderr, "hone: page: http://%s/; stop with Ctrl-C\n", ln.Addr())
	if err := ServeUntil(ctx, server, ln); err != nil {
		return exit.Failedf("%s: --ui: %w", command, err)
	}
	return nil
}

// pageEndTime is for responses in flight at the end.
const pageEndTime = time.Second

// ServeUntil serves until ctx ends. It returns an error if the server ends before.
func ServeUntil(ctx context.Context, server *http.Server, ln net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), pageEndTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	<-ended
	return nil
}
