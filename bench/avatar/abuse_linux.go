package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
)

const (
	healthyRate  = 500 // requests a second, over healthyConns
	healthyConns = 10
)

// abuse measures how long healthy clients wait for a cached picture, alone and
// beside strangers who ask, as fast as they are answered, for what costs most and
// for what there is not. The two take turns.
func abuse(ctx context.Context, s settings) error {
	cpus, err := fleet.CPUs()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := fleet.Spawn(ctx, cpus[0], []string{"GOMAXPROCS=1"}, program, "-serve", names()[0])
	if err != nil {
		return err
	}
	defer c.Stop()
	var r ready
	if err := c.Answer(ctx, 20*time.Second, &r); err != nil {
		return fmt.Errorf("%w: %s", err, c.Said())
	}
	return besideStrangers(ctx, c, r.Addr, s)
}

func besideStrangers(ctx context.Context, c *child.Child, addr string, s settings) error {
	var quiet, beside, p50, p99 []float64
	statuses := map[int]int{}
	for round := range s.rounds {
		took := map[bool]load.Quantiles{}
		for _, strangers := range []bool{round%2 == 0, round%2 == 1} {
			q, err := healthy(ctx, addr, s, strangers, statuses)
			if err != nil {
				return err
			}
			took[strangers] = q
		}
		quiet, beside = append(quiet, *took[false].P99), append(beside, *took[true].P99)
		p50 = append(p50, *took[true].P50 / *took[false].P50)
		p99 = append(p99, *took[true].P99 / *took[false].P99)
	}
	memory, err := fleet.ResidentOf(c.PID)
	if err != nil {
		return err
	}
	fmt.Printf("%d healthy requests a second, %d rounds of %v each way, %d strangers\n\n", healthyRate, s.rounds, s.lap, s.conns)
	fmt.Printf("p99 alone            %.0f µs\np99 beside strangers %.0f µs\n", median(quiet), median(beside))
	fmt.Printf("ratio of p99         %.2f (each round's; p50: %.2f)\n", median(p99), median(p50))
	fmt.Printf("strangers' answers   %v\nserver's memory      %d MiB\n", statuses, memory>>20)
	return nil
}

// healthy is how long healthy clients waited.
func healthy(ctx context.Context, addr string, s settings, strangers bool, statuses map[int]int) (load.Quantiles, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	if strangers {
		for i := range s.conns {
			all.Go(func() {
				seen := strange(asking, addr, i)
				mu.Lock()
				defer mu.Unlock()
				for code, n := range seen {
					statuses[code] += n
				}
			})
		}
	}
	r, err := load.Run(ctx, load.Plan{
		Target: load.HTTP{URL: "http://" + addr + targetOf(0)}, Conns: healthyConns, Rate: healthyRate,
		For: s.lap, Warmup: s.warm, MaxLag: time.Second,
	})
	stop()
	all.Wait()
	if err != nil {
		return load.Quantiles{}, err
	}
	if r.Errors["total"] > 0 || r.Latency.P99 == nil {
		return load.Quantiles{}, fmt.Errorf("healthy requests failed: %v", r.Errors)
	}
	return r.Latency, nil
}

// strange asks on one connection after the other until ctx ends, and counts what
// was answered.
func strange(ctx context.Context, addr string, first int) map[int]int {
	seen := map[int]int{}
	for n := first << 32; ctx.Err() == nil; {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			seen[0]++
			continue
		}
		end := context.AfterFunc(ctx, func() { conn.Close() })
		in := bufio.NewReader(conn)
		for err == nil {
			n++
			var code int
			if code, err = askStrangely(conn, in, n); err == nil {
				seen[code]++
			}
		}
		end()
		conn.Close()
	}
	return seen
}

// askStrangely asks for something that nobody has asked for before, or for what
// cannot be.
func askStrangely(conn net.Conn, in *bufio.Reader, n int) (int, error) {
	target := fmt.Sprintf("/v1/%c%c%d.png?size=%d", 'A'+n%26, 'a'+n/26%26, n, 16+n%497)
	switch n % 16 {
	case 1:
		target = "/v1/" + strings.Repeat("a", 6000) + ".png"
	case 3:
		target = "/v1/x.png?size=1000000000"
	case 5:
		target = "/v1/x.png?size=-1"
	case 7:
		target = "/v1/%FF%FE.png"
	case 9:
		target = "/v1/..%2f..%2fetc%2fpasswd"
	case 11:
		target = "/v1/H" + strings.Repeat("%CC%81", 200) + ".png"
	case 13:
		target = "/v1/%E2%80%AE%E2%80%AEabc.svg"
	case 15:
		target = "/v1/" + strings.Repeat("b", 1<<20) + ".png"
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if resp.Close {
		return resp.StatusCode, errors.New("closed")
	}
	return resp.StatusCode, nil
}
