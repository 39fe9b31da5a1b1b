// Command evio is the service on github.com/tidwall/evio.
package main

import (
	"github.com/tidwall/evio"

	"github.com/hone-go/hone/bench/service"
)

func main() {
	service.Main([]string{"loops"}, func(o service.Options, ready func(string)) error {
		return evio.Serve(evio.Events{
			NumLoops:    o.Loops,
			LoadBalance: evio.RoundRobin,
			Serving: func(evio.Server) evio.Action {
				ready(o.Addr)
				return evio.None
			},
			Opened: func(c evio.Conn) ([]byte, evio.Options, evio.Action) {
				c.SetContext(new(evio.InputStream))
				return nil, evio.Options{}, evio.None
			},
			Data: func(c evio.Conn, in []byte) ([]byte, evio.Action) { return onData(o, c, in) },
		}, "tcp://"+o.Addr)
	})
}

// onData answers what is complete. evio keeps the answers until they are sent, so
// they are new memory every time.
func onData(o service.Options, c evio.Conn, in []byte) ([]byte, evio.Action) {
	stream, ok := c.Context().(*evio.InputStream)
	if !ok {
		return nil, evio.Close
	}
	data := stream.Begin(in)
	v := o.Serve(nil, data)
	stream.End(data[v.Used:])
	if v.Close {
		return v.Out, evio.Close
	}
	return v.Out, evio.None
}
