package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/race"
)

// TestDemoPage compares the page of a demo that has ended with its JSON: they have the same figures, all of
// them and no others. Whether a load counts depends on the machine.
func TestDemoPage(t *testing.T) {
	cmd := exec.Command("hone", "demo", "--for", fmt.Sprintf("%dms", testrun.Sized(20, 1500)), "--json", "--ui", "127.0.0.1:0", "--ui-stay")
	var printed strings.Builder
	cmd.Stdout = &printed
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
	var address string
	for lines := bufio.NewScanner(said); lines.Scan() && !strings.Contains(lines.Text(), "stays open"); {
		if m := regexp.MustCompile(`live page: (http.*)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	go io.Copy(io.Discard, said)
	shown := endedPage(t, address+"events")
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait() // 4 where a load does not count
	var r race.Report
	if err := json.Unmarshal([]byte(printed.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, printed.String())
	}
	var want []pageSegment
	for _, e := range r.Engines {
		for _, l := range []race.Lap{e.PingPong, e.Pipelined} {
			want = append(want, pageSegment{e.Engine, l.Rate, l.P50, l.P99, l.ServerCPU})
		}
	}
	for _, b := range r.Beside {
		want = append(want, pageSegment{b.Engine, b.Rate, b.P50, b.P99, nil})
	}
	if len(shown) != len(want) {
		t.Fatalf("the page shows %d loads of %d", len(shown), len(want))
	}
	for i, w := range want {
		if got := shown[i].String(); got != w.String() {
			t.Errorf("the page shows %s, the JSON has %s", got, w)
		}
	}
}

// pageSegment is a row of the page's table.
type pageSegment struct {
	Name                string
	Rate, P50, P99, CPU *float64
}

func (l pageSegment) String() string {
	text := l.Name
	for _, v := range []*float64{l.Rate, l.P50, l.P99, l.CPU} {
		if v == nil {
			text += " –"
		} else {
			text += fmt.Sprintf(" %.5g", *v)
		}
	}
	return text
}

// endedPage returns the rows of a page that shows how the work ended, and no figures beside them.
func endedPage(t *testing.T, events string) []pageSegment {
	t.Helper()
	answer, err := http.Get(events)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var state struct {
			Status   string
			Segments []pageSegment
			Figures  map[string]float64
		}
		text, found := strings.CutPrefix(lines.Text(), "data: ")
		if found && json.Unmarshal([]byte(text), &state) == nil && (state.Status == "valid" || state.Status == "invalid") {
			if len(state.Figures) > 0 {
				t.Errorf("the page has figures of the last load: %v", state.Figures)
			}
			return state.Segments
		}
	}
	t.Fatalf("the page does not say how the demo ended: %v", lines.Err())
	return nil
}
