package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

var tenfold = flag.Duration("tenfold", 0, "how long TestTenfold offers too much; 0 skips it")

// TestTenfold offers a gateway with an embedded log, which is a process of its own, ten times what
// it takes at most: it goes on taking nearly as much, in bounded memory, and stores every record
// once. It measures, so it wants a quiet machine: go test -run TestTenfold -v -tenfold 20s.
func TestTenfold(t *testing.T) {
	if *tenfold == 0 {
		t.Skip("measures; run it with -tenfold 20s")
	}
	p := startProcess(t, "segments")
	var peak float64
	total := map[string]uint64{}
	for _, window := range []int64{256, 1024} { // as long as the overload: a disk is faster for a few seconds
		got := offer(t, p, fmt.Sprint("peak", window), 4, window, 0, *tenfold, total)
		t.Logf("4 connections x %d: %.0f/s", window, got)
		peak = max(peak, got)
	}
	memory := make(chan [2]int64)
	ended := make(chan struct{})
	go func() { memory <- p.watch(t, *tenfold, ended) }()
	got := offer(t, p, "tenfold", 40, 0, 10*peak/40, *tenfold, total)
	close(ended)
	rss := <-memory
	p.stop()
	log, err := journal.OpenSegments(p.dir, journal.SegmentsOptions{})
	must(t, err)
	defer log.Close()
	stored := map[string]uint64{}
	if _, err := Check(context.Background(), log, func(r journal.Record) error { stored[r.Client] = r.Seq; return nil }); err != nil {
		t.Fatal(err)
	}
	var acked, lost uint64
	for client, n := range total {
		acked += n
		lost += n - min(n, stored[client])
	}
	t.Logf("offered 10 x %.0f/s: %.0f/s acknowledged, %.2f of the peak; memory at most %d MB in the first half and %d MB in the second; "+
		"%d acknowledged in all, %d lost, 0 stored twice", peak, got, got/peak, rss[0]>>20, rss[1]>>20, acked, lost)
	if lost > 0 {
		t.Error("acknowledged records are lost")
	}
	if got < 0.9*peak {
		t.Errorf("%.2f of the peak, want 0.9", got/peak)
	}
	if rss[1] > rss[0]+rss[0]/4 {
		t.Error("the memory grows")
	}
}

// offer has connections submit records of 128 bytes as fast as each may, or at a rate, whether or
// not they are acknowledged: window 0 is none. It returns how many a second were acknowledged,
// and adds how many each client has sent, all of which were acknowledged in the end.
func offer(t *testing.T, p *process, name string, conns int, window int64, rate float64, long time.Duration, total map[string]uint64) float64 {
	t.Helper()
	var acked atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	end := began.Add(long)
	for n := range conns {
		client := fmt.Sprint(name, "-", n)
		nc, err := net.Dial("tcp", p.addr)
		must(t, err)
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(end.Add(patience))
		if _, err := nc.Write(wire.Standard.Append(nil, wire.Packet{Command: wire.Conn, ID: 1, Content: first(client).append(nil)})); err != nil {
			t.Fatal(err)
		}
		if packet, err := readOne(nc); err != nil || packet.Result != wire.OK {
			t.Fatalf("%+v, %v", packet, err)
		}
		room := make(chan struct{}, 1)
		var mine, sent atomic.Int64
		all.Go(func() {
			n := submitAll(t, nc, began, end, rate, func() int64 {
				for window > 0 && sent.Load()-mine.Load() >= window && time.Now().Before(end) {
					<-room
				}
				if window == 0 {
					return 64
				}
				return window - sent.Load() + mine.Load()
			}, &sent)
			mu.Lock()
			total[client] = n
			mu.Unlock()
			nc.(*net.TCPConn).CloseWrite() // the server answers what was sent, and ends
		})
		all.Go(func() {
			in := bufio.NewReaderSize(nc, 64<<10)
			defer close(room)
			for seq := uint64(1); ; seq++ {
				var ack [14]byte
				if _, err := io.ReadFull(in, ack[:]); err != nil {
					if n := uint64(sent.Load()); seq != n+1 {
						t.Errorf("%s: %d of %d acknowledged: %v", client, seq-1, n, err)
					}
					return
				}
				if ack[4] != 0x82 || binary.BigEndian.Uint64(ack[5:]) != seq || ack[13] != 0 {
					t.Errorf("%s: %x instead of the acknowledgement of %d", client, ack, seq)
					return
				}
				mine.Add(1)
				if time.Now().Before(end) {
					acked.Add(1)
				}
				select {
				case room <- struct{}{}:
				default:
				}
			}
		})
	}
	all.Wait()
	return float64(acked.Load()) / long.Seconds()
}

// submitAll sends records until the end. room is how many may be sent now.
func submitAll(t *testing.T, nc net.Conn, began, end time.Time, rate float64, room func() int64, sent *atomic.Int64) uint64 {
	data, out := make([]byte, 128), []byte(nil)
	for time.Now().Before(end) {
		n := room()
		if rate > 0 {
			due := int64(rate*time.Since(began).Seconds()) - sent.Load()
			if due < n {
				<-time.After(time.Duration(float64(n-due) / rate * float64(time.Second)))
			}
		}
		out = out[:0]
		for i := range uint64(n) {
			out = wire.Standard.Append(out, wire.Packet{Command: wire.Submit, ID: uint64(sent.Load()) + i + 1, Content: data})
		}
		sent.Add(n)
		if _, err := nc.Write(out); err != nil {
			t.Error(err)
			break
		}
	}
	return uint64(sent.Load())
}

// watch returns the most memory that the process had resident in the first half and in the second.
func (p *process) watch(t *testing.T, long time.Duration, ended <-chan struct{}) (most [2]int64) {
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return most
		case <-tick.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		if err != nil {
			t.Error(err)
			return most
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		var kB int64
		if _, err := fmt.Sscan(rest, &kB); err != nil {
			t.Error(err)
			return most
		}
		half := min(int(2*time.Since(began)/long), 1)
		most[half] = max(most[half], kB<<10)
	}
}
