package transport

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// deadlines sets the deadlines of an adapter. That is user code, which may wait for a lock that is held
// around a call to its connection: it must not run under the connection's mutex. So what is wanted is
// noted under the mutex, and set outside of it: what was wanted last is what remains.
type deadlines struct {
	setting sync.Mutex // held around user code

	mu     sync.Mutex
	nc     net.Conn // nil: the adapter is not ours any more
	reads  time.Time
	writes time.Time
	news   bool // reads is not set yet
	all    bool // neither is writes
}

// isAdapter reports whether setting a deadline of nc runs user code.
func isAdapter(nc net.Conn) bool {
	if secured, ok := nc.(*tls.Conn); ok {
		nc = secured.NetConn()
	}
	return !IsSocket(nc)
}

// want notes the deadline of reads, or with all that of reads and writes.
func (d *deadlines) want(at time.Time, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads, d.news = at, true
	if all {
		d.writes, d.all = at, true
	}
}

// set sets what is wanted.
func (d *deadlines) set() {
	d.setting.Lock()
	defer d.setting.Unlock()
	for {
		d.mu.Lock()
		nc, reads, writes, news, all := d.nc, d.reads, d.writes, d.news, d.all
		d.news, d.all = false, false
		d.mu.Unlock()
		switch {
		case nc == nil || !news:
			return
		case all && reads.Equal(writes):
			nc.SetDeadline(reads)
		case all:
			nc.SetWriteDeadline(writes)
			nc.SetReadDeadline(reads)
		default:
			nc.SetReadDeadline(reads)
		}
	}
}

// forget has nothing set from now on.
func (d *deadlines) forget() {
	d.setting.Lock()
	defer d.setting.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nc = nil
}
