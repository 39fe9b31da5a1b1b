// Command hone is the article's service on package framed: limits, timeouts and backpressure included.
package main

import (
	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/framed"
)

func main() {
	s := &framed.Server{Handler: framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil })}
	stage.Run(s.Serve, s.Stats)
}
