package gateway

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/internal/testrun"
)

// BenchmarkMQTT measures small records on 100 connections with 16 in flight each, by MQTT and by frames.
func BenchmarkMQTT(b *testing.B) {
	b.Run("frames", func(b *testing.B) { measure(b, "segments", Default, 100, 16, 0) })
	for qos := byte(1); qos <= 2; qos++ {
		b.Run(fmt.Sprint("qos", qos), func(b *testing.B) { measureMQTT(b, 100, 16, qos) })
	}
}

func measureMQTT(b *testing.B, conns, window int, qos byte) {
	p := startProcess(b, "mqtt")
	all := make([]*device, conns)
	for i := range all {
		all[i] = dialMQTT(b, p.addr, mqtt.V311).connect(fmt.Sprint("c", i), false, "connack 0x0")
	}
	before, data := p.cpu(b), strings.Repeat("d", 128)
	var running sync.WaitGroup
	began := time.Now()
	b.ResetTimer()
	for i, d := range all {
		share := b.N / conns
		if i < b.N%conns {
			share++
		}
		running.Go(func() { flood(b, d.nc, share, window, qos, data) })
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "acked/s")
	b.ReportMetric(float64((p.cpu(b)-before).Microseconds())/float64(b.N), "server-cpu-µs/record")
}

// flood publishes n messages with up to window in flight. What one read has freed goes with one write.
func flood(b *testing.B, nc net.Conn, n, window int, qos byte, data string) {
	in, out, unread := make([]byte, 4<<10), []byte(nil), 0
	publish := func(id byte) {
		if n--; n >= 0 {
			out = append(append(out, 0x30|qos<<1), sized(text("t"), string([]byte{0, id}), data)...)
		}
	}
	left := n
	for id := range window {
		publish(byte(id + 1))
	}
	for {
		if _, err := nc.Write(out); err != nil {
			b.Error(err)
			return
		}
		out = out[:0]
		for len(out) == 0 {
			if left == 0 {
				return
			}
			size, err := nc.Read(in[unread:])
			if err != nil {
				b.Error(err)
				return
			}
			at, whole := 0, unread+size
			for ; at+4 <= whole; at += 4 {
				switch mqtt.Type(in[at] >> 4) {
				case mqtt.Puback, mqtt.Pubcomp:
					left--
					publish(in[at+3])
				case mqtt.Pubrec:
					out = append(out, 0x62, 2, 0, in[at+3])
				default:
					b.Errorf("got %x", in[at:at+4])
					return
				}
			}
			unread = copy(in, in[at:whole])
		}
	}
}

// TestIdleMQTT measures what an idle connection costs the server's process, by MQTT and by frames.
func TestIdleMQTT(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	n := testrun.Sized(1000, 15_000)
	for _, kind := range []string{"mqtt", "segments"} {
		t.Run(kind, func(t *testing.T) { idleMemory(t, kind, n) })
	}
}

// idleMemory measures n connections of one kind.
func idleMemory(t *testing.T, kind string, n int) {
	p := startProcess(t, kind)
	resident := func() (kib int) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		must(t, err)
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		_, err = fmt.Sscan(rest, &kib)
		must(t, err)
		return kib
	}
	connect := func(i int) {
		if kind == "mqtt" {
			dialMQTT(t, p.addr, mqtt.V311).connect(fmt.Sprint("client-", i), false, "connack 0x0")
			return
		}
		(&served{addr: p.addr}).peer(t).hello(first(fmt.Sprint("client-", i)))
	}
	for i := range 100 { // what the first ones cost once
		connect(i)
	}
	before := resident()
	for i := range n {
		connect(100 + i)
	}
	each := float64(resident()-before) * 1024 / float64(n)
	t.Logf("%s: %.0f bytes for each of %d idle connections, sessions included", kind, each, n)
	if most := float64(testrun.Sized(4000, 1280)); each > most {
		t.Errorf("%s: %.0f bytes", kind, each)
	}
}
