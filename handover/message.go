package handover

import (
	"cmp"
	"fmt"
	"net"
)

// version is the protocol's.
const version = 1

// message is what processes say to each other: the new one Version, then Ready; the old one the rest. In all versions
// the first message has Version, and Refused is understood.
type message struct {
	Version        int    `json:"handover"`
	Refused        string // why
	Sockets        []socket
	Ready, Yielded bool
}

// socket is a listening socket, and the address that it was asked for with.
type socket struct {
	Asked, Network, Bound string
	ln                    net.Listener
}

func (m message) refusal() error {
	return fmt.Errorf("the running process refuses to be replaced: %s", cmp.Or(m.Refused, "no reason given"))
}

func closeAll(all []socket) {
	for _, x := range all {
		x.ln.Close()
	}
}
