// Package probe takes profiles of programs under load, and makes them comparable.
//
// [Source.Take] fetches profiles from net/http/pprof, or from pages that answer like it,
// over the same seconds of one load. They become [record.Artefact]s of a sample that is
// not timed: profiling slows a program down a little. [OfRun] combines a run's profiles
// of one kind, [Parse] reads a file, and a [View] shows one, or two side by side: as
// CPU-seconds or bytes per million requests, so that a program that serves more in the
// same time does not look as if it cost more.
package probe

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// Kind is a kind of profile, and the Kind of an artefact.
type Kind string

// The kinds.
const (
	CPU    Kind = "cpu"    // CPU time
	Allocs Kind = "allocs" // allocations, in bytes
)

// Profiles lists the kinds: what requests cost. For waits, the heap and goroutines there is go tool pprof.
func Profiles() []Kind { return []Kind{CPU, Allocs} }

// Source is where a program serves its profiles.
type Source struct {
	// URL is the address: HOST:PORT, or a URL. The default path is /debug/pprof.
	// Required.
	URL string
	// Token is sent as a bearer token. Zero: none.
	Token string
	// For is the length of a profile, in whole seconds, rounded up. Zero: 5 s.
	For time.Duration
	// MostBytes is the longest response accepted. Zero: 64 MiB.
	MostBytes int64
	// Patience is how much later than expected a response may arrive. Zero: 20 s.
	Patience time.Duration
}

// Take takes the profiles, which lasts as long as Lasts returns, and returns them in the
// order of kinds. Allocations count from the program's start: they are fetched twice and
// subtracted, which works with any server, and triggers a garbage collection in it.
//
// An error of one line, which ends with advice, explains why a profile could not be taken;
// then none is returned.
func (s Source) Take(ctx context.Context, kinds ...Kind) ([]record.Artefact, error) {
	page, err := s.page()
	if err != nil {
		return nil, err
	}
	f := &fetcher{source: s.complete(), page: page}
	taken := make([]record.Artefact, len(kinds))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, kind := range kinds {
		all.Go(func() {
			data, err := f.take(ctx, kind)
			if err != nil {
				cancel(err) // the others are not needed any more
			}
			taken[i] = record.Artefact{Kind: string(kind), Name: string(kind) + ".pb.gz", Data: data}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return taken, nil
}

// Lasts returns how long Take takes, apart from late responses.
func (s Source) Lasts() time.Duration { return s.complete().For }

const (
	defaultFor      = 5 * time.Second
	defaultMost     = 64 << 20
	defaultPatience = 20 * time.Second
)

// complete fills in the defaults.
func (s Source) complete() Source {
	if s.For <= 0 {
		s.For = defaultFor
	}
	s.For = (s.For + time.Second - 1).Truncate(time.Second)
	if s.MostBytes <= 0 {
		s.MostBytes = defaultMost
	}
	if s.Patience <= 0 {
		s.Patience = defaultPatience
	}
	return s
}

// page returns the base URL of net/http/pprof's pages, with a trailing slash.
func (s Source) page() (*url.URL, error) {
	text := s.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("probe: %q is not an address of profiles: %w; write it as in http://127.0.0.1:6060", s.URL, cause(err))
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("probe: %q is not an address of profiles; write it as in http://127.0.0.1:6060", s.URL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/debug/pprof"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

func kindNames(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
