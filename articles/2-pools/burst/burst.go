// Package burst is the article's load: 10,000 tasks of 100 nested calls.
package burst

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Tasks is how many a request hands over.
const Tasks = 10_000

// Handler answers when all tasks of a burst are done. The query calls=N sets how deep a task calls itself.
func Handler(handOver func(task func())) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls, err := strconv.Atoi(r.URL.Query().Get("calls"))
		if err != nil || calls < 1 || calls > 1000 {
			calls = 100
		}
		var all sync.WaitGroup
		var reached atomic.Int64
		all.Add(Tasks)
		for range Tasks {
			handOver(func() {
				reached.Add(int64(descend(0, calls)))
				all.Done()
			})
		}
		all.Wait()
		w.WriteHeader(http.StatusNoContent)
	})
}

// descend needs stack for each call.
//
//go:noinline
func descend(a, calls int) int {
	if calls > 0 {
		return descend(0, calls-1)
	}
	return a
}
