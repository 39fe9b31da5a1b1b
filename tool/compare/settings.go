package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/record"
)

// Settings are what figures depend on besides the program. If they differ, the figures of
// two sides are not comparable.
type Settings struct {
	// Machine is the strict part of the environment.
	Machine map[string]string
	// Load is how the server was loaded, completely; nil: unknown.
	Load map[string]string
	// Scenario is what a stored run records of Load: settings other than the defaults,
	// and what its command adds. Nil: not a stored run.
	Scenario *record.Scenario
	// Soft are other settings, worth a note if they differ.
	Soft map[string]string
}

// SettingsOf returns a stored run's settings.
func SettingsOf(r *record.Run) Settings {
	return Settings{Machine: r.Environment.Strict, Load: r.Scenario.Load, Scenario: &r.Scenario, Soft: r.Environment.Soft}
}

// scenarioKey is the setting that allows the whole scenario to differ.
const scenarioKey = "scenario"

// Difference is a setting in which two sides differ. A or B is empty if that side uses
// the default, whose value is not known.
type Difference struct{ Key, A, B string }

// String describes the difference.
func (d Difference) String() string {
	value := func(text string) string {
		if text == "" {
			return "the default"
		}
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%s differs: %s and %s", d.Key, value(d.A), value(d.B))
}

// Differences lists the settings that must not differ between a and b, except those in
// across, and do. A setting known on only one side does not count.
func Differences(a, b Settings, across []string) (all []Difference) {
	all = slices.DeleteFunc(differing(a.Machine, b.Machine), func(d Difference) bool { return d.A == "" || d.B == "" }) // unknown on one side
	if !slices.Contains(across, scenarioKey) {
		all = append(all, loadDifferences(a, b)...)
	}
	return slices.DeleteFunc(all, func(d Difference) bool { return slices.Contains(across, d.Key) })
}

// loadDifferences compares the scenarios of stored runs, in which a missing key is the
// default; otherwise, the settings that both know.
func loadDifferences(a, b Settings) []Difference {
	if a.Scenario == nil || b.Scenario == nil {
		return differing(a.Load, b.Load)
	}
	ka, kb := a.Scenario.Settings, b.Scenario.Settings
	all := maps.Clone(ka)
	maps.Copy(all, kb)
	var differ []Difference
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if ka[key] != kb[key] {
			differ = append(differ, Difference{key, cmp.Or(ka[key], a.Load[key]), cmp.Or(kb[key], b.Load[key])})
		}
	}
	return differ
}

// differing compares the values that both have.
func differing(a, b map[string]string) (all []Difference) {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if vb, known := b[key]; known && a[key] != vb {
			all = append(all, Difference{key, a[key], vb})
		}
	}
	return all
}

// Refusal explains in one sentence why a and b must not be compared, and what to do about
// it. Nil: no known reason.
func Refusal(a, b Settings, across []string, try func(keys []string) string) error {
	differences := Differences(a, b, across)
	if len(differences) == 0 {
		return nil
	}
	var keys, texts []string
	for _, d := range differences {
		keys, texts = append(keys, d.Key), append(texts, d.String())
	}
	return errors.New(strings.Join(texts, ", ") + "; " + try(keys))
}

// Doubts lists differences in settings that may change figures a little.
func Doubts(a, b Settings) []string {
	var doubts []string
	for _, key := range slices.Sorted(maps.Keys(a.Soft)) {
		va, vb := a.Soft[key], b.Soft[key]
		switch {
		case va == "" || vb == "" || va == vb || slices.Contains(notOfTheMachine, key):
		case key == "modified": // whether uncommitted changes are in the program
			doubts = append(doubts, "only one of the two programs was built with uncommitted changes")
		default:
			doubts = append(doubts, fmt.Sprintf("%s differs: %q and %q", key, va, vb))
		}
	}
	return doubts
}

// notOfTheMachine lists soft settings that are expected to differ between two programs.
var notOfTheMachine = []string{"revision", "sha256", "command", "build"}
