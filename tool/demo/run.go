package demo

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"

	"github.com/hone-go/hone/observe"
)

// Run serves a step on a free loopback port until in ends or ctx does, with hone's admin side on
// another. It first prints both addresses as JSON, as hone serve --json does.
func Run(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	s, err := NewStep(name)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin := &observe.Admin{Stats: s.Stats}
	private, err := admin.Listen("127.0.0.1:0")
	if err != nil {
		ln.Close()
		return err
	}
	var sides sync.WaitGroup
	defer sides.Wait()
	sides.Go(func() { s.Serve(ln) })          // until Close
	sides.Go(func() { admin.Serve(private) }) // until Shutdown
	defer s.Close()
	defer context.AfterFunc(ctx, s.Close)()
	defer admin.Shutdown(ctx)
	err = json.NewEncoder(out).Encode(map[string]string{"addr": ln.Addr().String(), "admin": private.Addr().String()})
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, in) // any end counts
		s.Close()
	}()
	<-s.open.Done()
	return nil
}
