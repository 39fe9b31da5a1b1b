package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReaderExpires: a reader without a time of its own keeps the log for Server.ReaderExpiry of running time, by
// default 30 days, and the server's log tells of its end 7 days before and once more then.
func TestReaderExpires(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		expiry, own, want, soon time.Duration
	}{
		{want: 30 * day, soon: 23 * day},
		{expiry: 8 * day, want: 8 * day, soon: 6 * day},
		{expiry: 8 * day, own: 40 * day, want: 40 * day, soon: 33 * day},
		{expiry: -1},
		{expiry: -1, own: 4 * time.Hour, want: 4 * time.Hour, soon: 3 * time.Hour},
	} {
		t.Run(fmt.Sprint(c.expiry, c.own), func(t *testing.T) {
			var said lines
			var ran atomic.Int64
			up := serve(t, &Server{
				Log: &Memory{}, ReaderExpiry: c.expiry, Logger: slog.New(slog.NewTextHandler(&said, nil)),
				now: func() (int64, int64) { return 1_800_000_000_000 + ran.Load(), ran.Load() },
			})
			must(t, up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: "copy", Start: FromFirst, Expire: c.own}))
			at := func(away time.Duration, holds bool, told ...string) {
				t.Helper()
				ran.Store(away.Milliseconds())
				for range 3 {
					up.tick()
				}
				st := up.state("copy")
				if st.Holds != holds || st.Expire != c.want || st.Away != away {
					t.Errorf("after %v: %+v", away, st)
				}
				for _, what := range []string{"a reader that is away expires soon", "a reader has expired"} {
					want := strings.Count(strings.Join(told, "\n"), what)
					if n := strings.Count(said.String(), what); n != want {
						t.Errorf("after %v, %d times %q", away, n, what)
					}
				}
			}
			if c.want == 0 {
				at(10_000*day, true)
				return
			}
			const first, last = "a reader that is away expires soon", "a reader has expired"
			at(c.soon-time.Second, true)
			at(c.soon, true, first)
			at(c.want-time.Second, true, first)
			at(c.want, false, first, last)
			r := up.reader(t, "copy", Stored) // back again
			if _, err := r.Open(soon(t)); err != nil {
				t.Fatal(err)
			}
			up.tick()
			if st := up.state("copy"); !st.Holds || !st.Connected {
				t.Errorf("connected again: %+v", st)
			}
			r.Close()
			waitFor(t, "the end of the reader's connection", func() bool { return !up.state("copy").Connected })
			ran.Add(c.soon.Milliseconds())
			up.tick()
			if n := strings.Count(said.String(), first); n != 2 {
				t.Errorf("away again, %d lines say that the reader expires soon", n)
			}
		})
	}
}

// TestExpiredReadersMakeRoom: when as many readers are remembered as may be, a new one takes the place of the expired
// one that is away for the longest time, and is refused while none has expired.
func TestExpiredReadersMakeRoom(t *testing.T) {
	var ran atomic.Int64
	var log Memory
	settings := func() *Server {
		return &Server{Log: &log, now: func() (int64, int64) { return 1_800_000_000_000 + ran.Load(), ran.Load() }}
	}
	up := serve(t, settings())
	create := func(name string, shares int, expire time.Duration) error {
		return up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: name, Shares: shares, Start: FromFirst, Expire: expire})
	}
	names := func() (all string) {
		for _, st := range up.ReaderStates() {
			if st.Share == 0 && !strings.HasPrefix(st.Name, "kept") {
				all += " " + st.Name
			}
		}
		return all
	}
	for i := range mostCursors/maxShares - 1 {
		must(t, create(fmt.Sprint("kept", i), maxShares, 1000*time.Hour))
	}
	for i, name := range []string{"c", "a", "b"} {
		ran.Store(int64(i) * hour)
		must(t, create(name, maxShares/4, 10*time.Hour))
	}
	must(t, create("d", maxShares/4, 30*time.Hour))
	ran.Store(10 * hour) // c has expired
	if err := create("e", maxShares/2, 0); err == nil {
		t.Error("there is room for two although one has expired")
	}
	must(t, create("e", 1, 0))
	if got := names(); got != " a b d e" {
		t.Errorf("readers%s", got)
	}
	ran.Store(13 * hour)
	r := up.reader(t, "f", FromFirst)
	r.Shares, r.Share = maxShares/2, 0
	if _, err := r.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != " d e f" {
		t.Errorf("readers%s", got)
	}
	r.Close()
	must(t, up.Shutdown(soon(t)))
	up = serve(t, settings())
	must(t, up.Recover(soon(t)))
	if got := names(); got != " d e f" {
		t.Errorf("readers%s after a restart", got)
	}
	if up.readers.shares != mostCursors-maxShares/4+1 {
		t.Errorf("%d shares", up.readers.shares)
	}
}

// lines is what a logger has written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
