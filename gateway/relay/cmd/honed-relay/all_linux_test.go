package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/internal/testrun"
)

var allMessages = flag.Int("all", testrun.Sized(0, 400_000), "messages of TestEverythingOut; 0 skips it; from 1,000,000 on with all kills")

// TestEverythingOut takes the messages of 8 clients out through Go, Python, a webhook that fails one request in 20 and
// dies twice, and PostgreSQL, while honed and all of these are killed with kill -9: each message comes everywhere at
// least once and in order, and into PostgreSQL once. HONE_TEST_ALL=1 go test -run TestEverythingOut -all 5000000 -timeout 60m is the long run.
func TestEverythingOut(t *testing.T) {
	if *allMessages == 0 {
		t.Skip("takes 20 s; run it with -all 20000")
	}
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "NOT TESTED HERE: python3 is missing; run make deps")
	}
	d := newDatabase(t)
	const clients = 8
	each, honedKills, kills := *allMessages/clients, 20, 5
	if *allMessages < 1_000_000 {
		honedKills, kills = 4, 2
	}
	all := each * clients
	honed, addr, log := binary(t), testrun.FreeAddr(t), filepath.Join(t.TempDir(), "log")
	gw := startHoned(t, honed, addr, log)
	var running sync.WaitGroup
	for n := range clients {
		running.Go(func() {
			c := &gateway.Client{Addrs: []string{addr}, ID: fmt.Sprint("c", n)}
			for i := range each {
				if _, err := c.SubmitAsync(t.Context(), []byte(numbered(i+1)), nil); err != nil {
					t.Error(err)
					return
				}
			}
			reports(t, c.Close(soon(t)))
		})
	}
	byGo, byPython, byWebhook := newReceived(), newReceived(), newReceived()
	hook := &receiver{t: t, answer: func(n int, _ []line) (int, string) {
		if n%20 == 0 {
			return http.StatusServiceUnavailable, "busy"
		}
		return http.StatusOK, ""
	}, take: func(all []line) {
		byWebhook.mu.Lock()
		defer byWebhook.mu.Unlock()
		for i := range all {
			byWebhook.take(&all[i])
		}
	}}
	hook.start()
	defer func() { hook.die() }()
	hookData, tableData := t.TempDir(), t.TempDir()
	inTable := func() int {
		<-time.After(200 * time.Millisecond) // counting is slow
		n, _ := strconv.Atoi(d.ask("select count(*)::text from hone_messages"))
		return n
	}
	for _, out := range []struct {
		name  string
		count func() int
		start func() *child
		hurt  func(kill int) // what is beyond the reader
	}{
		{"Go", byGo.count, func() *child { return launch(t, byGo.begin(), exec.Command(os.Args[0], "test-reader", addr)) }, nil},
		{"Python", byPython.count, func() *child {
			cmd := exec.Command(python, "-B", "-m", "honed", "read", addr, "python")
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "..", "python"))
			return launch(t, byPython.begin(), cmd)
		}, nil},
		{"webhook", byWebhook.count, func() *child {
			return startRelay(t, nil, addr, hookData, "http://"+hook.addr, "--from", "webhook", "--retry-time", "1s", "--batch-messages", "2000")
		}, func(kill int) {
			if kill < 2 {
				hook.die()
				hook.start()
			}
		}},
		{"PostgreSQL", inTable, func() *child { return d.relay(addr, tableData, "--from", "table", "--batch-messages", "5000") }, func(kill int) {
			if kill == 1 {
				d.kill()
				d.start()
			}
		}},
	} {
		running.Go(func() {
			reader := out.start()
			for kill := range kills {
				eventually(t, out.name+": progress", func() bool { return out.count() > kill*all/kills || reader.isEnded() })
				if out.hurt != nil {
					out.hurt(kill)
				}
				reader.kill()
				reader = out.start()
			}
			eventually(t, out.name+": everything", func() bool { return out.count() == all || reader.isEnded() })
			if reader.isEnded() {
				t.Errorf("%s ended: %s", out.name, reader.text())
			}
			reader.kill()
		})
	}
	for kill := range honedKills {
		eventually(t, "progress", func() bool { return byGo.count() > kill*all/honedKills })
		gw.kill()
		gw = startHoned(t, honed, addr, log)
	}
	running.Wait()
	for name, r := range map[string]*received{"Go": byGo, "Python": byPython, "webhook": byWebhook} {
		t.Logf("%s: %d messages, %d of them again", name, r.count(), r.repeated)
		if len(r.skipped) > 0 || r.count() != all || len(r.last) != clients {
			t.Errorf("%s: %d messages of %d clients, %d problems: %.1000s", name, r.count(), len(r.last), len(r.skipped), r.skipped)
		}
	}
	for n := range clients {
		d.once(fmt.Sprint("c", n), each)
	}
}
