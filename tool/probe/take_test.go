package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/record"
)

func TestTakeFromARealProgram(t *testing.T) {
	t.Parallel() // it waits more than it works
	r := start(t, "-planted", "100000")
	s := Source{URL: r.addr, For: time.Second}
	var taken []record.Artefact
	var err error
	kinds := Profiles()
	r.underLoad(t, func() { taken, err = s.Take(t.Context(), kinds...) })
	if err != nil {
		t.Fatal(err)
	}
	tops := make(map[Kind]map[string]Line)
	for i, a := range taken {
		if Kind(a.Kind) != kinds[i] {
			t.Fatalf("artefact %d is %s, want %s", i, a.Kind, kinds[i])
		}
		p, err := Parse(a.Data, kinds[i])
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewView(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v.Per != PerSecond {
			t.Errorf("%s is %s", kinds[i], v.Per)
		}
		tops[kinds[i]] = make(map[string]Line)
		for _, l := range v.Top() {
			tops[kinds[i]][l.Function] = l
		}
	}
	for kind, function := range map[Kind]string{CPU: "main.planted", Allocs: "main.allocate"} {
		if !(tops[kind][function].Cum > 0) {
			t.Errorf("the %s profile has no %s: %v", kind, function, tops[kind])
		}
	}
	if l, ok := tops[Allocs]["main.early"]; ok {
		t.Errorf("what was allocated before is in the profile: %+v", l)
	}
}

// TestRefusals checks that everything other than a profile gives an error with advice.
func TestRefusals(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://192.0.2.1/") // must not be followed
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		say     string
	}{
		"no pprof":    {http.NotFound, `import _ "net/http/pprof"`},
		"no token":    {answer(401, "who are you?"), "(who are you?); give its token (--pprof-token-file)"},
		"other token": {answer(403, ""), "--pprof-token-file"},
		"busy":        {answer(500, "Could not enable CPU profiling: cpu profiling already in use\nmore"), "already in use); try again"},
		"busy hone":   {answer(409, "somebody\x1b[31m"), "(somebody[31m)"},
		"too long":    {answer(400, "profile duration exceeds server's WriteTimeout"), "raise the WriteTimeout"},
		"elsewhere":   {answer(302, ""), "302"},
		"a page":      {answer(200, "<html>"), "is not a cpu profile"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				w.Write(make([]byte, 1<<10))
			}
		}, "more than 65536 bytes"},
		"other kind": {func(w http.ResponseWriter, _ *http.Request) {
			w.Write(made(t, Allocs, time.Second, map[string]int64{"a": 1}).Data)
		}, "is not a cpu profile: it has samples, alloc_space, not cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			taken, err := Source{URL: server.URL, MostBytes: 1 << 16}.Take(t.Context(), CPU)
			said := fmt.Sprint(err)
			if err == nil || taken != nil || !strings.Contains(said, c.say) || !strings.Contains(said, "; ") || strings.ContainsAny(said, "\x1b\n") {
				t.Errorf("%q", said)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	if _, err := (Source{URL: addr}).Take(t.Context(), CPU); !strings.Contains(fmt.Sprint(err), "; check the address") {
		t.Errorf("a port without a server: %v", err)
	}
	asked := make(chan struct{}, 9)
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer mute.Close()
	if _, err := (Source{URL: mute.URL, For: time.Second, Patience: 50 * time.Millisecond}).Take(t.Context(), CPU); !strings.Contains(fmt.Sprint(err), "; check the address") {
		t.Errorf("a server that does not answer: %v", err)
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Source{URL: mute.URL}.Take(ctx, Allocs, CPU)
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestBadSources(t *testing.T) {
	for _, url := range []string{"", "ftp://localhost", "http://", "http://%zz", "::"} {
		if _, err := (Source{URL: url}).Take(t.Context(), CPU); !strings.Contains(fmt.Sprint(err), "; write it as in http") {
			t.Errorf("%q: %v", url, err)
		}
	}
	_, err := Source{URL: "localhost:1"}.Take(t.Context(), "cpus")
	if said := fmt.Sprint(err); !strings.Contains(said, "use one of cpu, allocs") {
		t.Errorf("a kind that there is not: %v", err)
	}
}

// TestTokenAndPath checks that the token is sent to the given address, below its path.
func TestTokenAndPath(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	for _, path := range []string{"", "/", "/debug/pprof", "/debug/pprof/", "/admin/pprof/?x#y"} {
		s := Source{URL: server.URL + path, Token: "secret"}
		if _, err := s.Take(t.Context(), CPU); err == nil {
			t.Error("an empty answer is a profile")
		}
	}
	want := "/debug/pprof/profile?seconds=5 Bearer secret"
	if got := strings.Join(asked, "\n"); got != strings.Join([]string{want, want, want, want, "/admin/pprof/profile?seconds=5 Bearer secret"}, "\n") {
		t.Errorf("asked for\n%s", got)
	}
}
