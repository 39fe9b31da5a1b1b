package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// broker is a Kafka of a test: one process, broker and controller.
type broker struct {
	t     testing.TB
	addr  string
	dir   string
	java  string
	paths string // of its classes
	run   *child
}

// newBroker makes and starts a broker.
func newBroker(t testing.TB) *broker {
	t.Helper()
	if !testrun.All() {
		t.Skip("starting Kafka takes half a minute: HONE_TEST_ALL=1 runs this")
	}
	k := &broker{t: t, addr: testrun.FreeAddr(t), dir: t.TempDir()}
	java, err := exec.LookPath("java")
	if err != nil {
		testrun.Lacks(t, "NOT TESTED HERE: Java is not installed; run make deps")
	}
	k.java = java
	list := filepath.Join(k.dir, "classpath")
	out, err := exec.Command("mvn", "-o", "-q", "-B", "-f", "testdata/pom.xml", "dependency:build-classpath", "-Dmdep.outputFile="+list).CombinedOutput()
	if err != nil {
		testrun.Lacks(t, fmt.Sprintf("NOT TESTED HERE: Kafka is not there; run make deps: %v\n%s", err, out))
	}
	text, err := os.ReadFile(list)
	must(t, err)
	k.paths = strings.TrimSpace(string(text))
	controller := testrun.FreeAddr(t)
	writeFile(t, k.config(), fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%s
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%s,CONTROLLER://%s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%s
offsets.topic.replication.factor=1
`, controller, k.addr, controller, filepath.Join(k.dir, "logs")))
	format := exec.Command(k.java, "-cp", k.paths, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", k.config())
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	k.start()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addr))
	must(t, err)
	defer client.Close()
	request, topic := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "messages", 4, 1
	request.Topics = append(request.Topics, topic)
	if answer, err := request.RequestWith(soon(t), client); err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatal(err, answer)
	}
	return k
}

func (k *broker) config() string { return filepath.Join(k.dir, "server.properties") }

func (k *broker) start() {
	k.t.Helper()
	k.run = launch(k.t, io.Discard, exec.Command(k.java, "-Xmx512m", "-cp", k.paths, "kafka.Kafka", k.config()))
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addr))
	must(k.t, err)
	defer client.Close()
	eventually(k.t, "Kafka's start", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return client.Ping(ctx) == nil || k.run.isEnded()
	})
	if k.run.isEnded() {
		k.t.Fatal(k.run.text())
	}
}

// read reads messages of the topic until enough says that these are all.
func (k *broker) read(topic string, enough func(all []*kgo.Record) bool) (all []*kgo.Record) {
	k.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	must(k.t, err)
	defer client.Close()
	ctx := soon(k.t)
	for !enough(all) {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			k.t.Fatalf("%d messages have come: %v", len(all), fetches.Errors())
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, r) })
	}
	return all
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// kafkaLines returns records as lines. Those of one partition are in order, and so are each client's.
func kafkaLines(t testing.TB, all []*kgo.Record) (lines []line) {
	t.Helper()
	of := map[string]int32{}
	for _, r := range all {
		client := string(r.Key)
		if p, known := of[client]; known && p != r.Partition {
			t.Fatalf("%s is in the partitions %d and %d", client, p, r.Partition)
		}
		of[client] = r.Partition
		lines = append(lines, line{Key: header(r, "hone-key"), Client: client, Data: r.Value})
	}
	return lines
}

// TestKafka: a real broker that is killed twice gets every message, in order per client, and what it refuses is in
// the dead-letter log.
func TestKafka(t *testing.T) {
	t.Parallel()
	const clients = 4
	k := newBroker(t)
	n, addr, data := testrun.Sized(3000, 50_000), newGateway(t), t.TempDir()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range clients {
			submit(t, addr, fmt.Sprint("client-", i), n, numbered)
		}
	}()
	to := "kafka://" + k.addr + "/messages"
	r := startRelay(t, io.Discard, addr, data, to, "--batch-messages", "500", "--request-time", "10s", "--retry-time", "1s")
	for kill := range 2 {
		eventually(t, "progress", func() bool { return r.stats().Records >= uint64((kill+1)*clients*n/4) })
		k.run.kill()
		k.start()
	}
	<-sent
	unique := func(all []*kgo.Record) int {
		seen := map[string]bool{}
		for _, r := range all {
			seen[header(r, "hone-key")] = true
		}
		return len(seen)
	}
	all := k.read("messages", func(all []*kgo.Record) bool { return unique(all) == clients*n })
	t.Logf("%d of %d messages came more than once", ordered(t, kafkaLines(t, all), clients, n), clients*n)
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
}

// TestKafkaPoison: a message that is too large for the topic goes to the dead-letter log, and the client's later ones
// wait. When the topic takes it, it is retried.
func TestKafkaPoison(t *testing.T) {
	t.Parallel()
	k := newBroker(t)
	addr, data := newGateway(t), t.TempDir()
	writeFile(t, k.config(), string(mustRead(t, k.config()))+"message.max.bytes=20000\n")
	k.run.kill()
	k.start()
	bad := func(i int) string {
		if i == 50 {
			return random(30_000)
		}
		return numbered(i)
	}
	submit(t, addr, "bad", 100, bad)
	submit(t, addr, "good", 100, numbered)
	to := "kafka://" + k.addr + "/messages"
	r := startRelay(t, io.Discard, addr, data, to, "--request-time", "10s")
	eventually(t, "what is good", func() bool { return r.stats().Records == 149 && r.stats().Dead == 1 && r.stats().Waiting == 50 })
	dead := deadLines(t, data)
	if len(dead) != 51 || dead[0].Seq != 50 || !strings.Contains(dead[0].Reason, "MESSAGE_TOO_LARGE") {
		t.Errorf("%d letters, %s", len(dead), dead[0].Reason)
	}
	writeFile(t, k.config(), strings.Replace(string(mustRead(t, k.config())), "=20000", "=200000", 1))
	k.run.kill()
	k.start()
	verb(t, data, "retry", "--all")
	all := k.read("messages", func(all []*kgo.Record) bool { return len(all) >= 200 })
	seq := 0
	for _, l := range kafkaLines(t, all) {
		if l.Client == "bad" {
			if seq++; l.Key != fmt.Sprintf("bad/%s/%d", strings.Split(l.Key, "/")[1], seq) {
				t.Fatalf("%s came as number %d", l.Key, seq)
			}
		}
	}
	if seq != 100 || len(all) != 200 {
		t.Errorf("%d of bad, %d of all", seq, len(all))
	}
}
