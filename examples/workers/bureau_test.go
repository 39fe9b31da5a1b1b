package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
	"github.com/hone-go/hone/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// start runs the program on every engine with one client, and checks how it ends.
func start(t *testing.T, o workers.Options, test func(t *testing.T, ctx context.Context, c *framed.Client)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			serving, stop := context.WithCancel(ctx)
			defer stop()
			stdout, w := io.Pipe()
			var stderr bytes.Buffer
			ended := make(chan error, 1)
			go func() {
				err := run(serving, "127.0.0.1:0", e, o, w, &stderr)
				w.Close()
				ended <- err
			}()
			first, err := bufio.NewReader(stdout).ReadString('\n')
			var addr string
			if n, _ := fmt.Sscanf(first, "listening on %s", &addr); n != 1 {
				t.Fatalf("the first line is %q, %v", first, err)
			}
			c, err := framed.Dial(ctx, addr, framed.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, ctx, c)
			c.Close()
			stop()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
			if !strings.Contains(stderr.String(), "requests done") {
				t.Errorf("it ends with %q", stderr.String())
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	want := func(text string) string {
		answer, err := compute(t.Context(), []byte(text))
		if err != nil || len(answer) != 64 {
			t.Fatalf("compute: %q, %v", answer, err)
		}
		return string(answer)
	}
	auto := workers.Options{Limit: workers.Auto(workers.AutoOptions{})}
	start(t, auto, func(t *testing.T, ctx context.Context, c *framed.Client) {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				text := fmt.Sprint("text ", i)
				ask := map[string]string{"compute": want(text), "ask": text, "mixed": text + " " + want(text)}
				for kind, answer := range ask {
					if got, err := c.Call(ctx, nil, []byte(kind+" "+text)); string(got) != answer || err != nil {
						t.Errorf("%s: %q, %v, want %q", kind, got, err, answer)
					}
				}
			})
		}
		all.Wait()
		if _, err := c.Call(ctx, nil, []byte("sleep")); !errors.Is(err, wire.Malformed) {
			t.Errorf("an unknown kind: %v", err)
		}
	})
}

// One goroutine and no queue: a task that cannot run now is refused, and the connection stays
// open.
func TestOverloaded(t *testing.T) {
	o := workers.Options{Limit: workers.Fixed(1), NoQueue: true}
	start(t, o, func(t *testing.T, ctx context.Context, c *framed.Client) {
		var mu sync.Mutex
		var served, refused int
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				_, err := c.Call(ctx, nil, []byte("ask me"))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					served++
				case errors.Is(err, wire.Overloaded):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if served == 0 || refused == 0 {
			t.Errorf("%d served and %d refused", served, refused)
		}
	})
}

// Requests of clients that have left are done, too: a drain does not wait for what nobody does.
func TestClientsThatLeave(t *testing.T) {
	start(t, workers.Options{Limit: workers.Fixed(1)}, func(t *testing.T, ctx context.Context, c *framed.Client) {
		var all sync.WaitGroup
		answered := make(chan struct{}, 50)
		for range cap(answered) {
			all.Go(func() {
				if _, err := c.Call(ctx, nil, []byte("ask me")); err == nil {
					answered <- struct{}{}
				}
			})
		}
		<-answered
		c.Close()
		all.Wait()
	})
}
