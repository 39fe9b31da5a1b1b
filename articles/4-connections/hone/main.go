// Command hone is the same service as a protocol of package engine.
package main

import (
	"bytes"

	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/engine"
)

type upper struct{}

// Advance answers what has arrived in capitals.
func (upper) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if len(in) == 0 || !t.Room() {
		return 0, 0, nil
	}
	t.Out = append(t.Out, bytes.ToUpper(in)...)
	return len(in), 1, nil
}

func (upper) Refuse(dst, _ []byte, _ engine.Reason) []byte { return dst }

func main() {
	s := &engine.Server{Protocol: upper{}, Limits: engine.Limits{Conns: -1}}
	stage.Run(s.Serve, s.Stats)
}
