package routes

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/hone-go/hone/bench/race"
)

// Every router finds every route of every set that it holds, with the values that
// were asked for: what is compared does the same.
func TestRoutersAgree(t *testing.T) {
	for _, s := range Sets() {
		for _, router := range Routers() {
			h := router.Reply(s.Routes)
			if h == nil {
				t.Logf("%s cannot hold %s", router.Name, s.Name)
				continue
			}
			t.Run(s.Name+"/"+router.Name, func(t *testing.T) { agree(t, s, router.Name, h) })
		}
	}
}

func agree(t *testing.T, s Set, name string, h http.Handler) {
	for _, route := range s.Routes {
		one := Set{Name: "one", Routes: []Route{route}}
		r := one.AsClients()[0]
		w := &bodySink{sink: sink{header: make(http.Header), code: 200}}
		h.ServeHTTP(w, r)
		want := ""
		for i, part := range strings.Split(route.Path, "/") {
			if strings.HasPrefix(part, "{") {
				want = strings.Split(r.URL.Path, "/")[i]
				break
			}
		}
		rest := strings.Contains(route.Path, "...") // some include the slash, and * has no name
		if w.code != 200 || w.body.String() != want && !rest {
			t.Errorf("%s %s: %d %q, want %q", r.Method, r.URL.Path, w.code, w.body.String(), want)
		}
	}
}

type bodySink struct {
	sink
	body strings.Builder
}

func (s *bodySink) Write(p []byte) (int, error)       { return s.body.Write(p) }
func (s *bodySink) WriteString(p string) (int, error) { return s.body.WriteString(p) }

// A handler that keeps the pooled context of echo or gin sees another request's
// value there. The same with a Ctx panics: TestKeptContext in package route.
func TestPooledContextsLeak(t *testing.T) {
	for name, build := range map[string]func() (http.Handler, func() string){
		"echo": func() (http.Handler, func() string) {
			var kept *echo.Context
			mux := echo.New()
			mux.GET("/:customer", func(c *echo.Context) error {
				if kept == nil {
					kept = c
				}
				return nil
			})
			return mux, func() string { return kept.Param("customer") }
		},
		"gin": func() (http.Handler, func() string) {
			var kept *gin.Context
			gin.SetMode(gin.ReleaseMode)
			mux := gin.New()
			mux.GET("/:customer", func(c *gin.Context) {
				if kept == nil {
					kept = c
				}
			})
			return mux, func() string { return kept.Param("customer") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			// A pool may drop what it is given, and does under -race: try again with a new one.
			for range 200 {
				h, customer := build()
				w := &sink{header: make(http.Header)}
				h.ServeHTTP(w, request("GET", "/alice"))
				for range 20 {
					h.ServeHTTP(w, request("GET", "/bob"))
					if customer() == "bob" {
						return
					}
				}
			}
			t.Error("the context that alice's handler kept never had bob's name: has pooling gone?")
		})
	}
}

// TestRow measures every contest, a moment each.
func TestRow(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range Row().Round(t.Context(), new(race.Ground), nil) {
		seen[s.Case] = true
		if s.Figures["ns"] <= 0 {
			t.Errorf("%+v", s)
		}
	}
	if want := 3*len(Sets()) + 2*len(Sets()[3:]); len(seen) != want {
		t.Errorf("%d contests, want %d", len(seen), want)
	}
}
