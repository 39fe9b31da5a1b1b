package record

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// A missing figure is null in JSON and stays missing when read back.
func TestNoFigureInJSON(t *testing.T) {
	s := Series{"rate", "req/s", time.Second, 2 * time.Second, []float64{1, math.NaN(), math.Inf(-1)}}
	text, err := json.Marshal(s)
	if want := `{"name":"rate","unit":"req/s","start_ns":1000000000,"step_ns":2000000000,"values":[1,null,null]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	var back Series
	s.Values[2] = math.NaN()
	if err := json.Unmarshal(text, &back); err != nil || !same(reflect.ValueOf(s), reflect.ValueOf(back)) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, m := range []Metric{{"p99", "µs", Lower, math.NaN()}, {"p99", "µs", Lower, 1.5}} {
		text, err := json.Marshal(m)
		var back Metric
		if err != nil || json.Unmarshal(text, &back) != nil || !same(reflect.ValueOf(m), reflect.ValueOf(back)) {
			t.Errorf("%+v is %s, %v, and %+v", m, text, err, back)
		}
	}
	r := sampleRun("x")
	text, err = json.Marshal(r)
	var keys map[string]any
	if err != nil || json.Unmarshal(text, &keys) != nil || keys["samples"] == nil || keys["paired_with"] != nil {
		t.Errorf("%s, %v", text, err)
	}
}
