package route_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/route"
)

var (
	howMany = flag.Int("route.requests", 100_000, "compare this many requests with ServeMux and the oracle")
	seed    = flag.Uint64("route.seed", 0, "generate from this `number`; 0 takes a random one")
)

// A sink is a ResponseWriter that keeps what the test compares.
type sink struct {
	header http.Header
	code   int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
}

func (s *sink) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(p), nil
}

// ask sends a request to h. The handlers store their values in values.
func ask(h http.Handler, r *http.Request, values *string) answer {
	w := sink{header: make(http.Header)}
	*values = ""
	h.ServeHTTP(&w, r)
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return answer{w.code, r.Pattern, *values, w.header.Get("Allow"), w.header.Get("Location")}
}

// refused calls register and returns its panic value.
func refused(register func()) (why any) {
	defer func() { why = recover() }()
	register()
	return nil
}

// A contest holds the same patterns in a ServeMux, a Mux and an oracle.
type contest struct {
	std    *http.ServeMux
	mux    *route.Mux
	oracle oracle
	values string
	codes  map[int]int // how often each status was the answer
	empty  int         // CONNECTs with an empty segment that were compared with ServeMux
}

// add registers a pattern in all of them, in the Mux with the kind of handler that n selects, and
// reports a difference in what is accepted.
func (c *contest) add(s spec, n int) error {
	text, names := s.String(), s.names()
	byName := func(value func(string) string) {
		var all []string
		for _, name := range names {
			all = append(all, value(name))
		}
		c.values = strings.Join(all, "|")
	}
	plain := func(_ http.ResponseWriter, r *http.Request) { byName(r.PathValue) }
	here := refused(func() {
		switch n % 3 {
		case 0:
			c.mux.HandleFunc(text, plain)
		case 1:
			c.mux.HandleParams(text, func(_ http.ResponseWriter, _ *http.Request, p route.Params) {
				byName(p.Get)
				for name, value := range p.All() {
					if p.Get(name) != value {
						c.values = fmt.Sprintf("All has %s=%q and Get %q", name, value, p.Get(name))
					}
				}
			})
		default:
			pass := func(next http.Handler) http.Handler { return next }
			c.mux.Group("", pass).HandleCtx(text, func(x route.Ctx) error { byName(x.Param); return nil })
		}
	})
	if c.std != nil {
		there := refused(func() { c.std.HandleFunc(text, plain) })
		if (here == nil) != (there == nil) {
			return fmt.Errorf("%q: refused with %v, and by ServeMux with %v", text, here, there)
		}
	}
	if here == nil {
		c.oracle = append(c.oracle, s)
	} else if c.mux.Overlap {
		for i := range c.oracle {
			if c.oracle[i].equal(&s) {
				return nil
			}
		}
		if text := fmt.Sprint(here); strings.Contains(text, "conflicts with") {
			return fmt.Errorf("%q is refused and equals none: %v", s, here)
		}
	}
	return nil
}

// askStd sends a request to ServeMux, whose PathValue may panic after a CONNECT.
func (c *contest) askStd(r *http.Request) (theirs answer) {
	own := r.Clone(r.Context())
	defer func() {
		if v := recover(); v != nil {
			if r.Method != http.MethodConnect {
				panic(v)
			}
			theirs = answer{code: http.StatusOK, pattern: own.Pattern}
		}
	}()
	return ask(c.std, own, &c.values)
}

// try compares what all of them do with a request.
func (c *contest) try(r *http.Request) error {
	connect := r.Method == http.MethodConnect
	mine := ask(c.mux, r.Clone(r.Context()), &c.values)
	c.codes[mine.code]++
	say := func(who string, theirs answer) error {
		return fmt.Errorf("%s %q %#v (%s) among %q:\n     got %+v\n%s %+v", r.Method, r.Host, r.URL, r.RequestURI, c.oracle, mine, who, theirs)
	}
	p := r.URL.EscapedPath()
	odd := connect && !strings.HasPrefix(p, "/") // no server produces such a request
	if c.std != nil && !odd {
		theirs := c.askStd(r)
		if connect && strings.Contains(p, "//") { // for these segments ServeMux returns no value, another wildcard's, or panics
			theirs.values = mine.values
			c.empty++
		}
		if theirs != mine {
			return say("ServeMux", theirs)
		}
	}
	if !odd {
		if theirs := c.oracle.answer(r); theirs != mine {
			return say("  oracle", theirs)
		}
	}
	found := c.mux.Lookup(r)
	looked := answer{pattern: found.Pattern, allow: found.Allow, location: found.Location}
	if want := (answer{pattern: mine.pattern, allow: mine.allow, location: mine.location}); r.RequestURI != "*" && looked != want {
		return fmt.Errorf("Lookup(%s %v) among %q: %+v; ServeHTTP: %+v", r.Method, r.URL, c.oracle, looked, want)
	}
	return nil
}

// play compares one generated set of patterns on some requests. With overlap there is no ServeMux
// to compare with.
func play(d dice, overlap bool, requests int, codes map[int]int) (empty int, err error) {
	c := &contest{mux: &route.Mux{Overlap: overlap}, codes: codes}
	if !overlap {
		c.std = http.NewServeMux()
	}
	for i := range 1 + d(14) {
		if err := c.add(newSpec(d), i); err != nil {
			return 0, err
		}
	}
	for range requests {
		if err := c.try(newRequest(d)); err != nil {
			return 0, err
		}
	}
	return c.empty, nil
}

// Random patterns and requests get ServeMux's results, or the oracle's where ServeMux refuses the
// patterns.
func TestSameAsServeMux(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	t.Logf("-route.requests=%d -route.seed=%d", *howMany, from)
	random := rand.New(rand.NewPCG(from, 0))
	const each = 50
	codes, empty := make(map[int]int), 0
	for i := range *howMany / each {
		n, err := play(random.IntN, i%2 == 1, each, codes)
		if err != nil {
			t.Fatal(err)
		}
		empty += n
	}
	t.Logf("answers: %v; %d CONNECTs with an empty segment were compared with ServeMux", codes, empty)
	if empty < *howMany/100 {
		t.Errorf("only %d CONNECTs have an empty segment; fix the generator", empty)
	}
	for _, code := range []int{200, 307, 400, 404, 405} {
		if codes[code] < *howMany/100 {
			t.Errorf("status %d occurred only %d times; fix the generator", code, codes[code])
		}
	}
}

// FuzzSameAsServeMux does the same with patterns and requests from the fuzzer.
func FuzzSameAsServeMux(f *testing.F) {
	f.Add([]byte("\x03\x02\x00\x01\x05\x07\x02\x01"), false)
	f.Add([]byte("\x0b\x02\x03\x01\x05\x07\x02\x01\x00\x01\x02\x03\x04"), true)
	f.Fuzz(func(t *testing.T, choices []byte, overlap bool) {
		at := 0
		d := func(n int) int {
			if at == len(choices) {
				return 0
			}
			at++
			return int(choices[at-1]) % n
		}
		if _, err := play(d, overlap, 20, make(map[int]int)); err != nil {
			t.Fatal(err)
		}
	})
}
