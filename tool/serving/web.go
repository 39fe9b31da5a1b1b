package serving

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

// The services that speak HTTP instead of hone's frames: SocketService upgrades to
// WebSocket.
const (
	WebService    = "http"
	SocketService = "ws"
)

// webServer adapts http1.Server to the interface server.
type webServer struct{ *http1.Server }

// Stats returns the figures of its engine.
func (s webServer) Stats() engine.Stats { return s.Server.Stats().Stats }

// Limits of the service http.
const (
	mostEchoed    = 1 << 20 // bytes
	mostEvents    = 10_000
	defaultEvents = 10
	longestPause  = time.Minute
	defaultPause  = 100 * time.Millisecond
)

// webHandler serves the paths of the service http.
func webHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello, World!\n") })
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /stream", stream)
	return mux
}

// socketHandler upgrades on /echo to connections that echo. Any origin may connect: the
// service has nothing to protect.
func (s *serving) socketHandler(giveWay bool) http.Handler {
	message := func(_ websocket.Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }
	if s.admin.Latency != nil {
		message = s.admin.Latency.WrapMessages(message)
	}
	s.sockets = &websocket.Upgrader{
		Message: message, MessageSize: mostEchoed, GiveWay: giveWay, Logger: s.log,
		Origins: func(*http.Request) bool { return true },
	}
	mux := http.NewServeMux()
	mux.Handle("GET /echo", s.sockets)
	return mux
}

// echo answers with the request's body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostEchoed))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		http.Error(w, fmt.Sprintf("the body is larger than %d bytes", large.Limit), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // no browser should run uploaded content
	w.Write(body)
}

// stream sends server-sent events and flushes each: ?n=10&pause=100ms.
func stream(w http.ResponseWriter, r *http.Request) {
	n, pause := defaultEvents, defaultPause
	query := r.URL.Query()
	var errs [2]error
	if text := query.Get("n"); text != "" {
		n, errs[0] = strconv.Atoi(text)
	}
	if text := query.Get("pause"); text != "" {
		pause, errs[1] = time.ParseDuration(text)
	}
	if errors.Join(errs[:]...) != nil || n < 1 || n > mostEvents || pause < 0 || pause > longestPause {
		http.Error(w, "write it as in ?n=10&pause=100ms: 1 to 10000 events, up to 1m between them", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for i := range n {
		if i > 0 {
			select {
			case <-timer.C:
				timer.Reset(pause)
			case <-r.Context().Done():
				return
			}
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: event %d of %d\n\n", i+1, i+1, n); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}
