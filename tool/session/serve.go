package session

import (
	"context"
	"net"
	"net/http"
	"time"
)

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
