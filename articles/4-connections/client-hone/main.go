// Command client-hone is the same client with package conns.
package main

import (
	"context"
	"flag"
	"net"

	"github.com/hone-go/hone/articles/4-connections/pool"
	"github.com/hone-go/hone/conns"
)

func main() {
	var f pool.Flags
	f.Define()
	most := flag.Int("max", 2000, "Max")
	flag.Parse()
	p := conns.New(conns.Config[net.Conn]{
		Max: *most, MaxDials: *most,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", f.Addr)
		},
	})
	ctx := context.Background()
	defer p.Close(ctx)
	f.Run(func() error {
		return p.Do(ctx, func(_ context.Context, conn net.Conn) error { return pool.Request(conn) })
	}, func() int64 { return p.Stats().Dials })
}
