package lint

import (
	"fmt"
	"go/doc"
	"maps"
	"slices"
	"strings"
	"testing"
)

// importTable returns the part of the import table that a section shows.
func importTable(which string) (map[string][]string, error) {
	switch which {
	case "library":
		return libraryImports, nil
	case "observe":
		return observeImports, nil
	case "tool":
		return toolImports, nil
	case "gateway":
		return gatewayImports, nil
	case "articles":
		return articlesImports, nil
	}
	return nil, fmt.Errorf("there is no import table %q; use library, observe, tool, gateway or articles", which)
}

// packageTable lists a module's packages, each with the first sentence of its documentation. It leaves out
// packages of the import table that have no files yet.
func (t *tree) packageTable(which string) (string, error) {
	table, err := importTable(which)
	if err != nil {
		return "", err
	}
	synopsis := make(map[string]string)
	for _, p := range t.packages() {
		for _, f := range p.files {
			if isText(f.ast.Doc) && synopsis[p.dir] == "" {
				synopsis[p.dir] = new(doc.Package).Synopsis(f.ast.Doc.Text())
			}
		}
	}
	var out strings.Builder
	out.WriteString("| package | what it is |\n|---|---|\n")
	for _, dir := range slices.Sorted(maps.Keys(table)) {
		if said := synopsis[dir]; said != "" {
			fmt.Fprintf(&out, "| [`%s`](../%s) | %s |\n", dir, dir, strings.TrimPrefix(said, "Package "+lastPart(dir)+" "))
		}
	}
	return out.String(), nil
}

func lastPart(dir string) string {
	return dir[strings.LastIndexByte(dir, '/')+1:]
}

// graph draws the imports between a module's packages in Mermaid, for all platforms together,
// without tests. It includes what the tools import from the library, and leaves out the command,
// which may import everything.
func (t *tree) graph(which string) (string, error) {
	table, err := importTable(which)
	if err != nil {
		return "", err
	}
	arrows := make(map[string]bool)
	for _, f := range t.files {
		from := f.dir()
		if _, known := table[from]; !known || f.isTest() || strings.Contains(from, "/cmd/") {
			continue
		}
		for _, spec := range f.ast.Imports {
			if to, ours := strings.CutPrefix(importPath(spec), module+"/"); ours && to != from {
				arrows["  "+node(from)+" --> "+node(to)+"\n"] = true
			}
		}
	}
	return "```mermaid\ngraph TD\n" + strings.Join(slices.Sorted(maps.Keys(arrows)), "") + "```\n", nil
}

// node is a package in Mermaid's syntax: a name without slashes, and the path.
func node(dir string) string {
	return strings.ReplaceAll(dir, "/", "_") + "[" + dir + "]"
}

func TestGraph(t *testing.T) {
	tree := parseTree(unpack(`
-- wire/wire.go --
// Package wire turns bytes into frames. It does no I/O.
package wire
-- framed/framed.go --
// Package framed is a server.
package framed

import (
	"net"

	"github.com/hone-go/hone/wire"
)
-- framed/framed_linux.go --
package framed

import "github.com/hone-go/hone/engine"
-- framed/framed_test.go --
package framed

import "github.com/hone-go/hone/conns"
-- tool/load/load.go --
// Package load drives a target.
package load

import "github.com/hone-go/hone/wire"
-- tool/cmd/hone/main.go --
// Hone is the command.
package main

import "github.com/hone-go/hone/tool/load"
`))
	for section, want := range map[string]string{
		"graph library": "```mermaid\ngraph TD\n  framed[framed] --> engine[engine]\n  framed[framed] --> wire[wire]\n```\n",
		"graph tool":    "```mermaid\ngraph TD\n  tool_load[tool/load] --> wire[wire]\n```\n",
		"packages library": "| package | what it is |\n|---|---|\n" +
			"| [`framed`](../framed) | is a server. |\n| [`wire`](../wire) | turns bytes into frames. |\n",
	} {
		got, err := tree.made(section)
		if got != want || err != nil {
			t.Errorf("%s: %s, %v; want\n%s", section, got, err, want)
		}
	}
	for _, section := range []string{"graph", "packages cellar"} {
		if _, err := tree.made(section); err == nil {
			t.Errorf("%q is a section", section)
		}
	}
}
