package serving

import (
	"slices"
	"testing"

	"github.com/hone-go/hone/engine"
)

// Only the engines of this machine can be named, and help describes each.
func TestEngineFlag(t *testing.T) {
	for _, e := range engines() {
		var f EngineFlag
		if err := f.Set(e.Name()); err != nil || f.engine != e {
			t.Errorf("--engine %s is %v, %v", e.Name(), f.engine, err)
		}
		if engineNote(e.Name()) == "" {
			t.Errorf("help does not say what %s is", e.Name())
		}
	}
	for _, name := range []string{"events", "events-inline", "events-offload", "direct", "parked"} {
		if err := new(EngineFlag).Set(name); (err == nil) != slices.Contains(engineNames(), name) {
			t.Errorf("--engine %s, of %v: %v", name, engineNames(), err)
		}
	}
	var usual EngineFlag
	if err := usual.Set(""); err != nil || usual.engine != (engine.Engine{}) || usual.String() != (engine.Engine{}).Name() {
		t.Errorf("no name is %v, %v", &usual, err)
	}
}
