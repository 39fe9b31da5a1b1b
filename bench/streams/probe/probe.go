// Package probe lets a benchmark ask a server's process for its heap: through standard
// input and output, so that nothing is added to what the server serves.
package probe

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Heap and Collect are the lines that are answered: with what is in use, garbage
// included, and with what is in use after a forced collection.
const (
	Heap    = "heap"
	Collect = "collect"
)

// Answer is the answer, a line of JSON.
type Answer struct {
	InUse int64 // bytes in spans of the heap that are in use
}

// Start answers until standard input ends, and then ends the process.
func Start() struct{} {
	go func() {
		out := json.NewEncoder(os.Stdout)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if lines.Text() == Collect {
				debug.FreeOSMemory()
				debug.FreeOSMemory() // what finalizers and pools let go of in the first
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				out.Encode(Answer{int64(m.HeapInuse)})
				continue
			}
			s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
			metrics.Read(s)
			out.Encode(Answer{int64(s[0].Value.Uint64() + s[1].Value.Uint64())})
		}
		os.Exit(0)
	}()
	return struct{}{}
}
