package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
)

// uiFlags are those of the live page of a load, which knows the load's server.
type uiFlags struct {
	against, pprof, bearerFile, metrics string
}

func (f *uiFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.pprof, "pprof", "", "the server's net/http/pprof, a `URL` or HOST:PORT, from which the page captures profiles (default: that of --server-stats)")
	flags.StringVar(&f.metrics, "server-metrics", "", "Prometheus metrics of any server for the page, a `URL` and names, as in 'http://127.0.0.1:8889/metrics open,requests_total'; counters per second")
	flags.StringVar(&f.bearerFile, "pprof-token-file", "", "`FILE` with the bearer token that it requires")
	flags.StringVar(&f.against, "against", "", "the earlier `RUN` to draw under the page's charts; see hone run --help")
}

// check refuses flags that would have no effect.
func (f *uiFlags) check(command string, ui session.UI) error {
	if err := ui.Check(command); err != nil || ui.Addr != "" {
		return err
	}
	switch {
	case f.pprof != "" || f.bearerFile != "":
		return exit.Usagef("%s: --pprof is for the live page; give --ui as well, as in --ui 127.0.0.1:8080, or use hone bench --profile", command)
	case f.metrics != "":
		return exit.Usagef("%s: --server-metrics is for the live page; give --ui as well, as in --ui 127.0.0.1:8080", command)
	case f.against != "":
		return exit.Usagef("%s: --against needs --ui, the page's address, as in --ui 127.0.0.1:8080; hone compare compares stored runs", command)
	}
	return nil
}

// alike refuses to draw a run under a load with other settings.
func (f *loadFlags) alike(target string, baseline *record.Run) error {
	scenario := f.scenario(target)
	now := compare.Settings{Machine: trial.Environment(f.Plan.Target).Strict, Load: f.Plan.Settings, Scenario: &scenario}
	err := compare.Refusal(compare.SettingsOf(baseline), now, nil, func([]string) string { return "choose a run with the same settings" })
	if err == nil {
		return nil
	}
	return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("load: --against %s: %w", f.ui.against, err)}
}

// page returns the live page of a load; nil: none was asked for.
func (f *loadFlags) page(cmd *cobra.Command, target string, stats *admin.Server) (*page.Page, error) {
	if err := f.ui.check("load", f.out.UI); err != nil || f.out.UI.Addr == "" {
		return nil, err
	}
	var baseline *record.Run // to draw under the charts
	if f.ui.against != "" {
		var err error
		if baseline, err = f.out.Store.Run("load", f.ui.against); err == nil {
			err = f.alike(target, baseline)
		}
		if err != nil {
			return nil, err
		}
	}
	bearer, err := session.ReadToken(f.ui.bearerFile)
	if err != nil {
		return nil, exit.Failedf("load: --pprof-token-file: %w", err)
	}
	p := &page.Page{
		Title: "hone load " + spec.Public(target), Baseline: baseline, Profiles: profilesOf(f.ui.pprof, bearer, stats), Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "load", Value: f.Shape()}, {Name: "hone", Value: command.BuildOf(release).Version}},
	}
	if stats != nil {
		p.Groups = []string{page.Client, page.Server, page.Runtime, page.Host}
	}
	if f.ui.metrics != "" {
		named, err := admin.OpenNamed(cmd.Context(), f.ui.metrics)
		if err != nil {
			return nil, err
		}
		p.Metrics, p.Sources = named.Titles, []page.Source{named.Read}
		p.Groups = slices.Insert(p.Groups, 1, page.Metrics) // after those of the generator
	}
	return p, nil
}

// page returns the live page of a bench.
func (f *benchFlags) page(base *record.Run) *page.Page {
	return &page.Page{
		Title: "hone bench " + spec.Public(f.Target), Baseline: base, Profiles: profilesOf(f.profiles.url, f.profiles.token, nil), Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "scenario", Value: f.Subject.Name()}, {Name: "load", Value: f.Load.Shape()}, {Name: "hone", Value: command.BuildOf(release).Version}},
	}
}

// profilesOf returns where the page captures profiles: the given URL, or a hone server's
// admin side.
func profilesOf(url, token string, stats *admin.Server) *probe.Source {
	switch {
	case url != "":
		return &probe.Source{URL: url, Token: token}
	case stats != nil && stats.Base() != "":
		return &probe.Source{URL: stats.Base(), Token: token}
	}
	return nil
}
