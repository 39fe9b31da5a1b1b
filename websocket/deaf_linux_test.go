package websocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
)

// The server sends messages of 16 KiB to many clients until it has closed all that do not read.
// Its memory grows by at most 1.4 times Limits.TotalOutput, 4 MiB and 8 KiB for each of those (the
// stack of a goroutine that writes), and those that read stay. The server runs in a process of its own.
func TestDeafClients(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	type crowd struct{ clients, deaf, total int }
	crowds := []crowd{{500, 500, 32}}
	if testrun.All() {
		crowds = []crowd{{1000, 1000, 32}, {1000, 1000, 128}, {5000, 500, 128}}
	}
	for _, c := range crowds {
		for _, e := range engine.All() {
			t.Run(fmt.Sprintf("%d of %d, %d MiB/%s", c.deaf, c.clients, c.total, e.Name()), func(t *testing.T) {
				grown, left := deafCrowd(t, e, c.clients, c.deaf, c.total)
				t.Logf("grown by %.1f MiB, %.2f of TotalOutput", float64(grown)/(1<<20), float64(grown)/float64(c.total<<20))
				if left != c.clients-c.deaf {
					t.Errorf("%d clients are left, want %d", left, c.clients-c.deaf)
				}
				if most := c.total<<20*14/10 + 4<<20 + c.deaf<<13; grown > most {
					t.Errorf("grown by %d bytes, want at most %d", grown, most)
				}
			})
		}
	}
}

// deafCrowd connects clients, of which the first do not read, and returns by how much the memory
// of the server grows until it has closed those, and how many clients are left then.
func deafCrowd(t *testing.T, e engine.Engine, clients, deaf, total int) (grown, left int) {
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	server := startServer(t, fmt.Sprintf("HONE_DEAF_SERVER=%s %d %d %d", e.Name(), clients, deaf, total))
	for i := range clients {
		nc, err := net.Dial("tcp", server.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(10 * patience))
		p := &peer{nc, t, bufio.NewReaderSize(nc, 512)}
		p.send([]byte(asking()))
		p.switched()
		if i >= deaf {
			reading.Go(func() { io.Copy(io.Discard, p.r) })
		}
	}
	if _, err := fmt.Sscan(server.line(t), &grown, &left); err != nil {
		t.Fatal(err)
	}
	return grown, left
}

// serveDeaf runs in the server process.
func serveDeaf(order string) error {
	var name string
	var clients, deaf, total int
	if _, err := fmt.Sscan(order, &name, &clients, &deaf, &total); err != nil {
		return err
	}
	var e engine.Engine
	if err := e.UnmarshalText([]byte(name)); err != nil {
		return err
	}
	var mu sync.Mutex
	var conns []Conn
	all := make(chan struct{})
	s := &http1.Server{
		Engine: e, Limits: engine.Limits{Conns: -1, TotalOutput: total << 20},
		Handler: &Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if conns = append(conns, c); len(conns) == clients {
				close(all)
			}
			return nil
		}},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(testrun.Narrow{Listener: ln}) }()
	fmt.Println(ln.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin) // its end ends the process
		cancel()
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	Broadcast(ctx, slices.Values(conns), Prepare(Text, []byte("hello"), nil)) // a server at work
	runtime.GC()
	base, err := residentPeak()
	p := Prepare(Binary, make([]byte, 16<<10), nil)
	for err == nil && ctx.Err() == nil {
		Broadcast(ctx, slices.Values(conns), p)
		if s.Stats().Open <= clients-deaf {
			break
		}
	}
	Broadcast(ctx, slices.Values(conns), p) // to those that are left
	peak, err := residentPeak()
	fmt.Println(peak-base, s.Stats().Open)
	io.Copy(io.Discard, os.Stdin)
	s.Close()
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		return ended
	}
	return err
}

// residentPeak returns the largest resident memory of the process since the last call, in bytes.
func residentPeak() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, err
	}
	return kib << 10, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
