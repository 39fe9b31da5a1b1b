package load

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load/codec"
)

// scribe is testdata/foreign/echo.py.
type scribe struct {
	*child.Child
	codec.Messages
}

func startScribe(t *testing.T) *scribe {
	t.Helper()
	s := &scribe{Child: startForeign(t, exec.CommandContext(context.Background(), foreign(t, "python3", "python3"), "testdata/foreign/echo.py"))}
	var port int
	if err := s.Answer(t.Context(), patience, &port); err != nil {
		t.Fatal(err)
	}
	s.Messages = codec.Messages{Address: fmt.Sprintf("127.0.0.1:%d", port), Framing: framing(t, "len32be"), Match: match(t, "id@0:8")}
	return s
}

// counts returns the requests it has received, its answers, and those out of order.
func (s *scribe) counts(t *testing.T) (had, given, passed int64) {
	t.Helper()
	var all [3]int64
	if err := s.Ask(t.Context(), "count", patience, &all); err != nil {
		t.Fatal(err)
	}
	return all[0], all[1], all[2]
}

// word returns the content of a request that asks for a certain behaviour.
func word(text string) []byte { return append(make([]byte, 8), text...) }

func TestForeignAnswersOutOfOrder(t *testing.T) {
	sideBySide(t)
	s := startScribe(t)
	for _, p := range []Plan{
		{Conns: 3},
		{Conns: 3, Depth: 16},
		{Conns: 3, Rate: 600, MaxLag: time.Second},
	} {
		before, _, passed := s.counts(t)
		p.Target, p.Content, p.Echo, p.Requests = s.Messages, word("echo"), true, 300
		r := measured(t, p)
		had, _, out := s.counts(t)
		t.Logf("%d requests, %d passed by others", r.Requests, out-passed)
		if r.Requests != had-before || r.Errors["total"] != 0 || r.Requests == 0 {
			t.Errorf("%d requests counted, errors %v; the server has had %d", r.Requests, r.Errors, had-before)
		}
		if p.Depth > 1 && out == passed {
			t.Error("everything was answered in its order")
		}
	}
}

// A wrong answer is counted as often as it comes.
func TestForeignWrongContent(t *testing.T) {
	sideBySide(t)
	s := startScribe(t)
	for _, depth := range []int{1, 16} {
		before, _, _ := s.counts(t)
		r := measured(t, Plan{Target: s.Messages, Conns: 2, Depth: depth, Content: word("other"), Echo: true, Requests: 300})
		had, _, _ := s.counts(t)
		if n := had - before; r.Requests != n || n == 0 || r.Errors["wrong_content"] != n || r.Errors["total"] != n {
			t.Errorf("%d requests counted, errors %v; the server has had %d, and answered all wrongly", r.Requests, r.Errors, n)
		}
	}
}

// A protocol violation ends the run with its Kind, and the answers before it count.
func TestForeignFaults(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		word         string
		kind         Kind
		had, answers int64
		try          string
	}{
		{"garbage:50", codec.Garbage, 50, 49, "framing"},
		{"strange", codec.WrongID, 1, 0, "match"},
		{"twice:50", codec.WrongID, 50, 50, "once"},
	} {
		t.Run(c.word, func(t *testing.T) {
			s := startScribe(t)
			o := runPlan(t, context.Background(), Plan{
				Target: s.Messages, Content: word(c.word), Echo: true, Warmup: -1, For: time.Minute, Timeout: 2 * time.Second,
			})
			e := faultOf(t, o.err)
			checkLine(t, e, c.try)
			r := o.result
			if r == nil {
				t.Fatal("nothing was measured: ", e)
			}
			if e.Kind != c.kind || r.Requests != c.answers || r.Errors["total"] != 1 || r.Errors[c.kind.String()] != 1 {
				t.Errorf("kind %v, %d answers, errors %v; want %v once, behind %d answers", e.Kind, r.Requests, r.Errors, c.kind, c.answers)
			}
			// The replacement of the answered request is in flight when the second answer is read.
			if had, _, _ := s.counts(t); had != c.had && (c.word != "twice:50" || had != c.had+1) {
				t.Errorf("the server has had %d requests, want %d", had, c.had)
			}
		})
	}
}

// A connection that ends, or falls silent, at its 50th request costs that request: both sides
// count the same.
func TestForeignLosses(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		word string
		kind Kind
	}{
		{"close:50", Closed},
		{"stall:50", Timeout},
	} {
		t.Run(c.word, func(t *testing.T) {
			sideBySide(t)
			const requests, lost = 200, 4
			s := startScribe(t)
			r := measured(t, Plan{Target: s.Messages, Content: word(c.word), Echo: true, Requests: requests, Timeout: time.Second})
			had, given, _ := s.counts(t)
			if r.Requests != requests || r.Errors[c.kind.String()] != lost || r.Errors["total"] != lost {
				t.Errorf("%d requests, errors %v; want %d, %d of them %v", r.Requests, r.Errors, requests, lost, c.kind)
			}
			if had != requests || given != requests-lost {
				t.Errorf("the server has had %d requests and answered %d", had, given)
			}
		})
	}
}
