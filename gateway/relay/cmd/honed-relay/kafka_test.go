package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestKafkaOutcomes: what Kafka has taken does not come again because others failed.
func TestKafkaOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		errs    []error
		err     error // nil: none, or a refusal
		refused bool
		left    []int
	}{
		{"all taken", []error{nil, nil, nil, nil}, nil, false, nil},
		{"one failed first", []error{kerr.NotLeaderForPartition, nil, kerr.NotLeaderForPartition, nil}, kerr.NotLeaderForPartition, false, []int{1, 5}},
		{"one without an answer", []error{nil, errUnanswered, nil, nil}, errUnanswered, false, []int{3}},
		{"one refused", []error{nil, kerr.MessageTooLarge, nil, nil}, nil, true, []int{3}},
		{"refused and failed", []error{kerr.MessageTooLarge, nil, kerr.NotEnoughReplicas, nil}, kerr.NotEnoughReplicas, false, []int{1, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &batch{messages: make([]message, 8)}
			at := []int{1, 3, 5, 7}
			b.done(0, 2, 4, 6)
			err := settle(b, at, c.errs)
			var no refusal
			if errors.As(err, &no) != c.refused || !c.refused && !errors.Is(err, c.err) {
				t.Error(err)
			}
			if left := b.pending(); !slices.Equal(left, c.left) {
				t.Errorf("%v are left; want %v", left, c.left)
			}
		})
	}
}
