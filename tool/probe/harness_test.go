package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.uber.org/goleak"

	"github.com/hone-go/hone/tool/record"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// service is the program in testdata, built once for all tests.
var service string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "probe-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		service = filepath.Join(dir, "service")
		if runtime.GOOS == "windows" {
			service += ".exe"
		}
		build := exec.Command("go", "run", "-exec", "cp", "./testdata/service", service) // keeps what it has linked, unlike go build
		if runtime.GOOS == "windows" {
			build = exec.Command("go", "build", "-o", service, "./testdata/service")
		}
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// running is the running service.
type running struct{ addr string }

// start runs the service until the test ends.
func start(t *testing.T, args ...string) running {
	t.Helper()
	cmd := exec.Command(service, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("it does not say where it is: %v", err)
	}
	return running{strings.TrimSpace(line)}
}

// underLoad calls do while a few clients send requests to the service, each up to 200 per
// second, and returns the answers per second.
func (r running) underLoad(t *testing.T, do func()) float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var answers atomic.Int64
	var clients sync.WaitGroup
	warm := make(chan struct{}, 1)
	for range 4 {
		clients.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for ; ctx.Err() == nil; <-tick.C {
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+"/", nil)
				response, err := client.Do(request)
				if err != nil {
					continue
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				answers.Add(1)
				select {
				case warm <- struct{}{}:
				default:
				}
			}
		})
	}
	select {
	case <-warm:
	case <-time.After(patience):
		t.Error("it does not answer")
	}
	before, began := answers.Load(), time.Now()
	do()
	rate := float64(answers.Load()-before) / time.Since(began).Seconds()
	cancel()
	clients.Wait()
	return rate
}

// sample returns a run's sample.
func sample(rate float64, artefacts ...record.Artefact) record.Sample {
	return record.Sample{Unfit: record.Profiled, Rate: &rate, Artefacts: artefacts}
}

// made builds a profile of a kind from stacks such as "leaf<caller<main" with values.
func made(t *testing.T, kind Kind, lasted time.Duration, stacks map[string]int64) record.Artefact {
	t.Helper()
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: kind.valueType(), Unit: map[string]string{"s": "nanoseconds", "B": "bytes"}[kind.unit()]}},
		PeriodType:    &profile.ValueType{Type: "x", Unit: "count"},
		Period:        1,
		DurationNanos: int64(lasted),
	}
	functions := make(map[string]*profile.Location)
	for stack, value := range stacks {
		s := &profile.Sample{Value: []int64{1, value}}
		for name := range strings.SplitSeq(stack, "<") {
			l := functions[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(functions) + 1), Name: name, Filename: "main.go"}
				p.Function = append(p.Function, f)
				l = &profile.Location{ID: f.ID, Address: f.ID, Line: []profile.Line{{Function: f, Line: int64(10 * len(name))}}}
				p.Location = append(p.Location, l)
				functions[name] = l
			}
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	var data strings.Builder
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	return record.Artefact{Kind: string(kind), Name: string(kind) + ".pb.gz", Data: []byte(data.String())}
}
