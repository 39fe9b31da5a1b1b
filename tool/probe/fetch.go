package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/google/pprof/profile"
)

// fetcher fetches one source's profiles.
type fetcher struct {
	source Source
	page   *url.URL
}

// take returns a profile in the form in which it is stored.
func (f *fetcher) take(ctx context.Context, kind Kind) ([]byte, error) {
	switch kind {
	case CPU:
		data, _, err := f.fetch(ctx, kind, fmt.Sprintf("profile?seconds=%.0f", f.source.For.Seconds()), f.source.For)
		return data, err
	case Allocs:
		return f.allocated(ctx)
	}
	return nil, fmt.Errorf("probe: no profile %q; use one of %s", kind, kindNames(Profiles()))
}

// allocated returns the difference of the allocations between the end and the beginning.
func (f *fetcher) allocated(ctx context.Context) ([]byte, error) {
	var both [2]*profile.Profile
	var moments [2]time.Time
	for i := range both {
		if i > 0 {
			select {
			case <-time.After(time.Until(moments[0].Add(f.source.For))):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		moments[i] = time.Now()
		var err error
		// The page of allocs has the same values, but as of an earlier collection.
		if _, both[i], err = f.fetch(ctx, Allocs, "heap?gc=1", 0); err != nil {
			return nil, err
		}
	}
	both[0].Scale(-1)
	sum, err := profile.Merge(both[:])
	if err != nil {
		return nil, fmt.Errorf("probe: the profiles of allocations from %s cannot be subtracted: %w; check whether the program was restarted meanwhile", f.page, err)
	}
	sum.DefaultSampleType = Allocs.valueType()
	sum.TimeNanos, sum.DurationNanos = moments[0].UnixNano(), int64(moments[1].Sub(moments[0]))
	var data bytes.Buffer
	err = sum.Write(&data)
	return data.Bytes(), err
}

// fetch fetches a profile from a page that takes that long.
func (f *fetcher) fetch(ctx context.Context, kind Kind, query string, lasts time.Duration) ([]byte, *profile.Profile, error) {
	data, err := get(ctx, f.source, f.page.String()+query, lasts)
	if err != nil {
		return nil, nil, err
	}
	p, err := profile.ParseData(data)
	if err == nil {
		_, err = kind.index(p)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("probe: the answer of %s is not a %s profile: %w; use the address of net/http/pprof, or the --admin address of hone serve", f.page, kind, err)
	}
	return data, p, nil
}

// get makes one request on a new connection. It follows no redirect: the token is for
// this address only.
func get(ctx context.Context, s Source, address string, lasts time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lasts+s.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("probe: %s: %w; correct the address", address, cause(err))
	}
	if s.Token != "" {
		request.Header.Set("Authorization", "Bearer "+s.Token)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, unreachable(ctx, address, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, s.MostBytes+1))
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, refusal(address, response.StatusCode, response.Status, data)
	case err != nil:
		return nil, unreachable(ctx, address, err)
	case int64(len(data)) > s.MostBytes:
		return nil, fmt.Errorf("probe: %s answers more than %d bytes; profile for a shorter time", address, s.MostBytes)
	}
	return data, nil
}

func unreachable(ctx context.Context, address string, err error) error {
	if ctx.Err() == context.Canceled {
		return context.Cause(ctx)
	}
	return fmt.Errorf("probe: %s: %w; check the address, and that the program serves its profiles there", address, cause(err))
}

// cause returns an error without the address in it, which its line has already.
func cause(err error) error {
	if outer := new(url.Error); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// refusal explains a status code.
func refusal(address string, code int, status string, body []byte) error {
	words, try := firstWords(body), "give the address to which it redirects"
	switch code {
	case http.StatusNotFound:
		words, try = "", `there are no profiles: correct the address, or import _ "net/http/pprof" and serve http.DefaultServeMux on 127.0.0.1`
	case http.StatusUnauthorized, http.StatusForbidden:
		try = "give its token (--pprof-token-file)"
	case http.StatusBadRequest:
		try = "profile for a shorter time, or raise the WriteTimeout of its server"
	case http.StatusInternalServerError, http.StatusConflict:
		try = "try again when no other profile is being taken"
	}
	if words != "" {
		status += " (" + words + ")"
	}
	return fmt.Errorf("probe: %s answers %s; %s", address, status, try)
}

const mostWords = 200

// firstWords returns a body's first line, without control characters.
func firstWords(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), mostWords)])), "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, line)
}
