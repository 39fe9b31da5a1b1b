package journal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/natstest"
)

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
	config := (&ClusterOptions{Stream: "HOLES", Replicas: 1}).config()
	config.DenyDelete = false
	made, err := js.CreateStream(t.Context(), config)
	must(t, err)
	log, err := OpenCluster(t.Context(), url, ClusterOptions{Stream: "HOLES", ReadOnly: true})
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
		err := ReadPast(t.Context(), log, from, func(uint64, []byte) error { n++; return nil }, func(d *Damage) error {
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
	a, b := openedCluster(t, url, ClusterOptions{}), openedCluster(t, url, ClusterOptions{})
	done := make(chan error, 1)
	go func() { done <- a.Wait(t.Context(), 2) }()
	for pos := uint64(1); pos <= 2; pos++ {
		appended(t, b, sample("b", pos, 1), pos)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
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
	a.turn.mu.Lock()
	a.turn.breaks(errors.New("test"))
	a.turn.mu.Unlock()
	a.turn.tell(0, ErrBroken)
	if err := a.Wait(t.Context(), 3); !errors.Is(err, ErrBroken) {
		t.Errorf("a broken log: %v", err)
	}
}

// TestNoReplicaAnswers: while no replica answers, a read asks again and again, and finds no damage.
func TestNoReplicaAnswers(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	config := (&ClusterOptions{Stream: "MUTE", Replicas: 1}).config()
	config.AllowDirect = false
	if _, err := operator(t, url).CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	log, err := OpenCluster(t.Context(), url, ClusterOptions{Stream: "MUTE", ReadOnly: true})
	must(t, err)
	defer log.Close()
	must(t, log.stream.publish(t.Context(), sample("a", 1, 1), 1, "w-1"))
	log.stream.tries = 2 * maxTimeouts
	before := log.stream.nc.Stats().OutMsgs
	err = log.Read(t.Context(), 1, func(uint64, []byte) error { return nil })
	if damage := (*Damage)(nil); err == nil || errors.As(err, &damage) {
		t.Errorf("Read: %v", err)
	}
	if asked := log.stream.nc.Stats().OutMsgs - before; asked < 2*maxTimeouts {
		t.Errorf("%d requests", asked)
	}
}

// TestClusterRead: what a server reads for its readers it does not know for its Append, and Measure knows
// roughly how large the stream is.
func TestClusterRead(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	open := func(create bool) *Cluster {
		log, err := OpenCluster(t.Context(), url, ClusterOptions{Stream: "READ", Replicas: 1, Create: create})
		must(t, err)
		t.Cleanup(func() { log.Close() })
		return log
	}
	a, b := open(true), open(false)
	for i := range uint64(300) {
		if _, err := a.Append(t.Context(), sample("a", i+1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	seen := uint64(0)
	if err := b.Read(t.Context(), 1, func(pos uint64, _ []byte) error { seen = pos; return nil }); err != nil || seen != 300 {
		t.Fatalf("%d, %v", seen, err)
	}
	if _, err := b.Append(t.Context(), sample("b", 1, 1)); !errors.Is(err, ErrConflict) {
		t.Errorf("an Append after a Read: %v", err)
	}
	measure, err := b.Measure(t.Context())
	must(t, err)
	_, all := measure(1)
	begins, half := measure(151)
	if _, none := measure(301); none != 0 || all < 300*100 || half < all/3 || half > all*2/3 || begins != 1 {
		t.Errorf("%d bytes, from the middle on %d, after the end %d; the middle begins at %d", all, half, none, begins)
	}
}
