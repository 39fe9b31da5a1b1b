package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/natstest"
)

// natsServers starts a cluster of three nats-servers.
func natsServers(t *testing.T) (urls string) {
	t.Helper()
	dir, binary := t.TempDir(), natstest.Binary(t)
	var routes, clients []string
	for range 3 {
		routes, clients = append(routes, freeAddr(t)), append(clients, freeAddr(t))
	}
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprint("n", i))
		writeFile(t, name+".conf", fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q, sync_interval: always }\ncluster { name: c, listen: %q, routes: [nats://%s] }\n",
			i, clients[i], name, routes[i], strings.Join(routes, ", nats://")))
		launch(t, nil, exec.Command(binary, "-c", name+".conf"))
	}
	return "nats://" + strings.Join(clients, ",nats://")
}

// TestCluster has a honed whose log is in a cluster of three nats-servers, with no other flag for that. A reader gets
// every message in order, a relay brings each into PostgreSQL once, and --retain-size trims the log.
func TestCluster(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	urls, honed, addr, mark := natsServers(t), binary(t), freeAddr(t), t.TempDir()
	gw := startHoned(t, honed, addr, mark, "--log", urls, "--create-stream")
	r := d.relay(addr, t.TempDir())
	read := &received{last: map[string]uint64{}}
	reader := &gateway.Reader{Addrs: []string{addr}, Name: "go", Start: gateway.FromFirst}
	ctx := soon(t)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			b, err := reader.Next(ctx)
			if err != nil || b.Gap != nil {
				return // the test has ended, or the messages behind the gap are missing
			}
			read.mu.Lock()
			for _, m := range b.Messages {
				read.take(&line{Client: m.Client, Seq: m.Seq})
			}
			read.mu.Unlock()
			reader.Ack(b.Position)
		}
	})
	defer reading.Wait()
	defer reader.Close()
	stop := steady(t, addr, "a")
	rows := func() int {
		n, _ := strconv.Atoi(d.ask("select count(*)::text from hone_messages"))
		return n
	}
	eventually(t, "messages at both ends", func() bool { return rows() > 0 && read.count() > 0 })
	if code := gw.stop(); code != commandline.OK {
		t.Fatalf("honed ended with %d: %s", code, gw.text())
	}
	startHoned(t, honed, addr, mark, "--log", urls, "--retain-size", "50000")
	log, err := cluster.Open(t.Context(), urls, cluster.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	eventually(t, "a trimmed log", func() bool {
		first, _, err := log.Bounds()
		return err == nil && first > 1
	})
	n := stop()
	eventually(t, "every message at both ends", func() bool { return rows() == n && read.count() == n })
	d.once("a", n)
	if len(read.skipped) > 0 {
		t.Error(read.skipped)
	}
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
}
