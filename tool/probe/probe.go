// Package probe asks programs what they do under load, and makes it comparable.
//
// [Source.Take] fetches profiles from the pages of net/http/pprof, or any that answer like
// them, over the same seconds of one load. They are [record.Artefact]s, for a
// sample that is kept apart from those that are timed: a program that is looked at
// is a little slower.
//
// [OfRun] puts together what a run has of one kind, [Parse] reads a file, and a
// [View] shows one, or two beside each other: as CPU-seconds, bytes or waiting for a
// million requests, so that a program that answers more in the same time does not
// look as if it worked more.
package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// Kind is what a program can be asked for, and the Kind of an artefact.
type Kind string

// The kinds.
const (
	CPU       Kind = "cpu"       // where processors' time went
	Allocs    Kind = "allocs"    // what was allocated
	Heap      Kind = "heap"      // what is in use, at the end
	Mutex     Kind = "mutex"     // who kept others waiting for locks
	Block     Kind = "block"     // who waited, for locks and channels
	Goroutine Kind = "goroutine" // what goroutines there are, at the end
	Trace     Kind = "trace"     // what happened, moment by moment; for go tool trace
	Metrics   Kind = "metrics"   // what /metrics says
)

// Profiles are the kinds of net/http/pprof; Take takes them, and Metrics.
func Profiles() []Kind { return []Kind{CPU, Allocs, Heap, Mutex, Block, Goroutine, Trace} }

// Source is where a program shows its profiles.
type Source struct {
	// URL is the address: HOST:PORT, or a URL. Without a path: /debug/pprof. Required.
	URL string
	// Token is sent as a bearer token. Zero: none.
	Token string
	// For is how long to look, in whole seconds, rounded up. Zero: 5 s.
	For time.Duration
	// MostBytes is the longest answer that is accepted. Zero: 64 MiB.
	MostBytes int64
	// Patience is how much longer than it should an answer may take. Zero: 20 s.
	Patience time.Duration
}

// Take takes the profiles, which lasts as long as Lasts says, and returns them in
// the order of kinds. Those that count from the program's start (allocs, mutex,
// block) are what was added meanwhile: they are fetched twice and subtracted, which
// works with any server. Heap and allocs make it collect its garbage. A mutex or block profile is empty unless the program has
// asked the runtime for it.
//
// An *Error says why one could not be had; then there is none.
func (s Source) Take(ctx context.Context, kinds ...Kind) ([]record.Artefact, error) {
	page, err := s.page()
	if err != nil {
		return nil, err
	}
	f := &fetcher{source: s.complete(), page: page}
	taken := make([]record.Artefact, len(kinds))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, together := range []bool{true, false} { // a trace slows down what is looked at
		var all sync.WaitGroup
		for i, kind := range kinds {
			if together == (kind != Trace) {
				all.Go(func() {
					data, err := f.take(ctx, kind)
					if err != nil {
						cancel(err) // the others need not go on
					}
					taken[i] = record.Artefact{Kind: string(kind), Name: kind.file(), Data: data}
				})
			}
		}
		all.Wait()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return taken, nil
}

// Lasts is how long Take takes, but for answers that are late.
func (s Source) Lasts(kinds ...Kind) time.Duration {
	s = s.complete()
	var profiles, trace time.Duration
	for _, kind := range kinds {
		if kind == Trace {
			trace = traceTime
		} else {
			profiles = s.For
		}
	}
	return profiles + trace
}

const (
	usualFor      = 5 * time.Second
	usualMost     = 64 << 20
	usualPatience = 20 * time.Second
	traceTime     = time.Second // a busy program writes megabytes of it
)

// complete fills in what zero stands for.
func (s Source) complete() Source {
	if s.For <= 0 {
		s.For = usualFor
	}
	s.For = (s.For + time.Second - 1).Truncate(time.Second)
	if s.MostBytes <= 0 {
		s.MostBytes = usualMost
	}
	if s.Patience <= 0 {
		s.Patience = usualPatience
	}
	return s
}

// page is the URL of net/http/pprof's pages, with a slash at its end.
func (s Source) page() (*url.URL, error) {
	text := s.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &Error{BadSource, fmt.Sprintf("%q is no address of profiles", s.URL), "write it as in http://127.0.0.1:6060", err}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/debug/pprof"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// file is what an artefact of the kind is called.
func (k Kind) file() string {
	switch k {
	case Trace:
		return "trace.out"
	case Metrics:
		return "metrics.txt"
	}
	return string(k) + ".pb.gz"
}

// query is the page of a kind, for so long.
func (k Kind) query(lasts time.Duration) (string, error) {
	seconds := strconv.Itoa(int(math.Ceil(lasts.Seconds())))
	switch k {
	case CPU:
		return "profile?seconds=" + seconds, nil
	case Trace:
		return "trace?seconds=" + seconds, nil
	case Heap, Allocs:
		// The page of allocs has the same values, but as of some earlier collection.
		return "heap?gc=1", nil
	case Mutex, Block, Goroutine:
		return string(k), nil
	}
	return "", &Error{BadSource, fmt.Sprintf("there is no profile %q", k), "use one of " + kindNames(append(Profiles(), Metrics)), nil}
}

func kindNames(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Reason is what kind of thing an Error is about.
type Reason uint8

// The reasons.
const (
	BadSource   Reason = iota // the address, or a kind, cannot be
	Unreachable               // nobody answers there, or not in time
	NoProfiles                // the server has no such page
	Unwelcome                 // it wants a token, or another one
	Refused                   // it says that it cannot, in its own words
	TooLong                   // the answer is longer than Source.MostBytes
	Garbage                   // the answer is no profile
	Missing                   // the run has no profile of this kind
	Unlike                    // two profiles are of different things
)

// Error is why profiles could not be had or shown. Its text is one line that ends
// with the next thing to try.
type Error struct {
	Reason Reason
	What   string
	Try    string
	Err    error // may be nil
}

// Error returns the line.
func (e *Error) Error() string {
	text := "probe: " + e.What
	if e.Err != nil {
		cause := e.Err
		var outer *url.Error
		if errors.As(cause, &outer) {
			cause = outer.Err // the address is in What
		}
		text += ": " + cause.Error()
	}
	if e.Try != "" {
		text += "; " + e.Try
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
