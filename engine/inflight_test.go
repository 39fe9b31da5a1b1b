package engine

import (
	"context"
	"net"
	"testing"
)

// A connection whose context or loan has ended rests with as little memory as before it.
func TestRareStateIsFreed(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for name, use := range map[string]func(k *connRef){
		"context": func(k *connRef) {
			k.owner().watch(context.Background())
			k.owner().visitUnwatched(new(Turn))
		},
		"loan": func(k *connRef) {
			k.s.mu.Lock()
			defer k.s.mu.Unlock()
			k.held().attach().rarely().give = func(net.Conn) ([]byte, bool) { return nil, true }
			k.held().beginLoan(near)
			k.held().endLoan()
		},
		"input": func(k *connRef) {
			k.conn().HoldInput(10)
			k.conn().HoldInput(-10)
		},
	} {
		k := bare(Limits{}).bareConn()
		use(k)
		k.s.mu.Lock()
		if k.held().moments().RestAfter == 0 {
			t.Errorf("%s: the sweeper does not let the connection rest", name)
		}
		if k.held().detach(); k.x.Load() != nil {
			t.Errorf("%s: the connection keeps its inflight", name)
		}
		k.s.mu.Unlock()
	}
}
