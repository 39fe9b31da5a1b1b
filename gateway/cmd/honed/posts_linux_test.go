package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// produce posts as one producer until ctx ends: each post again until it is answered, also by another honed. It returns how
// many were acknowledged, and how many of these as duplicates.
func produce(ctx context.Context, client *http.Client, addr, name, id string, acked *atomic.Uint64) (posted, again uint64, err error) {
	for ctx.Err() == nil {
		r, err := http.NewRequest("POST", fmt.Sprintf("http://%s/v1/%s/load", addr, name), strings.NewReader(fmt.Sprintf("%s %d a\n%s %d b\n", id, posted, id, posted)))
		if err != nil {
			return posted, again, err
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Header.Set("Producer-Id", id)
		r.Header.Set("Producer-Epoch", "0")
		r.Header.Set("Producer-Seq", fmt.Sprint(posted))
		resp, err := client.Do(r)
		if err != nil { // it is killed
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil, resp.StatusCode == http.StatusServiceUnavailable:
			continue
		case resp.StatusCode == http.StatusNoContent:
			again++
		case resp.StatusCode != http.StatusOK:
			return posted, again, fmt.Errorf("%s, post %d: %s %s", id, posted, resp.Status, text)
		}
		posted++
		acked.Add(1)
	}
	return posted, again, nil
}

// TestPostsThroughKills kills honed with kill -9 while 50 producers post to five clients: each post that was acknowledged is
// stored once, whole and in the order of its producer.
func TestPostsThroughKills(t *testing.T) {
	t.Parallel()
	kills := 3
	if testrun.All() {
		kills = 10
	}
	dir, addr := filepath.Join(t.TempDir(), "log"), testrun.FreeAddr(t)
	start := func() *ran {
		return startGateway(t, dir, "127.0.0.1:0", "--http", addr, "--checkpoint-bytes", "100000")
	}
	g := start()
	const producers, names = 50, 5
	var running sync.WaitGroup
	var acked atomic.Uint64
	var posted [producers]uint64
	var again atomic.Uint64
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: producers}}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range producers {
		running.Go(func() {
			n, duplicates, err := produce(ctx, client, addr, fmt.Sprint("name-", i%names), fmt.Sprint("p", i), &acked)
			if posted[i] = n; err != nil {
				t.Error(err)
			}
			again.Add(duplicates)
		})
	}
	for range kills {
		more := acked.Load() + 2000
		eventually(t, "2,000 more posts", func() bool { return acked.Load() >= more || t.Failed() })
		g.kill()
		g = start()
	}
	stop()
	running.Wait()
	g.kill()
	stored := map[string]uint64{} // by producer: lines
	log, err := journal.OpenReader(dir, nil)
	must(t, err)
	defer log.Close()
	_, err = gateway.Check(t.Context(), log, func(r journal.Record) error {
		id, _, _ := strings.Cut(string(r.Data), " ")
		n := stored[id]
		stored[id]++
		if want := fmt.Sprintf("%s %d %c", id, n/2, "ab"[n%2]); string(r.Data) != want || r.Text(journal.Topic) != "load" {
			return fmt.Errorf("client %s, record %d is %q, want %q", r.Client, r.Seq, r.Data, want)
		}
		return nil
	})
	must(t, err)
	all := uint64(0)
	for i, n := range posted {
		all += n
		if got := stored[fmt.Sprint("p", i)]; got < 2*n || got > 2*n+2 { // the last post may be unanswered
			t.Errorf("producer %d: %d posts were acknowledged, %d records are stored", i, n, got)
		}
	}
	t.Logf("%d kills: %d posts acknowledged, %d of them as duplicates", kills, all, again.Load())
}

// TestPostsAreShown: what a post says of itself is in the lines of tail and export, and a checkpoint has its producer.
func TestPostsAreShown(t *testing.T) {
	t.Parallel()
	dir, addr := filepath.Join(t.TempDir(), "log"), testrun.FreeAddr(t)
	g := startGateway(t, dir, "127.0.0.1:0", "--http", addr)
	r, err := http.NewRequest("POST", "http://"+addr+"/v1/meter/site/7", strings.NewReader(`{"n":1}`))
	must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": "0"} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	const shown = `"client":"meter","epoch":`
	if code, out, errs := honed(t, "tail", "--addr", g.addr); code != commandline.OK || !strings.Contains(out, shown) ||
		!strings.Contains(out, `"topic":"site/7","content_type":"application/json"`) {
		t.Errorf("tail: %d %s%s", code, out, errs)
	}
	for topic, lines := range map[string]int{"site/": 1, "site/8": 0} {
		if code, out, errs := honed(t, "tail", "--addr", g.addr, "--topic", topic); code != commandline.OK || strings.Count(out, "\n") != lines {
			t.Errorf("tail --topic %s: %d %s%s", topic, code, out, errs)
		}
	}
	must(t, g.cmd.Process.Signal(os.Interrupt))
	if code := g.wait(); code != commandline.OK {
		t.Errorf("honed ended with %d", code)
	}
	code, out, errs := honed(t, "export", "--data", dir)
	if code != commandline.OK || !strings.Contains(out, `{"client":"meter","epoch":3,"pos":4,"producer":"p","seen":`) {
		t.Errorf("export: %d %s%s", code, out, errs)
	}
}

// TestPostsPage runs the programs of docs/posts.md, each twice: their posts are stored once.
func TestPostsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/posts.md")
	must(t, err)
	dir, folder, addr := filepath.Join(t.TempDir(), "log"), t.TempDir(), testrun.FreeAddr(t)
	g := startGateway(t, dir, "127.0.0.1:0", "--http", addr)
	for _, c := range []struct{ language, before, after, file, run string }{
		{"sh", "", "", "post.sh", "bash"},
		{"python", "", "", "post.py", "python3"},
		{"js", "", "", "post.mjs", "node"},
		{"go", "package main\n\nimport (\n\"errors\"\n\"net/http\"\n\"strconv\"\n\"strings\"\n\"time\"\n)\n\n", "\nfunc main() {\n\tif err := post(0, \"21.5\"); err != nil {\n\t\tpanic(err)\n\t}\n}\n", "post.go", "go run"},
	} {
		_, code, found := strings.Cut(string(page), "```"+c.language+"\n")
		code, _, _ = strings.Cut(code, "```")
		if !found {
			t.Fatalf("the page has no %s", c.language)
		}
		run := strings.Fields(c.run)
		if _, err := exec.LookPath(run[0]); err != nil {
			testrun.Lacks(t, run[0]+" is missing; make deps installs it")
		}
		path := filepath.Join(folder, c.file)
		must(t, os.WriteFile(path, []byte(c.before+strings.ReplaceAll(code, "127.0.0.1:7180", addr)+c.after), 0o600))
		for range 2 {
			if out, err := exec.CommandContext(t.Context(), run[0], append(run[1:], path)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", c.language, err, out)
			}
		}
	}
	code, out, errs := honed(t, "tail", "--addr", g.addr)
	if want := 2 + 3; code != commandline.OK || strings.Count(out, `"data":"MjEuNQ=="`) != want || strings.Count(out, "\n") != want {
		t.Errorf("%d records are stored, want %d, of curl two: %d %s%s", strings.Count(out, "\n"), want, code, out, errs)
	}
}

// TestPostsNeedAFolder: honed refuses flags of the HTTP door that cannot work.
func TestPostsNeedAFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, says string }{
		{"--http 127.0.0.1:0 --log nats://127.0.0.1:1", "--http and --mqtt need a log in a folder"},
		{"--http-origin https://example.com", "--http-origin needs --http"},
	} {
		code, _, errs := honed(t, append(gatewayArgs(t.TempDir(), "127.0.0.1:0"), strings.Fields(c.line)...)...)
		if code != commandline.Usage || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %s", c.line, code, errs)
		}
	}
	open := "an address that other machines can reach needs tokens"
	if code, _, errs := honed(t, append(gatewayArgs(t.TempDir(), "127.0.0.1:0"), "--http", "0.0.0.0:0")...); code == commandline.OK || !strings.Contains(errs, open) {
		t.Errorf("an open door: %d, %s", code, errs)
	}
}
