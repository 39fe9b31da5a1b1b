package spec

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
)

// notInFiles are flags about one call of the command rather than about the measurement.
var notInFiles = []string{"help", "help-all", "scenario", "revision", "against", "save", "discard", "print-requests", "json", "md", "output", "store", "progress", "plain", "look", "ui", "ui-stay", "ui-token-file"}

// ReadFile sets the flags in a file that the command line does not set.
func ReadFile(cmd *cobra.Command, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return exit.Failedf("%s: %w", cmd.Name(), err)
	}
	order, values, err := keysOf(name, text)
	if err != nil {
		return exit.Usagef("%s: %w", cmd.Name(), err)
	}
	for _, key := range order {
		flag := cmd.Flags().Lookup(key)
		if flag == nil || slices.Contains(notInFiles, key) {
			return exit.Usagef("%s: %s: unknown key %q; %s", cmd.Name(), name, key, exit.DidYouMean(key, fileKeys(cmd), "see hone "+cmd.Name()+" --help"))
		}
		if flag.Changed {
			continue
		}
		if table, ok := flag.Value.(*value); ok && table.table != nil && isTable(values[key]) {
			if err := table.setTable(values[key], name); err != nil {
				return exit.Usagef("%s: %s: %w", cmd.Name(), name, under(key, err))
			}
			flag.Changed = true
			continue
		}
		texts, err := asTexts(values[key])
		if err != nil {
			return exit.Usagef("%s: %s: %s: %w", cmd.Name(), name, key, err)
		}
		for _, value := range texts {
			if err := cmd.Flags().Set(key, value); err != nil {
				invalid := new(pflag.InvalidValueError)
				if errors.As(err, &invalid) {
					return exit.Usagef("%s: %s: %s = %q: %s", cmd.Name(), name, key, value, WhyInvalid(invalid))
				}
				return exit.Usagef("%s: %s: %s = %q: %w", cmd.Name(), name, key, value, err)
			}
		}
	}
	return nil
}

// keysOf returns a file's keys, in the order in which to set them, and their values. The file is
// JSON if its name ends in .json, else TOML.
func keysOf(name string, text []byte) (order []string, values map[string]any, err error) {
	if filepath.Ext(name) == ".json" {
		numbers := json.NewDecoder(bytes.NewReader(text))
		numbers.UseNumber() // keeps them as written
		if err := numbers.Decode(&values); err != nil {
			return nil, nil, fmt.Errorf("%s: %w; write one JSON object", name, err)
		}
		return slices.Sorted(maps.Keys(values)), values, nil
	}
	about, err := toml.Decode(string(text), &values)
	if bad := (toml.ParseError{}); errors.As(err, &bad) {
		return nil, nil, fmt.Errorf("%s, line %d: %s; see https://toml.io", name, bad.Position.Line, bad.Message)
	} else if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, key := range about.Keys() {
		if !slices.Contains(order, key[0]) { // a table has several
			order = append(order, key[0])
		}
	}
	return order, values, nil
}

// isTable reports whether a key's value is a table or a list of tables.
func isTable(value any) bool {
	_, one := value.(map[string]any)
	_, several := tablesOf(value)
	return one || several
}

func fileKeys(cmd *cobra.Command) (keys []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFiles, f.Name) {
			keys = append(keys, f.Name)
		}
	})
	return keys
}

// asTexts converts a key's value to flag values: a list sets the flag several times.
func asTexts(value any) ([]string, error) {
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case bool, int64, float64, json.Number:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		var all []string
		for _, each := range v {
			texts, err := asTexts(each)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		}
		return all, nil
	}
	return nil, errors.New("it must be a string, a number, true or false, or a list of these")
}

// Kept returns the scenario of a load as runs keep it: its settings that are not the defaults. Those
// of the server are not included: they may be what is compared.
func (f *Load) Kept(name, target string) record.Scenario {
	kept := map[string]string{"target": withoutAddress(target)}
	f.saved(func(name, value string, usual bool) {
		if !usual {
			kept[name] = value
		}
	})
	return record.Scenario{Name: name, Settings: kept}
}

// saved calls with for each setting that describes the load.
func (f *Load) saved(with func(name, value string, usual bool)) {
	paced := f.Paced || f.Plan.Rate != 0 || f.Plan.Churn != 0 || !f.Plan.Schedule.None()
	f.settings.saved(func(name, value string, usual bool) {
		if name != "arrivals" || paced {
			with(name, value, usual)
		}
	})
}

func hashed(secret string) string { return fmt.Sprintf("%.12x", sha256.Sum256([]byte(secret))) }

// Public returns a target as results and pages show it: without a URL's query, which may contain
// keys, because results are shared.
func Public(target string) string {
	if scheme, _, found := strings.Cut(target, "://"); found && kindOf(scheme) != 0 {
		return codec.HTTP{URL: target}.String()
	}
	return target
}

// withoutAddress returns a target without its address: a load on another port is the same
// scenario.
func withoutAddress(target string) string {
	kind, _, found := strings.Cut(target, ":")
	if !found || !strings.Contains(target, "://") {
		if kind == "unix" {
			return "unix"
		}
		return "tcp"
	}
	u, err := url.Parse(target)
	if err != nil {
		return kind
	}
	if u.RawQuery != "" {
		return kind + " " + u.Path + "?" + hashed(u.RawQuery)
	}
	return strings.TrimSpace(kind + " " + u.Path)
}
