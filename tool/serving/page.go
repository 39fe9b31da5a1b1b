package serving

import (
	"context"
	"net"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/probe"
)

// serverPage is the server's part of the page. It reads nothing while no browser is
// connected.
func serverPage(side *observe.Admin) *page.Page {
	var seen admin.Rates
	return &page.Page{
		Title: "hone serve", OnlyWatched: true, Groups: []string{page.Server, page.Runtime, page.Host},
		About: []page.Fact{{Name: "service", Value: side.Info.Service}, {Name: "hone", Value: side.Info.Version}},
		Sources: []page.Source{
			func(context.Context) map[string]float64 {
				now := side.Snapshot()
				return seen.Since(&now)
			},
			admin.ThisRuntime(), page.ThisHost(),
		},
	}
}

// ownProfiles returns where this process serves its profiles; nil if no URL can reach
// them.
func ownProfiles(addr net.Addr, token string) *probe.Source {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	where := *tcp
	if where.IP.IsUnspecified() {
		where.IP = net.IPv4(127, 0, 0, 1)
	}
	return &probe.Source{URL: where.String(), Token: token}
}
