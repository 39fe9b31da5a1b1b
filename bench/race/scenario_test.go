package race

import (
	"os"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/table"
)

// TestScenarioFiles holds the scenario files that are stored to the rows that they were written for.
func TestScenarioFiles(t *testing.T) {
	g := &Ground{Window: time.Second, Warmup: 300 * time.Millisecond, CPUs: []int{0, 1}, Addr: "127.0.0.1:9400"}
	files := 0
	for _, row := range Rows() {
		want := row.File(g)
		if want == "" {
			continue
		}
		files++
		if got, err := os.ReadFile("../results/" + row.Name + ".toml"); err != nil || string(got) != want {
			t.Errorf("bench/results/%s.toml is not the row's, %v; go run ./bench/cmd/peers run %[1]s measures it again", row.Name, err)
		}
	}
	if files < 15 {
		t.Errorf("hone bench measures %d rows", files)
	}
}

// TestFill counts invalid samples as thrown away, and has response times only at a rate.
func TestFill(t *testing.T) {
	const made = `{"valid": false, "invalid_reasons": ["busy"], "runs": [{"name": "a", "samples": [
		{"pair": 1, "valid": false, "metrics": [{"name": "server CPU", "value": 9}]},
		{"pair": 2, "valid": true, "metrics": [{"name": "server CPU", "value": 5}, {"name": "p99", "value": 70}, {"name": "rate", "value": 3}]}]}]}`
	for _, timed := range []bool{false, true} {
		r := new(table.Row)
		r.Valid = true
		if err := fill(r, []byte(made), timed); err != nil {
			t.Fatal(err)
		}
		if r.Valid || r.InvalidReasons[0] != "busy" || r.Retaken != 1 || len(r.Samples) != 1 {
			t.Fatalf("%+v", r)
		}
		s := r.Samples[0]
		_, hasP99 := s.Figures["p99_us"]
		_, hasRate := s.Figures["rate"]
		if s.Server != "a" || s.Round != 1 || s.Figures["cpu_us"] != 5 || hasP99 != timed || hasRate == timed {
			t.Errorf("timed %v: %+v", timed, s)
		}
	}
	if fill(new(table.Row), []byte("nonsense"), false) == nil {
		t.Error("nonsense is a report")
	}
}
