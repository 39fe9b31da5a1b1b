package serving

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
)

// engines returns the engines that this machine supports, with every mode of Events.
func engines() []engine.Engine {
	all := engine.All()
	if slices.Contains(all, engine.Events(engine.Auto)) {
		all = append(all, engine.Events(engine.Inline), engine.Events(engine.Offload))
	}
	return all
}

func engineNames() []string {
	var names []string
	for _, e := range engines() {
		names = append(names, e.Name())
	}
	return names
}

// engineNote describes an engine in a few words; every engine of engines has a note.
func engineNote(name string) string {
	return map[string]string{
		"buffered":       "one goroutine per connection, with a buffer",
		"events":         "one loop per CPU, which continues without a slow handler",
		"events-inline":  "one loop per CPU, for handlers that never block",
		"events-offload": "one loop per CPU, for handlers that all block",
	}[name]
}

// EngineList lists the engines for help, one per line.
func EngineList() string {
	var b strings.Builder
	for _, name := range engineNames() {
		fmt.Fprintf(&b, "    %-15s %s\n", name, engineNote(name))
	}
	return b.String()
}

// EngineFlag is a flag that names an engine. The zero value is the default engine.
type EngineFlag struct{ engine engine.Engine }

// Set accepts the name of an engine that this machine supports.
func (f *EngineFlag) Set(text string) error {
	if names := engineNames(); text != "" && !slices.Contains(names, text) {
		return fmt.Errorf("not one of %s; %s", strings.Join(names, ", "),
			exit.DidYouMean(text, names, "leave it out for "+engine.Engine{}.Name()))
	}
	return f.engine.UnmarshalText([]byte(text))
}

// String returns the engine's name.
func (f *EngineFlag) String() string { return f.engine.Name() }

// Type is the placeholder of the value in help.
func (f *EngineFlag) Type() string { return "NAME" }
