package http1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A late answer that waits costs at most a kilobyte above an idle connection, and no goroutine.
func TestLateMemory(t *testing.T) {
	waiting(t, 1<<10, 0, func(w http.ResponseWriter, r *http.Request, answers chan<- *LateAnswer, _ <-chan struct{}) {
		Later(w, r, func(answer *LateAnswer) { answers <- answer })
	})
}

// A handler that waits has no read buffer of 64 KiB, whether it has said so by Leave or by its first
// Flush.
func TestWaitingHandlersFreeTheirInput(t *testing.T) {
	for name, waits := range map[string]func(w http.ResponseWriter){
		"Leave": Leave,
		"Flush": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, 20<<10, 1, func(w http.ResponseWriter, r *http.Request, answers chan<- *LateAnswer, over <-chan struct{}) {
				waits(w)
				answers <- nil
				<-over
			})
		})
	}
}

// waiting has handlers of many connections wait at the same time, and measures what each costs.
func waiting(t *testing.T, most, goroutines int, handler func(http.ResponseWriter, *http.Request, chan<- *LateAnswer, <-chan struct{})) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	conns := testrun.Sized(500, 10_000)
	answers, over := make(chan *LateAnswer, conns), make(chan struct{})
	s := serve(t, &Server{Engine: engine.Events(engine.Auto), Limits: engine.Limits{Conns: conns + 1}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			handler(w, r, answers, over)
		}
	})})
	clients := exec.Command(os.Args[0], "-test.run", "^TestCrowd$")
	clients.Env, clients.Stderr = append(os.Environ(), fmt.Sprintf("%s=%s %d", crowdRole, s.addr, conns)), os.Stderr
	in, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := clients.StdoutPipe()
	if err == nil {
		err = clients.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clients.Process.Kill(); clients.Wait() })
	said := bufio.NewReader(out)
	answered := func() {
		t.Helper()
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal("the clients have ended: ", err)
		}
	}
	answered()
	before, running := rested(t, s), runtime.NumGoroutine()
	io.WriteString(in, "\n")
	var late []*LateAnswer
	for range conns {
		late = append(late, <-answers)
	}
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	more := runtime.NumGoroutine() - running
	each := (int(m.HeapAlloc+m.StackInuse) - before) / conns
	t.Logf("%d bytes and %d goroutines for %d connections", each, more, conns)
	if each > most || more > goroutines*conns+8 {
		t.Errorf("%d bytes each, and %d goroutines; want at most %d and %d each", each, more, most, goroutines)
	}
	close(over)
	for _, answer := range late {
		if answer != nil {
			answer.Send(200, nil)
		}
	}
	answered()
	in.Close()
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
}

// crowdRole is the address, and the number of connections, of a crowd of clients. Each end has a process of its own, because of
// the descriptors.
const crowdRole = "HONE_HTTP1_CROWD"

// TestCrowd is the clients of the tests above, in another process.
func TestCrowd(t *testing.T) {
	addr, count, _ := strings.Cut(os.Getenv(crowdRole), " ")
	if n, err := strconv.Atoi(count); err == nil {
		if err := gather(addr, n); err != nil {
			t.Fatal(err)
		}
	}
}

// gather has connections ask for an answer, and for another one at the next line of standard input. It says when all have one.
func gather(addr string, n int) (err error) {
	all, buf := make([]net.Conn, n), make([]byte, 1<<10)
	ask := func(request string) error {
		for _, nc := range all {
			io.WriteString(nc, request)
		}
		for _, nc := range all {
			if n, err := nc.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200") {
				return fmt.Errorf("got %.50q, %w", buf[:n], err)
			}
		}
		fmt.Println("answered")
		return nil
	}
	for i := range all {
		if all[i], err = net.Dial("tcp", addr); err != nil {
			return err
		}
	}
	if err := ask(getting("/")); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	err = ask(getting("/wait"))
	io.Copy(io.Discard, in)
	return err
}
