package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/natstest"
)

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reports is must where the test may go on, or where a goroutine of its own
// cannot end it.
func reports(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// works ends the test with the error of a call that returns something, too.
func works(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
}

func opened(t *testing.T, url string, o Options) *Log {
	t.Helper()
	o.Replicas, o.Create = 1, true
	log, err := Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

// sample is an envelope of n records of 128 bytes, from client, with sequences from seq.
func sample(client string, seq uint64, n int) []byte {
	var e journal.Encoder
	e.Begin(0)
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, 128)
		if err := e.Record(&journal.Record{Client: client, Epoch: 1, Seq: seq + uint64(i), Data: data}); err != nil {
			panic(err)
		}
	}
	return bytes.Clone(e.Bytes())
}

func appended(t *testing.T, log *Log, envelope []byte, want uint64) {
	t.Helper()
	if pos, err := log.Append(t.Context(), envelope); err != nil || pos != want {
		t.Fatalf("Append: position %d, %v; want %d", pos, err, want)
	}
}

// contents reads a log from a position on.
func contents(t *testing.T, log *Log, from uint64) (all [][]byte) {
	t.Helper()
	must(t, log.Read(t.Context(), from, func(_ uint64, envelope []byte) error {
		all = append(all, bytes.Clone(envelope))
		return nil
	}))
	return all
}

// operator connects to a server as somebody who may do everything.
func operator(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

// TestClusterHoles deletes messages of a stream. Each hole is one *Damage, reading goes on behind it, and
// a replica that is behind is no hole.
func TestClusterHoles(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	js := operator(t, url)
	config := (&Options{Stream: "HOLES", Replicas: 1}).config()
	config.DenyDelete = false
	made, err := js.CreateStream(t.Context(), config)
	must(t, err)
	log, err := Open(t.Context(), url, Options{Stream: "HOLES", ReadOnly: true})
	must(t, err)
	defer log.Close()
	log.stream.tries = 2
	for i := uint64(1); i <= 20; i++ {
		must(t, log.stream.publish(t.Context(), sample("a", i, 1), i, fmt.Sprint("w-", i)))
	}
	for _, pos := range []uint64{5, 6, 7, 12, 19, 20} {
		must(t, made.DeleteMsg(t.Context(), pos))
	}
	for from, want := range map[uint64]string{
		0: "5-7 12-12 19-20 14", 6: "6-7 12-12 19-20 10", 8: "12-12 19-20 10", 13: "19-20 6", 20: "20-20 0", 21: "0",
	} {
		got, n := "", 0
		err := journal.ReadPast(t.Context(), log, from, func(uint64, []byte) error { n++; return nil }, func(d *journal.Damage) error {
			got += fmt.Sprintf("%d-%d ", d.First, d.Last)
			return nil
		})
		if got += strconv.Itoa(n); err != nil || got != want {
			t.Errorf("from %d: %s, %v; want %s", from, got, err, want)
		}
	}
	damage := log.Verify(t.Context(), 0, nil)
	if said := fmt.Sprint(damage); strings.Count(said, " lost: ") != 3 {
		t.Errorf("Verify: %s", said)
	}
	// The leader has what the replica seems to lack.
	if err := log.stream.lacks(t.Context(), 8, 21, 2, errors.New("behind")); err != nil {
		t.Errorf("a replica that is behind: %v", err)
	}
}

// TestClusterWait: an Append of another process wakes those that wait, which ask the leader for nothing.
func TestClusterWait(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	a, b := opened(t, url, Options{}), opened(t, url, Options{})
	done := make(chan error, 1)
	go func() { done <- a.Wait(t.Context(), 2) }()
	for pos := uint64(1); pos <= 2; pos++ {
		appended(t, b, sample("b", pos, 1), pos)
	}
	reports(t, <-done)
	quiet := b.stream.nc.Stats().OutMsgs
	if err := b.Wait(t.Context(), 2); err != nil || b.stream.nc.Stats().OutMsgs != quiet {
		t.Errorf("Wait for what this process has appended asks somebody: %v", err)
	}
	began, before := time.Now(), a.stream.nc.Stats().OutMsgs
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Wait(ctx, 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	asked := a.stream.nc.Stats().OutMsgs - before
	if most := uint64(time.Since(began)/waitEvery) + 2; asked > most {
		t.Errorf("%d requests within %v", asked, time.Since(began))
	}
	a.sequencer.Between(func() { a.sequencer.Breaks(errors.New("test")) })
	if err := a.Wait(t.Context(), 3); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("a broken log: %v", err)
	}
}

// TestNoReplicaAnswers: while no replica answers, a read asks again and again, and finds no damage.
func TestNoReplicaAnswers(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	config := (&Options{Stream: "MUTE", Replicas: 1}).config()
	config.AllowDirect = false
	works(t)(operator(t, url).CreateStream(t.Context(), config))
	log, err := Open(t.Context(), url, Options{Stream: "MUTE", ReadOnly: true})
	must(t, err)
	defer log.Close()
	must(t, log.stream.publish(t.Context(), sample("a", 1, 1), 1, "w-1"))
	log.stream.tries = 2 * maxTimeouts
	before := log.stream.nc.Stats().OutMsgs
	err = log.Read(t.Context(), 1, func(uint64, []byte) error { return nil })
	if damage := (*journal.Damage)(nil); err == nil || errors.As(err, &damage) {
		t.Errorf("Read: %v", err)
	}
	if asked := log.stream.nc.Stats().OutMsgs - before; asked < 2*maxTimeouts {
		t.Errorf("%d requests", asked)
	}
}

// TestTwoWriters: two processes share a stream; each learns what the other has appended.
func TestTwoWriters(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	open := func() *Log {
		log, err := Open(t.Context(), urls, Options{Replicas: 1, Create: true})
		must(t, err)
		t.Cleanup(func() { log.Close() })
		return log
	}
	a, b := open(), open()
	appended(t, a, sample("a", 1, 1), 1)
	appended(t, a, sample("a", 2, 1), 2)
	for range 2 {
		if _, err := b.Append(t.Context(), sample("b", 1, 1)); !errors.Is(err, journal.ErrConflict) {
			t.Fatalf("the one that has not read: %v", err)
		}
	}
	must(t, b.Verify(t.Context(), 0, nil))
	if all := contents(t, b, 1); len(all) != 2 {
		t.Fatalf("%d envelopes", len(all))
	}
	if _, err := b.Append(t.Context(), sample("b", 1, 1)); !errors.Is(err, journal.ErrConflict) {
		t.Fatalf("Verify and Read do not count: %v", err)
	}
	must(t, b.Follow(t.Context(), 1, func(uint64, []byte) error { return nil }))
	appended(t, b, sample("b", 1, 1), 3)
}

// TestLostReply: an envelope that was stored, and whose acknowledgement was lost, is recognised.
func TestLostReply(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	log, err := Open(t.Context(), urls, Options{Replicas: 1, Create: true})
	must(t, err)
	defer log.Close()
	envelope := sample("a", 1, 1)
	if err := log.stream.publish(t.Context(), envelope, 1, log.writer+"-1"); err != nil {
		t.Fatal(err) // the attempt whose reply is lost
	}
	if pos, err := log.place(t.Context(), envelope, log.writer+"-1", true); err != nil || pos != 1 {
		t.Fatalf("position %d, %v", pos, err)
	}
	log.count = 1
	appended(t, log, sample("a", 2, 1), 2)
	if all := contents(t, log, 0); len(all) != 2 {
		t.Errorf("%d envelopes, want 2", len(all))
	}
	// JetStream stores the second one twice.
	must(t, log.stream.publish(t.Context(), sample("a", 2, 1), 3, log.writer+"-2"))
	for _, from := range []uint64{1, 3} {
		all := contents(t, log, from)
		if e, err := journal.Decode(all[len(all)-1]); err != nil || e.Count != 0 {
			t.Errorf("from %d: the double has %d records (%v)", from, e.Count, err)
		}
	}
	// It stores another one behind a foreign envelope, which the caller has not seen.
	foreign, late := sample("b", 1, 1), sample("a", 3, 1)
	for i, b := range [][]byte{foreign, late} {
		must(t, log.stream.publish(t.Context(), b, 4+uint64(i), []string{"other-1", log.writer + "-3"}[i]))
	}
	if _, err := log.place(t.Context(), late, log.writer+"-3", true); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("stored behind another writer: %v", err)
	}
}

// TestClusterRefusals: a stream that is gone, shorter than the mark, or made for something else.
func TestClusterRefusals(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	urls := natstest.Start(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refuses := func(what string, o Options) {
		t.Helper()
		o.Replicas = 1
		log, err := Open(ctx, urls, o)
		if err == nil {
			log.Close()
		}
		var refusal *journal.Refusal
		if !errors.As(err, &refusal) || refusal.Repair == "" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	refuses("no stream", Options{})
	dir := t.TempDir()
	log, err := Open(ctx, urls, Options{Replicas: 1, Create: true, Dir: dir})
	must(t, err)
	appended(t, log, sample("a", 1, 1), 1)
	refuses("the folder is in use", Options{Dir: dir})
	log.Close()

	nc, err := nats.Connect(urls)
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, js.DeleteStream(ctx, defaultStream))
	refuses("the stream is gone", Options{Dir: dir, Create: true})
	config := (&Options{Stream: defaultStream, Replicas: 1}).config()
	works(t)(js.CreateStream(ctx, config))
	refuses("the stream is empty", Options{Dir: dir})
}

// TestStreamSettings: a stream that cannot keep the promise is refused.
func TestStreamSettings(t *testing.T) {
	o := &Options{Stream: "S", Replicas: 3}
	for says, change := range map[string]func(c *jetstream.StreamConfig){
		"has the subjects":              func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") },
		"no_ack":                        func(c *jetstream.StreamConfig) { c.NoAck = true },
		"max_msgs 100":                  func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 },
		"max_bytes 1048576":             func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"deletes messages by age":       func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"subject transform":             func(c *jetstream.StreamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} },
		"lets its messages be deleted":  func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"persist_mode async":            func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"in memory":                     func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"discards old messages":         func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"cannot be trimmed (deny_purge": func(c *jetstream.StreamConfig) { c.DenyPurge = true },
		"has 1 replicas instead of 3":   func(c *jetstream.StreamConfig) { c.Replicas = 1 },
		"does not allow direct gets":    func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"is sealed":                     func(c *jetstream.StreamConfig) { c.Sealed = true },
	} {
		config := o.config()
		must(t, o.checkConfig(config))
		change(&config)
		refusal, _ := errors.AsType[*journal.Refusal](o.checkConfig(config))
		if refusal == nil || !strings.Contains(refusal.What, says) {
			t.Errorf("%v, want %s", refusal, says)
		}
	}
}
