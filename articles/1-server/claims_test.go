package server_test

import (
	"testing"

	"github.com/hone-go/hone/articles/claim"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/probe"
)

// 64 in flight stands for a client that pipelines its requests, and 1 for one that waits for each answer.
// The article does not print its client.
func plan(depth int) load.Plan { return load.Plan{Conns: 100, Depth: depth, Expect: []byte{}} }

func TestClaimBuffers(t *testing.T) {
	claim.Slow(t)
	for _, depth := range []int{64, 1} {
		report := claim.Servers(t, "direct", "buffered", claim.Frames, plan(depth))
		claim.Gain(t, report, "rate", 270.0/185, "Direct I/O makes four system calls per request; with buffers, all requests that have arrived share one read and one write.")
		claim.Gain(t, report, "server CPU", 0, "It does not depend on how much CPU the load generator uses.")
	}
}

func TestClaimPool(t *testing.T) {
	claim.Slow(t)
	report := claim.Servers(t, "buffered", "pooled", claim.Frames, plan(64))
	claim.Gain(t, report, "rate", 292.0/270, "The pool saves one of seven or eight allocations per request, of 40 bytes.")
	claim.Gain(t, report, "server CPU", 292.0/270, "The same without the load generator.")
}

func TestClaimHone(t *testing.T) {
	claim.Slow(t)
	for _, depth := range []int{64, 1} {
		report := claim.Servers(t, "pooled", "hone", claim.Frames, plan(depth))
		claim.Gain(t, report, "rate", 0, "Ours: more requests than the article's last step.")
		claim.Gain(t, report, "server CPU", 0, "Ours: less CPU per request, with limits and timeouts.")
	}
}

func TestClaimBottlenecks(t *testing.T) {
	claim.Slow(t)
	shares := func(stage string, kind probe.Kind, cum bool, ends ...string) float64 {
		s := claim.Start(t, stage)
		loaded := plan(64)
		var err error
		if loaded.Target, err = claim.Frames(s.Addr); err != nil {
			t.Fatal(err)
		}
		return s.Shares(t, kind, cum, loaded, ends...)
	}
	calls := shares("direct", probe.CPU, false, "Syscall6", "RawSyscall6")
	claim.Log(t, "direct: system calls, of the CPU", calls, "%", 0, claim.If(calls > 50), "The largest box of the article's call graph.")
	memory := shares("buffered", probe.CPU, true, "runtime.mallocgc", "runtime.gcBgMarkWorker")
	claim.Log(t, "buffered: allocation and collection, of the CPU", memory, "%", 0, claim.If(memory > 20), "What the article looks at next.")
	decoding := shares("buffered", probe.Allocs, true, "demo.Decode")
	claim.Log(t, "buffered: Decode, of the bytes allocated", decoding, "%", 35.72, claim.If(decoding > 0.8*35.72), "Where the article puts its pool.")
	pooled := shares("pooled", probe.Allocs, true, "demo.Decode")
	claim.Log(t, "pooled: Decode, of the bytes allocated", pooled, "%", 0, claim.If(pooled < decoding/2), "What is left is the id, a string.")
}
