package serving

import (
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
	for _, e := range []engine.Engine{engine.Parked(0), engine.Events(engine.Auto), engine.Events(engine.Inline), engine.Events(engine.Offload)} {
		offered := false
		for _, known := range engines() {
			offered = offered || known == e
		}
		if err := new(EngineFlag).Set(e.Name()); (err == nil) != offered {
			t.Errorf("--engine %s, offered %v: %v", e.Name(), offered, err)
		}
	}
	var usual EngineFlag
	if err := usual.Set(""); err != nil || usual.engine != (engine.Engine{}) || usual.String() != (engine.Engine{}).Name() {
		t.Errorf("no name is %v, %v", &usual, err)
	}
}
