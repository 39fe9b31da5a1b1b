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
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// notInFiles are flags about one call of the command, not about what is measured.
var notInFiles = []string{"help", "scenario", "revision", "against", "save", "discard", "print-requests", "json", "md", "output", "store", "progress", "plain", "look", "ui", "ui-stay", "ui-token-file"}

// ReadFile sets the flags that a file has, and that were not given.
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
		if key == PprofToken {
			return exit.Usagef("%s: %s: %s", cmd.Name(), name, TokenInClear)
		}
		flag := cmd.Flags().Lookup(key)
		if flag == nil || slices.Contains(notInFiles, key) {
			return exit.Usagef("%s: %s: there is no key %q; %s", cmd.Name(), name, key, exit.DidYouMean(key, fileKeys(cmd), "see hone "+cmd.Name()+" --help"))
		}
		if flag.Changed {
			continue
		}
		if table, ok := flag.Value.(tabled); ok && isTable(values[key]) {
			if err := table.setTable(values[key], name); err != nil {
				return exit.Usagef("%s: %s: %s: %w", cmd.Name(), name, key, err)
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

// keysOf are a file's keys, in the order in which they are to be set, and their values:
// JSON where its name says so, else TOML.
func keysOf(name string, text []byte) (order []string, values map[string]any, err error) {
	if filepath.Ext(name) == ".json" {
		numbers := json.NewDecoder(bytes.NewReader(text))
		numbers.UseNumber() // as they were written
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

// isTable reports whether a key's value is a table, or several.
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

// asTexts is a key's value as flags take it: a list is a flag given several times.
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
	return nil, errors.New("it must be a text, a number, true or false, or a list of such")
}

// mayBeSecret are flags of which only a hash is kept: a store is handed around.
var mayBeSecret = []string{"header", "body", "request", "expect-content", "cert", "key", "flow", "data", "path", "check", "basic-file", "bearer-file"}

// Kept is the scenario as it is kept: the flags that say what load there is, with
// their values, by name. The server's own are not among them: they may be what is
// compared.
func Kept(cmd *cobra.Command, name, target string) record.Scenario {
	var text strings.Builder
	fmt.Fprintf(&text, "target=%s\n", withoutAddress(target))
	eachSetting(cmd, func(name, value, usual string) {
		if name == "arrivals" {
			usual = load.Constant.String() // which runs were stored without, when it was the default
		}
		if value != usual && value != "" && value != "[]" {
			fmt.Fprintf(&text, "%s=%s\n", name, value)
		}
	})
	return record.Scenario{Name: name, Text: text.String()}
}

// settings are all flags that say what load there is, with their values, under the names
// of Kept.
func settings(cmd *cobra.Command, target string) map[string]string {
	all := map[string]string{"target": withoutAddress(target)}
	eachSetting(cmd, func(name, value, _ string) { all[name] = value })
	return all
}

// eachSetting calls with each flag that says what load there is, sorted by their names.
func eachSetting(cmd *cobra.Command, with func(name, value, usual string)) {
	plain := &cobra.Command{}
	new(Load).Define(plain)
	plain.Flags().VisitAll(func(flag *pflag.Flag) {
		value := cmd.Flags().Lookup(flag.Name).Value.String()
		if flag.Name == "arrivals" && !hasArrivals(cmd) || flag.Name == "resolve" {
			return // it says nothing, or only where the target is
		}
		if value != flag.DefValue && slices.Contains(mayBeSecret, flag.Name) {
			value = hashed(value)
		}
		with(flag.Name, value, flag.DefValue)
	})
}

func hashed(secret string) string { return fmt.Sprintf("%.12x", sha256.Sum256([]byte(secret))) }

// Public is a target as results and pages show it: they are passed on, and the query of a
// URL has keys in it.
func Public(target string) string {
	if scheme, _, found := strings.Cut(target, "://"); found && kindOf(scheme) != "" {
		return load.HTTP{URL: target}.String()
	}
	return target
}

// hasArrivals reports whether the load, or something beside it, has a rate.
func hasArrivals(cmd *cobra.Command) bool {
	for _, name := range []string{"rate", "schedule", "churn"} {
		if flag := cmd.Flags().Lookup(name); flag.Value.String() != flag.DefValue {
			return true
		}
	}
	axis := cmd.Flags().Lookup("axis") // knee's
	return axis != nil && axis.Value.String() == "rate"
}

// withoutAddress is a target's text without where it is: the same server on
// another port is asked for the same.
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
