package observe

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

// longest is the longest recording that a client may ask for.
const longest = 60 * time.Second

// captures are the profiles in progress, by name: one of each at a time.
type captures struct {
	mu    sync.Mutex
	taken map[string]bool
}

func (c *captures) begin(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[name] {
		return false
	}
	if c.taken == nil {
		c.taken = map[string]bool{}
	}
	c.taken[name] = true
	return true
}

func (c *captures) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taken, name)
}

// recorder is a profile that is recorded over some time.
type recorder struct {
	usual time.Duration
	start func(io.Writer) error
	stop  func()
}

// serveProfile replaces net/http/pprof: importing that package registers profiles on
// http.DefaultServeMux for the whole process. It leaves out cmdline, which may contain
// secrets, and symbol, which Go's profiles do not need.
func (a *Admin) serveProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	known := pprof.Lookup(name)
	switch {
	case name == "":
		serveProfiles(w)
	case name != "profile" && name != "trace" && known == nil:
		http.NotFound(w, r)
	case !a.captures.begin(name):
		http.Error(w, "this profile is already being taken; try again when it is done", http.StatusConflict)
	default:
		defer a.captures.end(name)
		switch name {
		case "profile":
			a.record(w, r, name, recorder{30 * time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile})
		case "trace":
			a.record(w, r, name, recorder{time.Second, trace.Start, trace.Stop})
		default:
			writeProfile(w, r, known)
		}
	}
}

// record records for the time that r asks for, or until the client disconnects or the Admin
// shuts down. The result is a valid profile in every case.
func (a *Admin) record(w http.ResponseWriter, r *http.Request, name string, rec recorder) {
	length := rec.usual
	if r.URL.Query().Has("seconds") {
		seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
		if err != nil || !(seconds > 0 && seconds <= longest.Seconds()) {
			http.Error(w, fmt.Sprintf("seconds must be greater than 0 and at most %v", longest.Seconds()), http.StatusBadRequest)
			return
		}
		length = time.Duration(seconds * float64(time.Second))
	}
	attachment(w, name)
	if r.Method == http.MethodHead {
		return
	}
	// If the writer has no deadlines, none needs extending.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(length + writeTime))
	if err := rec.start(w); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, "the process is already being recorded: "+err.Error(), http.StatusConflict)
		return
	}
	defer rec.stop()
	enough := time.NewTimer(length)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-r.Context().Done():
	case <-a.closing:
	}
}

// writeProfile writes a profile that the runtime maintains all the time.
func writeProfile(w http.ResponseWriter, r *http.Request, p *pprof.Profile) {
	query := r.URL.Query()
	debug, err := strconv.Atoi(query.Get("debug"))
	switch {
	case query.Has("seconds"):
		http.Error(w, "this profile is cumulative since the start; fetch it twice and take the difference: go tool pprof -diff_base BEFORE AFTER", http.StatusBadRequest)
		return
	case query.Has("debug") && (err != nil || debug < 0 || debug > 2):
		http.Error(w, "debug must be 0, 1 or 2", http.StatusBadRequest)
		return
	case debug == 0:
		attachment(w, p.Name())
	default:
		text(w)
	}
	if r.Method == http.MethodHead {
		return
	}
	if p.Name() == "heap" && query.Get("gc") == "1" {
		runtime.GC()
	}
	p.WriteTo(w, debug) // it fails only if the client has disconnected
}

func attachment(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
}

// serveProfiles lists the profiles.
func serveProfiles(w http.ResponseWriter) {
	text(w)
	fmt.Fprintf(w, `profile       CPU for ?seconds=30, at most %v
trace         execution trace for ?seconds=1
`, longest.Seconds())
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%-13s %d; ?debug=1 for text\n", p.Name(), p.Count())
	}
	fmt.Fprint(w, `
go tool pprof http://HOST:PORT/debug/pprof/profile
`)
}
