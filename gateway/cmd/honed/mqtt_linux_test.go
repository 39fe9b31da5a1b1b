package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
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

// publisher is a client of MQTT with four ids, each of which it uses again as soon as it may. It keeps its session over
// connections.
type publisher struct {
	name  string
	qos   byte
	five  bool // version 5
	next  int  // message
	slots [4]struct {
		message  int // 0: free
		released bool
	}
	order []int // of the slots in use
	done  atomic.Int64
	nc    net.Conn
	in    *bufio.Reader
	again int // messages sent again
}

func (m *publisher) send(first byte, body ...byte) error {
	_, err := m.nc.Write(append([]byte{first, byte(len(body))}, body...))
	return err
}

// publish sends the message of a slot.
func (m *publisher) publish(i int, again byte) error {
	body := append([]byte{0, 4}, "load"...)
	body = append(body, 0, byte(i+1))
	if m.five {
		body = append(body, 0)
	}
	return m.send(0x30|again<<3|m.qos<<1, fmt.Appendf(body, "%s %d", m.name, m.slots[i].message)...)
}

// connect begins a connection, and sends again what is in flight. present is whether the server knows the session.
func (m *publisher) connect(addr string) (present bool, err error) {
	if m.nc, err = net.DialTimeout("tcp", addr, time.Second); err != nil {
		return false, err
	}
	m.in = bufio.NewReader(m.nc)
	m.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	body := append([]byte{0, 4}, "MQTT\x04\x00\x00\x00"...)
	if m.five {
		body = append([]byte{0, 4}, "MQTT\x05\x00\x00\x00\x05\x11\x00\x00\xff\xff"...)
	}
	err = m.send(0x10, append(append(body, 0, byte(len(m.name))), m.name...)...)
	var answer []byte
	if err == nil {
		_, answer, err = m.receive()
	}
	if err == nil && answer[1] != 0 {
		err = fmt.Errorf("%w: CONNACK %#x", errAnswer, answer[1])
	}
	if err != nil {
		return false, err
	}
	for _, i := range m.order {
		if m.again++; m.slots[i].released {
			err = m.send(0x62, 0, byte(i+1))
		} else {
			err = m.publish(i, 1)
		}
		if err != nil {
			return false, err
		}
	}
	return answer[0] == 1, nil
}

var errAnswer = errors.New("a wrong answer")

func (m *publisher) receive() (first byte, body []byte, err error) {
	if first, err = m.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	size, err := m.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, size)
	_, err = io.ReadFull(m.in, body)
	return first, body, err
}

// run publishes until ctx ends and everything is acknowledged. It goes on after a lost connection.
func (m *publisher) run(ctx context.Context, addr string) error {
	for began, known := time.Now(), false; ; {
		present, err := m.connect(addr)
		if err == nil && known && !present {
			return fmt.Errorf("%s: its session is gone", m.name)
		}
		for known = known || err == nil; err == nil; {
			if ctx.Err() != nil && len(m.order) == 0 {
				return m.nc.Close()
			}
			err = m.step(ctx.Err() != nil)
		}
		if m.nc != nil {
			m.nc.Close()
		}
		if errors.Is(err, errAnswer) || ctx.Err() != nil && time.Since(began) > 5*time.Minute {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// step fills the free slots, and handles one answer.
func (m *publisher) step(ends bool) error {
	for i := range m.slots {
		if s := &m.slots[i]; s.message == 0 && !ends {
			m.next++
			s.message, m.order = m.next, append(m.order, i)
			if err := m.publish(i, 0); err != nil {
				return err
			}
		}
	}
	m.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	first, body, err := m.receive()
	if err != nil {
		return err
	}
	i := int(binary.BigEndian.Uint16(body)) - 1
	if i < 0 || i >= len(m.slots) || m.slots[i].message == 0 {
		return fmt.Errorf("%w: %#x for id %d", errAnswer, first, i+1)
	}
	s := &m.slots[i]
	switch {
	case first == 0x50 && m.qos == 2 && len(body) == 2:
		s.released = true
		return m.send(0x62, body...)
	case first == 0x40 && m.qos == 1 && len(body) == 2, first == 0x70 && s.released:
		*s = struct {
			message  int
			released bool
		}{}
		for at, used := range m.order {
			if used == i {
				m.order = append(m.order[:at], m.order[at+1:]...)
				break
			}
		}
		m.done.Add(1)
		return nil
	}
	return fmt.Errorf("%w: %#x %x", errAnswer, first, body)
}

// TestMQTTThroughKills kills honed with kill -9 while clients publish, each with four ids that it uses again at once: what was
// acknowledged is stored, at QoS 2 once and in order.
func TestMQTTThroughKills(t *testing.T) {
	t.Parallel()
	kills, each := 3, int64(2000)
	if testrun.All() {
		kills, each = 10, 100_000
	}
	dir, addr := filepath.Join(t.TempDir(), "log"), testrun.FreeAddr(t)
	start := func() *ran {
		return startGateway(t, dir, "127.0.0.1:0", "--mqtt", addr, "--checkpoint-bytes", "300000")
	}
	g := start()
	meters := make([]*publisher, 32)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range meters {
		m := &publisher{name: fmt.Sprint("meter-", i), qos: byte(1 + i%2), five: i/2%2 == 0}
		meters[i] = m
		running.Go(func() {
			if err := m.run(ctx, addr); err != nil {
				t.Error(err)
			}
		})
	}
	all := func() (n int64) {
		for _, m := range meters {
			n += m.done.Load()
		}
		return n
	}
	for range kills {
		more := all() + each
		eventually(t, fmt.Sprint(each, " more messages"), func() bool { return all() >= more || t.Failed() })
		g.kill()
		g = start()
	}
	stop()
	running.Wait()
	g.kill()
	log, err := journal.OpenReader(dir, nil)
	must(t, err)
	defer log.Close()
	last, twice := map[string]int{}, map[byte]int{}
	byName := map[string]*publisher{}
	for _, m := range meters {
		byName[m.name] = m
	}
	_, err = gateway.Check(context.Background(), log, func(r journal.Record) error {
		var n int
		if _, err := fmt.Sscanf(string(r.Data), r.Client+" %d", &n); err != nil || r.Text(journal.Topic) != "load" {
			return fmt.Errorf("%s has %q: %v", r.Client, r.Data, err)
		}
		m := byName[r.Client]
		switch {
		case n == last[r.Client]+1:
			last[r.Client] = n
		case n > last[r.Client]:
			return fmt.Errorf("%s: message %d is stored after %d", r.Client, n, last[r.Client])
		default:
			twice[m.qos]++
		}
		return nil
	})
	must(t, err)
	again := 0
	for _, m := range meters {
		if again += m.again; last[m.name] != m.next || int64(m.next) != m.done.Load() {
			t.Errorf("%s: %d of %d messages are stored, %d acknowledged", m.name, last[m.name], m.next, m.done.Load())
		}
	}
	if twice[2] > 0 {
		t.Errorf("%d messages of QoS 2 are stored twice", twice[2])
	}
	t.Logf("%d kills: %d messages acknowledged, %d sent again; of QoS 1 %d are stored twice", kills, all(), again, twice[1])
}

// TestMQTTReconnects: after kill -9 all clients come back at once, and each is in its session in time.
func TestMQTTReconnects(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures time, and opens many connections: run it without -short and without -race")
	}
	n := testrun.Sized(200, 10_000)
	dir, addr := filepath.Join(t.TempDir(), "log"), testrun.FreeAddr(t)
	start := func() *ran {
		return launch(t, exec.Command(os.Args[0], append(gatewayArgs(dir, "127.0.0.1:0"), "--mqtt", addr, "--connections", "12000")...))
	}
	g := start()
	meters := make([]*publisher, n)
	for i := range meters {
		meters[i] = &publisher{name: fmt.Sprint("meter-", i), five: i%2 == 0}
	}
	connect := func(want bool) time.Duration {
		var running sync.WaitGroup
		began, tries := time.Now(), atomic.Int64{}
		for _, m := range meters {
			running.Go(func() {
				for {
					present, err := m.connect(addr)
					if tries.Add(1); err == nil {
						if present != want {
							t.Errorf("%s: session present: %v", m.name, present)
						}
						return
					}
					if m.nc != nil {
						m.nc.Close()
					}
					if time.Since(began) > time.Minute {
						t.Errorf("%s: %v", m.name, err)
						return
					}
					<-time.After(50 * time.Millisecond) // as a client waits
				}
			})
		}
		running.Wait()
		took := time.Since(began)
		t.Logf("%d clients are welcome %v after the start, by %d connections", n, took, tries.Load())
		return took
	}
	connect(false)
	g.kill()
	for _, m := range meters {
		m.nc.Close()
	}
	start()
	if took := connect(true); took > 15*time.Second {
		t.Errorf("%v", took)
	}
	for _, m := range meters {
		m.nc.Close()
	}
}

// TestMQTTNeedsAFolder: honed refuses flags of MQTT that cannot work.
func TestMQTTNeedsAFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, says string }{
		{"--mqtt 127.0.0.1:0 --log nats://127.0.0.1:1", "--http and --mqtt need a log in a folder"},
		{"--mqtt 127.0.0.1:0 --mqtt-level quorum", "--mqtt-level is received or disk, not quorum"},
		{"--mqtt 127.0.0.1:0 --mqtt-keep-alive 65536", "--mqtt-keep-alive is at most 65535 seconds, not 65536"},
	} {
		code, _, errs := honed(t, append(gatewayArgs(t.TempDir(), "127.0.0.1:0"), strings.Fields(c.line)...)...)
		if code != commandline.Usage || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %s", c.line, code, errs)
		}
	}
}
