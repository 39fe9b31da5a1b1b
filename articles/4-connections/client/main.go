// Command client is the article's client: 500,000 requests over a pool of 2,000 connections.
package main

import (
	"flag"
	"net"
	"time"

	"github.com/hone-go/hone/articles/4-connections/pool"
)

func main() {
	var f pool.Flags
	f.Define()
	p := new(pool.Pool)
	flag.IntVar(&p.MaxIdle, "max-idle", 100, "MaxIdle")
	flag.IntVar(&p.MaxActive, "max-active", 2000, "MaxActive")
	flag.DurationVar(&p.IdleTimeout, "idle-timeout", 20*time.Second, "IdleTimeout")
	flag.DurationVar(&p.MaxConnLifetime, "max-lifetime", 100*time.Second, "MaxConnLifetime")
	flag.BoolVar(&p.Wait, "wait", false, "Wait")
	test := flag.Bool("test", false, "TestOnBorrow with a request")
	flag.Parse()
	p.Dial = func() (net.Conn, error) { return net.Dial("tcp", f.Addr) }
	if *test {
		p.TestOnBorrow = func(conn net.Conn, _ time.Time) error { return pool.Request(conn) }
	}
	defer p.Close()
	f.Run(func() error {
		conn, err := p.Get()
		if err != nil {
			return err
		}
		err = pool.Request(conn)
		p.Put(conn, err != nil)
		return err
	}, p.Dials.Load)
}
