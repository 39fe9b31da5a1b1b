package main

import (
	"cmp"
	"encoding"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/history"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/race"
	"github.com/hone-go/hone/tool/torture"
)

// documents are what commands print with --json.
func documents() map[string]any {
	loaded := new(load.Result)
	loaded.Histograms.Latency, loaded.Histograms.Service = load.NewHistogram(), load.NewHistogram()
	return map[string]any{
		figure.SchemaBench: benchResult{}, figure.SchemaCompare: compare.Report{}, figure.SchemaDemo: race.Report{}, figure.SchemaDoctor: machine.Diagnosis{},
		figure.SchemaHistory: history.History{}, figure.SchemaKnee: knee.Report{}, figure.SchemaLoad: load.Document(loaded, nil),
		figure.SchemaNoise: compare.Noise{}, figure.SchemaProfile: probe.Report{}, figure.SchemaRuns: listed{}, figure.SchemaShown: shown{}, figure.SchemaTorture: torture.Report{},
	}
}

const schemasFile = "testdata/schemas.txt"

// TestSchemas compares the fields of every document with testdata/schemas.txt; HONE_UPDATE=1 writes it. A
// field that leaves, or has another type, needs a new number in package figure.
func TestSchemas(t *testing.T) {
	var lines []string
	for schema, document := range documents() {
		lines = append(lines, fieldsOf(schema, reflect.TypeOf(document), "", nil)...)
	}
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "\n") + "\n"
	if os.Getenv("HONE_UPDATE") != "" {
		if err := os.WriteFile(schemasFile, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(schemasFile); err != nil || string(want) != text {
		t.Errorf("%v; the fields are others than those of %s: write it with HONE_UPDATE=1, and look at git diff", err, schemasFile)
	}
}

// fieldsOf lists a value and its fields, with their kinds. A question mark stands behind what may be null or
// missing.
func fieldsOf(path string, of reflect.Type, optional string, above []reflect.Type) []string {
	for of.Kind() == reflect.Pointer {
		of, optional = of.Elem(), "?"
	}
	line := func(kind string) []string { return []string{path + ": " + kind + optional} }
	pointer := reflect.PointerTo(of)
	switch {
	case pointer.Implements(reflect.TypeFor[json.Marshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || slices.Contains(above, of):
		return line(of.Name())
	case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
		return append(line("array"), fieldsOf(path+"[]", of.Elem(), "", above)...)
	case of.Kind() == reflect.Map:
		return append(line("map"), fieldsOf(path+"{}", of.Elem(), "", above)...)
	case of.Kind() != reflect.Struct:
		return line(of.Kind().String())
	}
	lines := line("object")
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch optional := map[bool]string{true: "?"}[strings.Contains(options, "omit")]; {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			lines = append(lines, fieldsOf(path, inner, "", append(above, of))[1:]...)
		default:
			lines = append(lines, fieldsOf(path+"."+cmp.Or(name, f.Name), f.Type, optional, append(above, of))...)
		}
	}
	return lines
}

// undescribed returns a field of a document that the listing does not have; empty: it has all.
func undescribed(listing, path string, value any) string {
	has := func(path string) bool { return strings.Contains(listing, "\n"+path+": ") }
	switch in := value.(type) {
	case map[string]any:
		for key, v := range in {
			to := path + "." + key
			if has(path + "{}") {
				to = path + "{}"
			} else if !has(to) && strings.Contains(listing, "\n"+path+": object") {
				return to
			}
			if unknown := undescribed(listing, to, v); unknown != "" {
				return unknown
			}
		}
	case []any:
		for _, v := range in {
			if unknown := undescribed(listing, path+"[]", v); unknown != "" {
				return unknown
			}
		}
	}
	return ""
}
