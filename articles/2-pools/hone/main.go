// Command hone is package workers in place of the article's pool.
package main

import (
	"context"
	"log"

	"github.com/hone-go/hone/articles/2-pools/burst"
	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/workers"
)

func main() {
	counts := new(stage.Counts)
	pool := workers.New(workers.Options{})
	handler := burst.Handler(func(task func()) {
		if err := pool.Go(context.Background(), task); err != nil {
			log.Fatal(err) // an open pool with a queue that blocks refuses nothing
		}
	})
	stage.Run(counts.Web(handler), counts.Stats)
}
