package generators

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
)

// TestMain serves when it is run as the server: the contests below start this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "stalls" {
		period, errPeriod := time.ParseDuration(os.Args[2])
		stall, errStall := time.ParseDuration(os.Args[3])
		if errors.Join(errPeriod, errStall, Serve(os.Stdin, os.Stdout, period, stall)) != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// A request that comes in a stall is not answered before its end, and all are answered.
func TestServerKeepsItsSchedule(t *testing.T) {
	const period, stall = time.Second, 500 * time.Millisecond
	in, orders := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- Serve(in, out, period, stall); out.Close() }()
	lines := json.NewDecoder(bufio.NewReader(said))
	var s status
	if err := lines.Decode(&s); err != nil {
		t.Fatal(err)
	}
	edge := time.Since(begun) // within which the server's epoch lies
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	var asking sync.WaitGroup
	var within, early, answered atomic.Int64
	const requests = 60
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range requests {
		<-tick.C
		asking.Go(func() {
			asked := time.Since(begun)
			response, err := client.Get("http://" + s.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err == nil && string(body) == "hello" {
				answered.Add(1)
			}
			// A busy machine closes the gate late, so nothing is claimed of a stall's first half.
			if phase := asked % period; phase > stall/2+edge && phase < stall-edge {
				within.Add(1)
				if time.Since(begun) < asked-phase+stall {
					early.Add(1)
				}
			}
		})
	}
	asking.Wait()
	transport.CloseIdleConnections()
	if _, err := io.WriteString(orders, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := lines.Decode(&s); err != nil || s.Requests != requests || answered.Load() != requests {
		t.Errorf("%d requests counted and %d answered, not %d, %v", s.Requests, answered.Load(), requests, err)
	}
	orders.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if within.Load() == 0 || early.Load() > 0 {
		t.Errorf("%d of %d requests that came in a stall were answered within it", early.Load(), within.Load())
	}
	if err := Serve(strings.NewReader(""), io.Discard, stall, period); err == nil {
		t.Error("a stall longer than its period")
	}
}

// hone's figures come back, and so does what the server has counted. Other work on the machine only adds to them.
func TestRow(t *testing.T) {
	ground(t, "hone")
}

// The others' commands and results, with the programs themselves where they are installed.
func TestOthers(t *testing.T) {
	if os.Getenv("HONE_TEST_GENERATORS") == "" {
		t.Skip("runs k6 and vegeta; make bench WHAT=generators installs them, HONE_TEST_GENERATORS=1 runs it")
	}
	ground(t, "vegeta", "k6")
}

func ground(t *testing.T, names ...string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	row := Row()
	g := &race.Ground{Dir: t.TempDir(), Self: self, CPUs: []int{fleet.AnyCPU}, Say: func(line string) { t.Log(line) }}
	if row.Servers, err = fleet.Build(t.Context(), "..", g.Dir, fleet.Choose(row.Servers, append(names, computed)), g.Say); err != nil {
		t.Fatal(err)
	}
	samples := row.Round(t.Context(), g, row.Servers)
	if len(samples) != 2*(1+len(names)) {
		t.Fatalf("%+v", samples)
	}
	want := make(map[string]float64)
	for _, s := range samples {
		p99 := s.Figures["p99_us"]
		if s.Server == computed {
			want[s.Case] = p99
		} else if s.Error == "" && (s.Figures["cpu_us"] <= 0 || s.Figures["rate"] < 100 || p99 < 0.9*want[s.Case]) {
			t.Errorf("%+v; computed %.0f", s, want[s.Case])
		}
		if s.Error != "" && !strings.Contains(s.Error, "doubts itself") { // a busy machine
			t.Errorf("%+v", s)
		}
	}
}

func TestQuantile(t *testing.T) {
	stalls := Stalls{500 * time.Millisecond, 300 * time.Millisecond}
	for part, want := range map[float64]float64{0.3: 0, 0.5: 50_000, 0.99: 295_000, 0.999: 299_500} {
		if got := stalls.Quantile(part); math.Abs(got-want) > 1e-6 {
			t.Errorf("quantile %v is %v, want %v", part, got, want)
		}
	}
}
