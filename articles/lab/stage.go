package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stage is one of the lab's programs: a server, or code that can be timed.
type stage struct {
	serve func(net.Listener) error // nil: no server. It returns once stop was called.
	stop  func()                   // nil: there is nothing to stop
	timed map[string]timed
	// asked answers the orders that only this stage has.
	asked func(order string) (any, error)
}

// timed is code that can be timed: run executes it n times.
type timed struct{ run func(n int) }

// stages returns the constructors of the stages by name.
func stages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){
		"objects":  objectsStage,
		"tasks":    tasksStage,
		"contexts": contextsStage,
	}
	maps.Copy(all, ladderStages())
	maps.Copy(all, connectionStages())
	maps.Copy(all, idleStages())
	maps.Copy(all, avatarStages())
	maps.Copy(all, contextStages())
	return all
}

// ready is a stage's first line of output; Addr is empty if it has no server.
type ready struct {
	Addr  string `json:"addr"`
	Error string `json:"error"`
}

// timing answers an order to time: the cost of one execution.
type timing struct {
	Error  string  `json:"error"`
	NS     float64 `json:"ns"`
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
}

// done answers orders without a result, and orders that failed.
type done struct {
	Error string `json:"error"`
}

// Serve runs the named stage until in ends or ctx
// does. It listens on a free loopback port, prints that on out, and takes orders from in,
// one per line:
//
//	time CASE DURATION             how long one call takes
//	profile FOLDER DURATION [CASE] write cpu and allocs profiles of that duration
//	settle                         collect garbage and return free memory
func Serve(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	make, ok := stages()[name]
	if !ok {
		return fmt.Errorf("lab: no stage %q; use one of %s", name, strings.Join(slices.Sorted(maps.Keys(stages())), ", "))
	}
	lines := json.NewEncoder(out)
	s, err := make()
	if err != nil {
		return fmt.Errorf("lab: %s: %w", name, err)
	}
	first := ready{}
	var serving sync.WaitGroup
	defer serving.Wait()
	if s.stop != nil {
		defer s.stop()
	}
	if s.serve != nil {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("lab: %s: %w", name, err)
		}
		serving.Go(func() { s.serve(ln) }) // stop ends it, so its error means nothing
		first.Addr = ln.Addr().String()
	}
	if err := lines.Encode(first); err != nil {
		return fmt.Errorf("lab: %s: %w", name, err)
	}
	return s.obey(ctx, in, lines)
}

// obey answers orders until in ends. A read that is in progress when ctx ends blocks
// until the process exits.
func (s *stage) obey(ctx context.Context, in io.Reader, out *json.Encoder) error {
	orders := make(chan string)
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case orders <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case order, ok := <-orders:
			if !ok {
				return nil
			}
			answer, err := s.answer(ctx, order)
			if err != nil {
				answer = done{err.Error()}
			}
			if err := out.Encode(answer); err != nil {
				return fmt.Errorf("lab: %w", err)
			}
		}
	}
}

func (s *stage) answer(ctx context.Context, order string) (any, error) {
	words := append(strings.Fields(order), "", "", "", "")
	switch words[0] {
	case "time":
		d, err := time.ParseDuration(words[2])
		code, ok := s.timed[words[1]]
		if err != nil || !ok {
			return nil, fmt.Errorf("no case %q to time", order)
		}
		return code.time(d), nil
	case "profile":
		d, err := time.ParseDuration(words[2])
		if err != nil {
			return nil, err
		}
		return done{}, s.profile(ctx, words[1], d, words[3])
	case "settle":
		debug.FreeOSMemory()
		return done{}, nil
	}
	if s.asked == nil {
		return nil, fmt.Errorf("unknown order %q", order)
	}
	return s.asked(order)
}

// pieces is how many parts a timing is split into. The fastest counts: in the others,
// another process had the CPU.
const pieces = 5

// time finds how many runs fit into a fifth of d, and times that many.
func (t timed) time(d time.Duration) timing {
	n := 1
	for {
		began := time.Now()
		t.run(n)
		took := time.Since(began)
		if took >= d/(2*pieces) || n >= 1<<24 {
			break
		}
		n *= int(min(100, max(2, int64(d)/pieces/max(int64(took), 1))))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fastest := time.Duration(math.MaxInt64)
	for range pieces {
		began := time.Now()
		t.run(n)
		fastest = min(fastest, time.Since(began))
	}
	runtime.ReadMemStats(&after)
	all := float64(n * pieces)
	return timing{NS: float64(fastest) / float64(n), Allocs: float64(after.Mallocs-before.Mallocs) / all,
		Bytes: float64(after.TotalAlloc-before.TotalAlloc) / all}
}

// profile profiles the process for d, while others load it or a case runs.
func (s *stage) profile(ctx context.Context, folder string, d time.Duration, name string) error {
	file, err := os.Create(filepath.Join(folder, "cpu"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	if code, ok := s.timed[name]; ok {
		for until := time.Now().Add(d); time.Now().Before(until) && ctx.Err() == nil; {
			code.run(1)
		}
	} else {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	pprof.StopCPUProfile()
	allocs, err := os.Create(filepath.Join(folder, "allocs"))
	if err != nil {
		return err
	}
	defer allocs.Close()
	runtime.GC() // a heap profile is as of the last collection
	return pprof.Lookup("allocs").WriteTo(allocs, 0)
}

// bytesOf formats a size: 8 B, 4 KiB.
func bytesOf(n int) string {
	if n >= 1024 {
		return strconv.Itoa(n/1024) + " KiB"
	}
	return strconv.Itoa(n) + " B"
}
