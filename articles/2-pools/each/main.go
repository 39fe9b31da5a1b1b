// Command each starts a goroutine for each task.
package main

import (
	"github.com/hone-go/hone/articles/2-pools/burst"
	"github.com/hone-go/hone/articles/stage"
)

func main() {
	counts := new(stage.Counts)
	handler := burst.Handler(func(task func()) { go task() })
	stage.Run(counts.Web(handler), counts.Stats)
}
