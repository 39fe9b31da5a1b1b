// Command pool is the article's pool of goroutines.
package main

import (
	"runtime"

	"github.com/hone-go/hone/articles/2-pools/burst"
	"github.com/hone-go/hone/articles/stage"
)

func main() {
	counts := new(stage.Counts)
	pool := newWorkerPool(runtime.GOMAXPROCS(0))
	handler := burst.Handler(pool.addTask)
	stage.Run(counts.Web(handler), counts.Stats)
}

type workerPool struct{ tasks chan func() }

func newWorkerPool(n int) *workerPool {
	p := &workerPool{tasks: make(chan func())}
	for range n {
		go func() {
			for task := range p.tasks {
				task()
			}
		}()
	}
	return p
}

func (p *workerPool) addTask(task func()) { p.tasks <- task }
