package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
)

// kafka produces messages to a topic, with the client as key, so that a client's messages are in one partition,
// in order.
type kafka struct {
	options []kgo.Opt
	client  *kgo.Client // nil: connect first
}

// chunkBytes is how much data is produced at once. Since it is less than ProducerBatchMaxBytes and nothing is sent
// before the flush, a partition's messages go in one Kafka batch: the broker takes all of them or none.
const chunkBytes = 512 << 10

func (k *kafka) open(ctx context.Context) (*gateway.Position, error) {
	if k.client != nil {
		return nil, nil
	}
	client, err := kgo.NewClient(k.options...)
	if err != nil {
		return nil, finalError{err}
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	k.client = client
	return nil, nil
}

// write produces messages and waits until all in-sync replicas have them. A partition takes all of its messages or none of them.
func (k *kafka) write(ctx context.Context, b *batch, at []int) error {
	if _, err := k.open(ctx); err != nil {
		return err
	}
	var mu sync.Mutex // a promise may come behind a Flush that fails
	errs := make([]error, len(at))
	for n, i := range at {
		errs[n] = errUnanswered
		k.client.Produce(ctx, b.messages[i].record(), func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			errs[n] = err
		})
	}
	flushed := k.client.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	if err := settle(b, at, errs); flushed == nil {
		return err
	}
	return flushed
}

var errUnanswered = errors.New("no answer from Kafka")

// settle marks what Kafka has taken, and returns why it has not taken the rest: if it has refused some and others
// failed, why those failed.
func settle(b *batch, at []int, errs []error) (failed error) {
	var no error
	for n, err := range errs {
		switch {
		case err == nil:
			b.done(at[n])
		case refusedByKafka(err):
			no = refusal{err.Error()}
		default:
			failed = cmp.Or(failed, err)
		}
	}
	return cmp.Or(failed, no)
}

func refusedByKafka(err error) bool {
	return slices.ContainsFunc([]error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp},
		func(about error) bool { return errors.Is(err, about) })
}

func (m *message) record() *kgo.Record {
	r := &kgo.Record{Key: []byte(m.Client), Value: m.Data, Timestamp: time.UnixMilli(m.Time), Headers: []kgo.RecordHeader{
		{Key: "hone-key", Value: []byte(m.key())},
		{Key: "hone-number", Value: []byte(number.Format(m.Number))},
		{Key: "hone-epoch", Value: strconv.AppendUint(nil, m.Epoch, 10)},
		{Key: "hone-seq", Value: strconv.AppendUint(nil, m.Seq, 10)},
	}}
	line := commandline.Line(&m.Record)
	for _, text := range [][2]string{{"hone-topic", line.Topic}, {"content-type", line.Type}} {
		if text[1] != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: text[0], Value: []byte(text[1])})
		}
	}
	if len(line.Attributes) > 0 {
		text, _ := json.Marshal(line.Attributes) // numbers and bytes
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "hone-attributes", Value: text})
	}
	return r
}

func (k *kafka) commit(context.Context, *batch) error { return nil }

// close closes the client, which gives up what it has not sent: it must not come later.
func (k *kafka) close() {
	if k.client != nil {
		k.client.Close()
	}
	k.client = nil
}
