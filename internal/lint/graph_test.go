package lint

import (
	"fmt"
	"go/doc"
	"maps"
	"slices"
	"strings"
	"testing"
)

// wing is the part of the import table that a page's section is about.
func wing(which string) (map[string][]string, error) {
	switch which {
	case "library":
		return libraryWing, nil
	case "observe":
		return observeWing, nil
	case "tool":
		return toolWing, nil
	case "gateway":
		return gatewayWing, nil
	}
	return nil, fmt.Errorf("there is no wing %q; use library, observe, tool or gateway", which)
}

// rooms is a table of a wing's packages, each with the first sentence of its own
// documentation. A package that the table of imports plans and that has no file
// yet is left out.
func (t *tree) rooms(which string) (string, error) {
	table, err := wing(which)
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

// graph is who imports whom in a wing, for every platform at once, tests left
// out, as Mermaid draws it. What the tools take from the library is in it. The
// command may import everything, so its arrows say nothing and are left out.
func (t *tree) graph(which string) (string, error) {
	table, err := wing(which)
	if err != nil {
		return "", err
	}
	arrows := make(map[string]bool)
	for _, f := range t.files {
		from := f.dir()
		if _, known := table[from]; !known || f.isTest() || from == "tool/cmd/hone" || from == "gateway/cmd/honed" {
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

// node is a package in Mermaid's words: a name without slashes, and the path.
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
		"rooms library": "| package | what it is |\n|---|---|\n" +
			"| [`framed`](../framed) | is a server. |\n| [`wire`](../wire) | turns bytes into frames. |\n",
	} {
		got, err := tree.made(section)
		if got != want || err != nil {
			t.Errorf("%s: %s, %v; want\n%s", section, got, err, want)
		}
	}
	for _, section := range []string{"graph", "rooms cellar"} {
		if _, err := tree.made(section); err == nil {
			t.Errorf("%q is a section", section)
		}
	}
}
