package connections_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/hone-go/hone/articles/4-connections/pool"
	"github.com/hone-go/hone/articles/claim"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// size returns how many connections and requests the article has, or fewer to see that all works.
func size() (workers, requests int) {
	if claim.Whole() {
		return 2000, 500_000
	}
	return 50, 2000
}

// deliver runs a client against a server.
func deliver(t *testing.T, client, addr string, args ...string) pool.Result {
	t.Helper()
	workers, requests := size()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args = append([]string{"--addr", addr, "--requests", strconv.Itoa(requests), "--workers", strconv.Itoa(workers)}, args...)
	out, err := exec.CommandContext(ctx, client, args...).Output()
	var result pool.Result
	if err == nil {
		err = json.Unmarshal(out, &result)
	}
	if err != nil || result.Failed > 0 {
		t.Fatalf("%s %v: %s, %v", client, args, out, err)
	}
	return result
}

func built(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return program
}

// inTurns compares two deliveries by the time of a request.
func inTurns(t *testing.T, name string, a, b func() pool.Result) {
	t.Helper()
	perRequest := func(of func() pool.Result) func() float64 {
		return func() float64 {
			r := of()
			t.Logf("%s: %+v", name, r)
			return 1e9 / r.Rate
		}
	}
	claim.Gain(t, claim.InTurns(t, name, perRequest(a), perRequest(b)), "", 0, "500,000 requests on 2,000 connections; client and server share the CPUs.")
}

// TestClaimTitle measures the article's title: its epoll server and its pool together.
func TestClaimTitle(t *testing.T) {
	claim.Slow(t)
	if runtime.GOOS != "linux" {
		t.Skip("epoll: run it on Linux")
	}
	const seconds = 3.731506996
	claim.Log(t, "the article's 500,000 requests in 3.73 s", 500_000/seconds, "requests/s", 150_000, claim.If(500_000/seconds >= 150_000),
		"Division. Its clock also stops when a goroutine takes the last request, not when the answer arrives.")
	client, own := built(t, "client"), built(t, "client-hone")
	epoll, hone := claim.Start(t, "epoll"), claim.Start(t, "hone")
	tight := func(addr string) func() pool.Result {
		return func() pool.Result { return deliver(t, client, addr) }
	}
	roomy := func(addr string) func() pool.Result {
		return func() pool.Result { return deliver(t, client, addr, "--max-idle", "2000") }
	}
	conns := func(addr string) func() pool.Result {
		return func() pool.Result { return deliver(t, own, addr) }
	}
	workers, requests := size()
	dials := tight(epoll.Addr)().Dials
	claim.Log(t, "dials with MaxIdle 100, per connection", float64(dials)/float64(workers), "dials", 1, claim.If(dials <= int64(workers)), "A connection that comes back while 100 are idle is closed, and dialled again a moment later.")
	if dials = conns(epoll.Addr)().Dials; dials > int64(workers) {
		t.Errorf("conns.Pool dialled %d times for %d requests", dials, requests)
	}
	inTurns(t, "EpollRoomy", tight(epoll.Addr), roomy(epoll.Addr))
	inTurns(t, "ArticleHone", roomy(epoll.Addr), conns(hone.Addr))
}

// TestClaimIdle measures a server's memory for each idle connection.
func TestClaimIdle(t *testing.T) {
	claim.Slow(t)
	if runtime.GOOS != "linux" {
		t.Skip("memory: run it on Linux")
	}
	n := 300
	if claim.Whole() {
		n = 19_000
	}
	each := make(map[string]float64)
	for _, name := range []string{"goroutine", "epoll", "hone"} {
		s := claim.Start(t, name)
		stats, err := admin.Open(s.Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer stats.Close()
		plan := load.Plan{Idle: n, For: time.Second, Warmup: -1, Content: []byte("test"), Expect: []byte("TEST")}
		if plan.Target, err = raw(s.Addr); err != nil {
			t.Fatal(err)
		}
		fill := stats.WatchIdle(&plan)
		r, err := load.Run(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		if fill(r); r.Idle == nil || r.Idle.ServerBytes == nil {
			if claim.Whole() {
				t.Errorf("%s: no figure", name)
			}
			continue
		}
		each[name] = *r.Idle.ServerBytes
		t.Logf("%s: %.0f bytes for each of %d connections, %.1f GiB for a million", name, each[name], n, each[name]*1e6/(1<<30))
	}
	claim.Log(t, "a goroutine and a buffer against epoll", each["goroutine"]/each["epoll"], "times the memory", 0, claim.If(each["goroutine"] > each["epoll"]), "A goroutine's stack and its buffer of 4 KiB.")
	claim.Log(t, "epoll against hone", each["epoll"]/each["hone"], "times the memory", 0, claim.If(each["epoll"] > each["hone"]), "What epoll has left is package net's connection and an entry of a map.")
}

func raw(addr string) (codec.Target, error) {
	m := codec.Messages{Network: "tcp", Address: addr}
	err := m.Framing.UnmarshalText([]byte("fixed:4"))
	return m, err
}
