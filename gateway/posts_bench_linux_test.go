package gateway

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// BenchmarkPosts measures small records one by one on 100 connections that stay open: by HTTP, with producers and without, and
// by frames.
func BenchmarkPosts(b *testing.B) {
	b.Run("frames", func(b *testing.B) { measure(b, "segments", Default, 100, 1, 0) })
	b.Run("posts", func(b *testing.B) { measurePosts(b, 100, false) })
	b.Run("producers", func(b *testing.B) { measurePosts(b, 100, true) })
}

func measurePosts(b *testing.B, conns int, numbered bool) {
	p := startProcess(b, "posts")
	data := strings.Repeat("d", 128)
	all := make([]net.Conn, conns)
	for i := range all {
		nc, err := net.Dial("tcp", p.addr)
		must(b, err)
		defer nc.Close()
		all[i] = nc
	}
	before := p.cpu(b)
	var running sync.WaitGroup
	began := time.Now()
	b.ResetTimer()
	for i, nc := range all {
		share := b.N / conns
		if i < b.N%conns {
			share++
		}
		running.Go(func() {
			request, answer := []byte(nil), make([]byte, 4<<10)
			for n := range share {
				request = fmt.Appendf(request[:0], "POST /v1/c%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n", i, len(data))
				if numbered {
					request = fmt.Appendf(request, "Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\n", n)
				}
				request = append(append(request, "\r\n"...), data...)
				if _, err := nc.Write(request); err != nil {
					b.Error(err)
					return
				}
				size, err := nc.Read(answer) // of one write
				if err == nil && !strings.HasPrefix(string(answer[:size]), "HTTP/1.1 20") {
					err = fmt.Errorf("got %s", answer[:size])
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "acked/s")
	b.ReportMetric(float64((p.cpu(b)-before).Microseconds())/float64(b.N), "server-cpu-µs/record")
}

// TestWaitingPosts: a post that waits for a slow disk costs little more than its record, and no goroutine; one on loan, beside
// these, costs a goroutine.
func TestWaitingPosts(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	conns, lent := testrun.Sized(500, 5000), testrun.Sized(50, 500)
	log := newGate()
	s := &Server{Log: log}
	ln := listen(t)
	postsOn(t, s, ln)
	data := strings.Repeat("d", 128)
	request := []byte("POST /v1/c HTTP/1.1\r\nHost: a\r\nContent-Length: 128\r\n\r\n" + data)
	onLoan := []byte("POST /v1/c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n" + data + "\r\n0\r\n\r\n")
	all, answer := make([]net.Conn, conns+lent), make([]byte, 1<<10)
	ask := func(nc net.Conn, request []byte) {
		t.Helper()
		_, err := nc.Write(request)
		must(t, err)
	}
	for i := range all {
		nc, err := net.Dial("tcp", ln.Addr().String())
		must(t, err)
		defer nc.Close()
		ask(nc, request)
		_, err = nc.Read(answer)
		must(t, err)
		all[i] = nc
	}
	heap := func() int {
		waitFor(t, "buffers to be given back", func() bool { return s.posts.Stats().Lent == 0 })
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	log.set(true, nil)
	queued := 0
	waits := func(of []net.Conn, request []byte, most, goroutines int) {
		t.Helper()
		before, running := heap(), runtime.NumGoroutine()
		for _, nc := range of {
			ask(nc, request)
		}
		queued += len(of)
		waitFor(t, "all to be queued", func() bool { return s.Stats().Queued == queued })
		more := func() int { return runtime.NumGoroutine() - running }
		waitFor(t, "helpers of loops to end", func() bool { return more() <= goroutines*len(of)+8 })
		each := (heap() - before) / len(of)
		t.Logf("%d bytes each for %d posts of 128 bytes, and %d goroutines", each, len(of), more())
		if each > most {
			t.Errorf("%d bytes each", each)
		}
	}
	waits(all[:conns], request, 2<<10, 0)
	waits(all[conns:], onLoan, 40<<10, 3)
	if st := s.posts.Stats(); st.LateHandlers != lent {
		t.Errorf("%d handlers wait on loan", st.LateHandlers)
	}
	log.set(false, nil)
	for _, nc := range all {
		size, err := nc.Read(answer)
		if err != nil || !strings.HasPrefix(string(answer[:size]), "HTTP/1.1 204") {
			t.Fatalf("%.60q, %v", answer[:size], err)
		}
	}
}
