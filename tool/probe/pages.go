package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// Pages returns google/pprof's pages: flame graph, top, source and peek; with two
// profiles, the difference in red and green. They answer only GET requests for this
// machine under a name that DNS cannot rebind (localhost, 127.0.0.1, [::1]). Pages that
// run other programs or write the user's settings are left out.
//
// google/pprof's settings are global to the process, so there can be only one set of
// pages at a time.
func (v *View) Pages() (http.Handler, error) {
	var handlers map[string]http.Handler
	flags := &driverFlags{set: map[string]string{"http": "localhost:1", "sample_index": v.Kind.valueType()}} // nothing listens on port 1
	if v.before != nil {
		flags.set["diff_base"] = "before"
	}
	err := driver.PProf(&driver.Options{
		Flagset: flags, Fetch: scaledSource{v}, Sym: noSymbols{}, Obj: noObjects{}, UI: silentUI{}, Writer: noFiles{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			handlers = args.Handlers
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("probe: pprof cannot show this: %w; look at the table instead", err)
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/flamegraph", "/top", "/source", "/peek", "/download"} {
		if page := handlers[path]; page != nil {
			mux.Handle("GET "+path, page)
		}
	}
	for _, path := range []string{"/{$}", "/graph"} { // a graph needs another program
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "flamegraph?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		})
	}
	return guarded(mux), nil
}

// guarded admits only requests that a browser on this machine makes.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "+
			"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if !ofThisMachine(r.Host) {
			http.Error(w, "this host name is not served here; use localhost, 127.0.0.1 or [::1]", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ofThisMachine reports whether a Host header can only mean this machine.
func ofThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// scaledSource serves the view's profiles to google/pprof.
type scaledSource struct{ *View }

// Fetch returns one of them. It reports no source, because google/pprof would save such a
// profile in the user's home.
func (s scaledSource) Fetch(source string, _, _ time.Duration) (*profile.Profile, string, error) {
	p := s.now
	if source == "before" {
		p = s.before
	}
	p = p.Copy()
	p.Scale(1 / s.fine)
	return p, "", nil
}

// driverFlags is a command line without a user.
type driverFlags struct{ set map[string]string }

// Bool returns the flag's value.
func (f *driverFlags) Bool(_ string, usual bool, _ string) *bool { return &usual }

// Int returns the flag's value.
func (f *driverFlags) Int(_ string, usual int, _ string) *int { return &usual }

// Float64 returns the flag's value.
func (f *driverFlags) Float64(_ string, usual float64, _ string) *float64 { return &usual }

// String returns the flag's value.
func (f *driverFlags) String(name, usual, _ string) *string {
	if set, ok := f.set[name]; ok {
		return &set
	}
	return &usual
}

// StringList returns the flag's values.
func (f *driverFlags) StringList(name, _, _ string) *[]*string {
	list := []*string{}
	if set, ok := f.set[name]; ok {
		list = append(list, &set)
	}
	return &list
}

// ExtraUsage is not used.
func (f *driverFlags) ExtraUsage() string { return "" }

// AddExtraUsage is not used.
func (f *driverFlags) AddExtraUsage(string) {}

// Parse returns the source.
func (f *driverFlags) Parse(func()) []string { return []string{"now"} }

var errNotHere = errors.New("probe: not here")

// noSymbols leaves profiles as they are: Go's are symbolized already.
type noSymbols struct{}

// Symbolize does nothing.
func (noSymbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// noObjects prevents running nm, objdump and addr2line.
type noObjects struct{}

// Open fails.
func (noObjects) Open(string, uint64, uint64, uint64, string) (driver.ObjFile, error) {
	return nil, errNotHere
}

// Disasm fails.
func (noObjects) Disasm(string, uint64, uint64, bool) ([]driver.Inst, error) { return nil, errNotHere }

// noFiles prevents writing files.
type noFiles struct{}

// Open fails.
func (noFiles) Open(name string) (io.WriteCloser, error) {
	return nil, fmt.Errorf("%w: %s", errNotHere, name)
}

// silentUI is never interactive: errors appear on the page.
type silentUI struct{}

// ReadLine returns EOF.
func (silentUI) ReadLine(string) (string, error) { return "", io.EOF }

// Print prints nothing.
func (silentUI) Print(...any) {}

// PrintErr prints nothing.
func (silentUI) PrintErr(...any) {}

// IsTerminal reports false.
func (silentUI) IsTerminal() bool { return false }

// WantBrowser reports false.
func (silentUI) WantBrowser() bool { return false }

// SetAutoComplete does nothing.
func (silentUI) SetAutoComplete(func(string) string) {}
