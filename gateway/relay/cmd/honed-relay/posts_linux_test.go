package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// doors are how a record comes into honed, and what it has there. Each sends its record twice, as after a lost answer.
var doors = []struct {
	client, topic, kind string
	send                func(t *testing.T, addr, posts, mqtt string)
}{
	{"frames", "", "", func(t *testing.T, addr, _, _ string) {
		c, data := &gateway.Client{Addrs: []string{addr}, ID: "frames"}, []byte("by frames")
		_, err := c.Submit(soon(t), data)
		must(t, err)
		session, err := c.Open(soon(t))
		must(t, err)
		must(t, c.Close(soon(t)))
		again := &gateway.Client{Addrs: []string{addr}, ID: "frames", Epoch: session.Epoch, Unacknowledged: [][]byte{data}}
		must(t, again.Flush(soon(t)))
		must(t, again.Close(soon(t)))
	}},
	{"http", "site/7", "text/plain", func(t *testing.T, _, posts, _ string) {
		for _, want := range []int{http.StatusOK, http.StatusNoContent} {
			r, err := http.NewRequest("POST", "http://"+posts+"/v1/http/site/7", strings.NewReader("by http"))
			must(t, err)
			r.Header = http.Header{"Content-Type": {"text/plain"}, "Producer-Id": {"p"}, "Producer-Epoch": {"0"}, "Producer-Seq": {"0"}}
			resp, err := http.DefaultClient.Do(r)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s instead of %d", resp.Status, want)
			}
		}
		http.DefaultClient.CloseIdleConnections()
	}},
	{"mqtt", "site/8", "text/html", func(t *testing.T, _, _, mqtt string) {
		nc, err := net.Dial("tcp", mqtt)
		must(t, err)
		defer nc.Close()
		const message = "\x00\x06site/8\x00\x01\x0c\x03\x00\x09text/htmlby mqtt"
		for _, turn := range []struct{ say, hear string }{
			{"\x10\x11\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x04mqtt", "\x20"},
			{"\x34\x1e" + message, "\x50\x02\x00\x01"},
			{"\x3c\x1e" + message, "\x50\x02\x00\x01"},
			{"\x62\x02\x00\x01", "\x70\x02\x00\x01"},
		} {
			must(t, nc.SetDeadline(time.Now().Add(time.Minute)))
			_, err := io.WriteString(nc, turn.say)
			must(t, err)
			answer := make([]byte, 64)
			if n, err := nc.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), turn.hear) {
				t.Errorf("%x is answered with %x, %v", turn.say, answer[:n], err)
			}
		}
	}},
}

// TestEveryDoor: what comes by any door is given to a live reader, honed tail, PostgreSQL and, in a run of all tests, Kafka,
// with its topic and content type; and it is once in the table, whose relay is killed after each.
func TestEveryDoor(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	honed, addr, posts, mqtt, data := binary(t), testrun.FreeAddr(t), testrun.FreeAddr(t), testrun.FreeAddr(t), t.TempDir()
	startHoned(t, honed, addr, filepath.Join(t.TempDir(), "log"), "--http", posts, "--mqtt", mqtt)
	live := &gateway.Reader{Addrs: []string{addr}, Name: "live", Start: gateway.FromFirst}
	defer live.Close()
	_, err := live.Open(soon(t))
	must(t, err)
	var want, got []string
	for i, door := range doors {
		table := d.relay(addr, data, "--from", "table")
		door.send(t, addr, posts, mqtt)
		want = append(want, fmt.Sprintf("%s %s %s by %s", door.client, door.topic, door.kind, door.client))
		eventually(t, "the record by "+door.client, func() bool { return d.ask("select count(*)::text from hone_messages") == fmt.Sprint(i+1) })
		table.kill()
	}
	compare := func(where string) {
		t.Helper()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
		got = nil
	}
	show := func(l line) { got = append(got, fmt.Sprintf("%s %s %s %s", l.Client, l.Topic, l.Type, l.Data)) }
	slices.Sort(want)
	for len(got) < len(want) {
		b, err := live.Next(soon(t))
		must(t, err)
		for _, m := range b.Messages {
			show(commandline.Line(&m.Record))
		}
	}
	compare("a live reader")
	out, err := exec.Command(honed, "tail", "--addr", addr).Output()
	must(t, err)
	for text := range strings.Lines(string(out)) {
		var l line
		must(t, json.Unmarshal([]byte(text), &l))
		show(l)
	}
	compare("tail")
	last := d.relay(addr, data, "--from", "table")
	got = strings.Split(d.ask(`select string_agg(client || ' ' || coalesce(topic, '') || ' ' || coalesce(content_type, '') || ' ' || convert_from(data, 'UTF8'), ',') from hone_messages`), ",")
	compare("PostgreSQL")
	last.stop()
	if !testrun.All() {
		return
	}
	k := newBroker(t)
	to := startRelay(t, io.Discard, addr, t.TempDir(), "kafka://"+k.addr+"/messages", "--from", "kafka")
	for _, r := range k.read("messages", func(all []*kgo.Record) bool { return len(all) == len(want) }) {
		show(line{Client: string(r.Key), Topic: header(r, "hone-topic"), Type: header(r, "content-type"), Data: r.Value})
	}
	compare("Kafka")
	to.stop()
}

// TestKafkaPosts: topic and content type are headers of their own.
func TestKafkaPosts(t *testing.T) {
	m := message{Message: gateway.Message{Record: journal.Record{Client: "c", Attributes: []journal.Attribute{
		{Kind: journal.Topic, Value: []byte("t")}, {Kind: journal.ContentType, Value: []byte("text/plain")}, {Kind: journal.Property, Value: []byte("\x01nv")},
	}}}}
	var got []string
	for _, h := range m.record().Headers {
		got = append(got, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	for _, want := range []string{"hone-topic=t", "content-type=text/plain", `hone-attributes=[{"kind":4,"value":"AW52"}]`} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}
