//go:build !linux

package framed_test

import (
	"errors"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

func TestEventsIsRefusedWhereItIsNotOffered(t *testing.T) {
	for _, mode := range []engine.HandOff{engine.Auto, engine.Inline, engine.Offload} {
		s := &framed.Server{Engine: engine.Events(mode), Handler: framed.HandlerFunc(echo)}
		if err := s.Serve(listenTCP(t)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Serve returned %v, want one that is errors.ErrUnsupported", err)
		}
		s.Close()
	}
}
