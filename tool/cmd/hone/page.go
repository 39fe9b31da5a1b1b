package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/spec"
)

// livePage returns the page of a command, with facts about what it measures.
func livePage(title string, about ...page.Fact) *page.Page {
	return &page.Page{Title: "hone " + title, About: append(about, page.Fact{Name: "hone", Value: command.BuildOf(release).Version})}
}

// page returns the live page of a load; nil: none was asked for.
func (f *loadFlags) page(cmd *cobra.Command, target string, stats *admin.Server) (*page.Page, error) {
	if err := f.out.UI.Check("load"); err != nil {
		return nil, err
	}
	if f.out.UI.Addr == "" {
		if f.metrics != "" {
			return nil, exit.Usagef("load: --server-metrics is for the live page; give --ui as well, as in --ui 127.0.0.1:8080")
		}
		return nil, nil
	}
	p := livePage("load "+spec.Public(target), page.Fact{Name: "load", Value: f.Shape()})
	p.Groups = []string{page.Client, page.Host}
	if stats != nil {
		p.Groups = []string{page.Client, page.Server, page.Runtime, page.Host}
	}
	if f.metrics != "" {
		named, err := admin.OpenNamed(cmd.Context(), f.metrics)
		if err != nil {
			return nil, err
		}
		p.Metrics, p.Sources = named.Titles, []page.Source{named.Read}
		p.Groups = slices.Insert(p.Groups, 1, page.Metrics) // after those of the generator
	}
	return p, nil
}
