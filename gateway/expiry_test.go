package gateway

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// TestReaderExpires: a reader without a time of its own keeps the log for Server.ReaderExpiry of running time, by
// default 30 days.
func TestReaderExpires(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ expiry, own, want time.Duration }{
		{want: 30 * day},
		{expiry: 8 * day, want: 8 * day},
		{expiry: 8 * day, own: 40 * day, want: 40 * day},
		{expiry: -1},
		{expiry: -1, own: 4 * time.Hour, want: 4 * time.Hour},
	} {
		t.Run(fmt.Sprint(c.expiry, c.own), func(t *testing.T) {
			var ran atomic.Int64
			up := serve(t, &Server{
				Log: &Memory{}, ReaderExpiry: c.expiry,
				now: func() (int64, int64) { return 1_800_000_000_000 + ran.Load(), ran.Load() },
			})
			must(t, up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: "copy", Start: FromFirst, Expire: c.own}))
			at := func(away time.Duration, holds bool) {
				t.Helper()
				ran.Store(away.Milliseconds())
				up.tick()
				if st := up.state("copy"); st.Holds != holds || st.Expire != c.want || st.Away != away {
					t.Errorf("after %v: %+v", away, st)
				}
			}
			if c.want == 0 {
				at(10_000*day, true)
				return
			}
			at(c.want-time.Second, true)
			at(c.want, false)
			if _, err := up.reader(t, "copy", Stored).Open(soon(t)); err != nil { // back again
				t.Fatal(err)
			}
			up.tick()
			if st := up.state("copy"); !st.Holds || !st.Connected {
				t.Errorf("connected again: %+v", st)
			}
		})
	}
}

// TestReadersAreLimited: what is one share too many is refused.
func TestReadersAreLimited(t *testing.T) {
	up := serve(t, &Server{Log: &Memory{}})
	create := func(name string, shares int) error {
		return up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: name, Shares: shares, Start: FromFirst})
	}
	for i := range mostCursors/maxShares - 1 {
		must(t, create(fmt.Sprint("kept", i), maxShares))
	}
	must(t, create("a", maxShares-1))
	if err := create("b", 2); !errors.Is(err, ErrTooMany) {
		t.Errorf("an order: %v", err)
	}
	must(t, create("b", 1))
	if _, err := up.reader(t, "c", FromFirst).Open(soon(t)); !errors.Is(err, ErrTooMany) {
		t.Errorf("a reader: %v", err)
	}
	must(t, up.OrderReader(soon(t), ReaderOrder{Do: "remove", Name: "b"}))
	if _, err := up.reader(t, "d", FromFirst).Open(soon(t)); err != nil {
		t.Error(err)
	}
}
