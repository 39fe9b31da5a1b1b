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
	nc      net.Conn
	setting sync.Mutex // held around user code

	mu     sync.Mutex
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

// set sets what is wanted. When it has returned, no other call has older news.
func (d *deadlines) set() {
	d.setting.Lock()
	defer d.setting.Unlock()
	for {
		d.mu.Lock()
		reads, writes, news, all := d.reads, d.writes, d.news, d.all
		d.news, d.all = false, false
		d.mu.Unlock()
		if !news {
			return
		}
		if all {
			d.nc.SetDeadline(writes)
		}
		if !all || !reads.Equal(writes) {
			d.nc.SetReadDeadline(reads)
		}
	}
}
