package engine

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/sys"
)

func TestEngineIsText(t *testing.T) {
	engines := append(All(), Events(Inline), Events(Offload))
	for _, e := range engines {
		text, err := e.MarshalText()
		if err != nil || string(text) != e.Name() {
			t.Errorf("%v: text %q, %v", e.Name(), text, err)
		}
		var back Engine
		if err := back.UnmarshalText(text); err != nil || back != e {
			t.Errorf("%s was unmarshalled as %s, %v", e.Name(), back.Name(), err)
		}
	}
	var e Engine
	if text, err := e.MarshalText(); err != nil || len(text) != 0 {
		t.Errorf("the default is %q, %v; it has no name of its own", text, err)
	}
	e = Buffered(0)
	if err := e.UnmarshalText(nil); err != nil || e != (Engine{}) {
		t.Errorf("empty text is %s, %v; want the default", e.Name(), err)
	}
	err := e.UnmarshalText([]byte("parked"))
	text := fmt.Sprint(err) // a flag prints the message as help
	if err == nil || !strings.Contains(text, `"parked"`) || !strings.Contains(text, "buffered, events, events-inline, events-offload") {
		t.Errorf("an unknown name returns %v; want it and the known names", err)
	}
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.TextVar(&e, "engine", Engine{}, "")
	if err := fs.Parse([]string{"-engine", "buffered"}); err != nil || e != Buffered(0) {
		t.Errorf("as a flag: %s, %v", e.Name(), err)
	}
}

func TestDefaultEngine(t *testing.T) {
	all := All()
	if last := all[len(all)-1]; (Engine{}).orDefault() != last {
		t.Errorf("the default is %s, the last of all is %s", Engine{}.Name(), last.Name())
	}
	if sys.Polls && (Engine{}).Name() != "events" {
		t.Errorf("the default is %s", Engine{}.Name())
	}
}
