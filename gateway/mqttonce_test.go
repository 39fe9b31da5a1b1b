package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/gateway/journal"
)

// again sends a message at QoS 2 once more.
func (d *device) again(id byte, topic, data string) {
	d.t.Helper()
	d.send(0x3c, text(topic), string([]byte{0, id}), d.properties(), data)
}

func (d *device) release(id byte) {
	d.t.Helper()
	d.send(0x62, string([]byte{0, id}))
}

// TestMQTTOnce: at QoS 2 a message is stored once, however often it is sent, and its id is free when PUBCOMP says so, also
// over restarts, with checkpoints and without.
func TestMQTTOnce(t *testing.T) {
	for _, version := range []mqtt.Version{mqtt.V311, mqtt.V5} {
		for _, checkpoint := range []int{0, 1} {
			log := newGate()
			s := &Server{Log: log, Checkpoint: checkpoint}
			addr := mqttDoorOf(t, s)
			d := dialMQTT(t, addr, version).connect("c", false, "connack 0x0")
			unknown := "pubcomp 2"
			if version == mqtt.V5 {
				unknown = "pubcomp 2 0x92"
			}
			d.publish(2, 1, "t", "a")
			d.want("pubrec 1")
			d.again(1, "t", "a")
			d.want("pubrec 1")
			d.release(1)
			d.want("pubcomp 1")
			d.publish(2, 1, "t", "b") // another message
			d.want("pubrec 1")

			log.set(true, nil) // nothing is answered before it is stored
			d.publish(2, 2, "t", "c")
			d.again(2, "t", "c")
			d.publish(1, 7, "t", "d")
			d.silent()
			log.set(false, nil)
			d.want("pubrec 2", "pubrec 2", "puback 7")
			log.set(true, nil)
			d.release(2)
			d.release(2)
			d.silent()
			log.set(false, nil)
			d.want("pubcomp 2", unknown)
			for id := byte(3); id < 50; id++ {
				d.publish(2, uint16(id), "t", fmt.Sprint(id))
				d.want(fmt.Sprint("pubrec ", id))
				if id%2 == 0 {
					d.release(id)
					d.want(fmt.Sprint("pubcomp ", id))
				}
			}
			must(t, s.Close())

			s = &Server{Log: log, Checkpoint: checkpoint}
			addr = mqttDoorOf(t, s)
			d = dialMQTT(t, addr, version).connect("c", false, "connack 0x0 present")
			d.again(1, "t", "b")
			d.want("pubrec 1")
			d.release(1)
			d.want("pubcomp 1")
			d.publish(2, 2, "t", "e")
			d.want("pubrec 2")
			for id := byte(3); id < 50; id++ {
				if id%2 == 1 {
					d.again(id, "t", fmt.Sprint(id))
					d.want(fmt.Sprint("pubrec ", id))
				}
			}
			if st := s.Stats(); st.Records != 1 || st.Duplicates != 25 {
				t.Errorf("%+v", st)
			}
			// A clean start forgets them, also for what comes later.
			d = dialMQTT(t, addr, version).connect("c", true, "connack 0x0")
			d.publish(2, 2, "t", "f")
			d.want("pubrec 2")
			must(t, s.Shutdown(soon(t)))
			s = &Server{Log: log}
			addr = mqttDoorOf(t, s)
			d = dialMQTT(t, addr, version).connect("c", false, "connack 0x0")
			d.publish(2, 2, "t", "g")
			d.want("pubrec 2")
			must(t, s.Close())
			got := records(t, log)["c"]
			if want := "a,b,c,d,3"; !strings.HasPrefix(strings.Join(got, ","), want) || len(got) != 4+47+3 || strings.Join(got[51:], ",") != "e,f,g" {
				t.Errorf("version %d, checkpoint %d: stored %q", version, checkpoint, got)
			}
		}
	}
}

// TestMQTTOnceAfterRestore: a backup does not know which of its messages are not in flight any more. The client is told
// that it has no session, and what it sends with such an id is stored.
func TestMQTTOnceAfterRestore(t *testing.T) {
	for _, checkpoint := range []int{0, 1} {
		dir := t.TempDir()
		copyTo := func(t *testing.T, from, to string, empty bool) {
			_, err := journal.Backup(t.Context(), filepath.Join(dir, from), filepath.Join(dir, to), journal.BackupOptions{Empty: empty})
			must(t, err)
		}
		served := func(what, name, welcome string, do func(t *testing.T, d *device)) {
			t.Run(fmt.Sprintf("%s, %d", what, checkpoint), func(t *testing.T) {
				log, err := journal.OpenSegments(filepath.Join(dir, name), journal.SegmentsOptions{})
				must(t, err)
				s := &Server{Log: log, Checkpoint: checkpoint}
				do(t, dialMQTT(t, mqttDoorOf(t, s), mqtt.V311).connect("c", false, welcome))
				must(t, s.Close())
				if got := strings.Join(records(t, log)["c"], ","); name == "restored" && got != "a,b" {
					t.Errorf("stored %s", got)
				}
				must(t, log.Close())
			})
		}
		served("the log", "log", "connack 0x0", func(t *testing.T, d *device) {
			d.publish(2, 1, "t", "a")
			d.want("pubrec 1")
			copyTo(t, "log", "backup", false)
			torn := filepath.Join(dir, "backup", "copied") // by a crash in a later backup, which is repeated
			must(t, os.WriteFile(torn, nil, 0o600))
			if log, err := journal.OpenSegments(filepath.Dir(torn), journal.SegmentsOptions{}); err == nil {
				log.Close()
				t.Error("a copy that does not say where it ends is opened")
			}
			copyTo(t, "log", "backup", false)
			d.release(1)
			d.want("pubcomp 1")
		})
		copyTo(t, "backup", "restored", true)
		served("restored", "restored", "connack 0x0", func(t *testing.T, d *device) {
			d.publish(2, 1, "t", "b")
			d.want("pubrec 1")
		})
		served("again", "restored", "connack 0x0 present", func(t *testing.T, d *device) {
			d.again(1, "t", "b")
			d.want("pubrec 1")
		})
	}
}

// TestMQTTInFlight: a client may have as many messages at QoS 2 that it has not released as CONNACK says.
func TestMQTTInFlight(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, Limits: engine.Limits{InFlight: 3}}
	addr := mqttDoorOf(t, s)
	for client, version := range map[string]mqtt.Version{"a": mqtt.V311, "b": mqtt.V5} {
		d := dialMQTT(t, addr, version).connect(client, false, "connack 0x0")
		for id := range uint16(3) {
			d.publish(2, id+1, "t", "x")
			d.want(fmt.Sprint("pubrec ", id+1))
		}
		d.publish(1, 9, "t", "x")
		d.want("puback 9")
		d.release(2)
		d.want("pubcomp 2")
		d.publish(2, 4, "t", "x")
		d.want("pubrec 4")
		d.publish(2, 5, "t", "not stored")
		if version == mqtt.V5 {
			d.want("disconnect 0x93")
		}
		d.want("closed")
		d.nc.Close()
	}
	waitFor(t, "both to be counted", func() bool { return endedFor(s, "too_many_in_flight") == 2 })
	if n := len(shown(t, log)); n != 10 {
		t.Errorf("%d records", n)
	}
}

// TestMQTTWelcome: CONNACK of version 5 says what the server offers, byte by byte.
func TestMQTTWelcome(t *testing.T) {
	d := dialMQTT(t, mqttDoorOf(t, &Server{Log: newGate()}), mqtt.V5)
	d.greet(0x82, 0, "\x11\x00\x00\x00\x09", text(""), text("u"))
	b := make([]byte, 64)
	n, err := d.nc.Read(b)
	must(t, err)
	want := "20 1c 00 00 19 21 04 00 25 00 28 00 29 00 2a 00 27 00 00 ff f3 12 00 01 75 11 00 09 3a 80"
	if got := fmt.Sprintf("% x", b[:n]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestMQTTTakeover: what waits for room on the connection before is stored once, and nothing of a connection that has lost
// the session is.
func TestMQTTTakeover(t *testing.T) {
	log := newGate()
	s := &Server{Log: log, QueueBytes: 4 * (1000 + recordCost)}
	addr := mqttDoorOf(t, s)
	fill, old := dialMQTT(t, addr, mqtt.V5).connect("fill", true, "connack 0x0"), dialMQTT(t, addr, mqtt.V5).connect("c", false, "connack 0x0")
	log.set(true, nil)
	for id := range uint16(4) {
		fill.publish(1, id+1, "t", strings.Repeat("x", 1000))
	}
	waitFor(t, "a full queue", func() bool { return s.Stats().Queued == 4 })
	old.publish(2, 1, "t", "once")
	waitFor(t, "it to wait", func() bool { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return len(s.queue.posts) == 1 })
	newer := dialMQTT(t, addr, mqtt.V5)
	newer.greet(0, 0, "\x11\xff\xff\xff\xff", text("c"))
	waitFor(t, "the session to be asked for", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		for _, p := range s.queue.waiting {
			if len(p.requests) > 0 {
				return true
			}
		}
		return false
	})
	log.set(false, nil)
	newer.want("connack 0x0 present")
	newer.again(1, "t", "once")
	newer.want("pubrec 1")
	s.queue.mu.Lock()
	err := s.put(&post{client: "c", link: &link{posts: true}, level: Received, records: []content{{}}, done: func(error) {}})
	s.queue.mu.Unlock()
	if err != ErrMoved {
		t.Errorf("a message of the connection before: %v", err)
	}
	if got := strings.Join(records(t, log)["c"], ","); got != "once" {
		t.Errorf("stored %s", got)
	}
}
