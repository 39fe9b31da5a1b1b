package serving

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/spec"
)

// engines are those that this machine has, with every mode of Events.
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

// engineNote is an engine in a few words; every one of engines has some.
func engineNote(name string) string {
	return map[string]string{
		"direct":         "a goroutine a connection; three system calls a request",
		"buffered":       "a goroutine a connection, with a buffer; also for TLS",
		"parked":         "a goroutine a connection, without a buffer while it waits",
		"events":         "a loop a processor, which goes on without a slow handler",
		"events-inline":  "a loop a processor, for handlers that never block",
		"events-offload": "a loop a processor, for handlers that all block",
	}[name]
}

// EngineList is a line for every engine, for help.
func EngineList() string {
	var b strings.Builder
	for _, name := range engineNames() {
		fmt.Fprintf(&b, "    %-15s %s\n", name, engineNote(name))
	}
	return b.String()
}

// EngineFlag takes an engine by its name. The zero value is the default engine.
type EngineFlag struct{ engine engine.Engine }

// Engine is the engine that was named.
func (f *EngineFlag) Engine() engine.Engine { return f.engine }

// Set takes the name of an engine that this machine has.
func (f *EngineFlag) Set(text string) error {
	if names := engineNames(); text != "" && !slices.Contains(names, text) {
		return fmt.Errorf("not one of %s; %s", strings.Join(names, ", "),
			exit.DidYouMean(text, names, "leave it out for "+engine.Engine{}.Name()))
	}
	return f.engine.UnmarshalText([]byte(text))
}

// String returns the engine's name.
func (f *EngineFlag) String() string { return f.engine.Name() }

// Type is how help names the value.
func (f *EngineFlag) Type() string { return "NAME" }

// Add gives cmd the flag, with completion.
func (f *EngineFlag) Add(cmd *cobra.Command) {
	var offers []cobra.Completion
	for _, name := range engineNames() {
		offers = append(offers, cobra.CompletionWithDesc(name, engineNote(name)))
	}
	spec.AddOffering(cmd, f, "engine", "how bytes move", offers...)
}
