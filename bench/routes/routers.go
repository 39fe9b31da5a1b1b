package routes

import (
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/julienschmidt/httprouter"
	"github.com/labstack/echo/v5"
	"github.com/uptrace/bunrouter"

	"github.com/hone-go/hone/route"
)

// A Router builds a handler for routes.
type Router struct {
	Name   string
	Module string // its code

	// Empty has handlers that do nothing, Values ones that read the value of
	// every wildcard by its name, and Reply ones that answer with the value of
	// the first.
	Empty, Values, Reply func([]Route) http.Handler
}

// Routers are hone's and the others. What it costs to have them not answer 405 or
// redirect is not counted: each is as its New makes it, but gin's 405 is on, and
// echo and gin answer misses without a body.
func Routers() []Router {
	return []Router{
		{"hone", "github.com/hone-go/hone", honeRouter(0), honeRouter(1), honeRouter(2)},
		{"servemux", "net/http", serveMux(0), serveMux(1), serveMux(2)},
		{"httprouter", "github.com/julienschmidt/httprouter", httpRouter(0), httpRouter(1), httpRouter(2)},
		{"echo", "github.com/labstack/echo/v5", echoRouter(0), echoRouter(1), echoRouter(2)},
		{"gin", "github.com/gin-gonic/gin", ginRouter(0), ginRouter(1), ginRouter(2)},
		{"chi", "github.com/go-chi/chi/v5", chiRouter(0), chiRouter(1), chiRouter(2)},
		{"bunrouter", "github.com/uptrace/bunrouter", bunRouter(0), bunRouter(1), bunRouter(2)},
	}
}

// sum keeps values from being optimised away.
type sum struct{ bytes int }

// names are the wildcards of a path.
func names(path string) []string {
	var found []string
	for i := 0; i < len(path); i++ {
		if path[i] != '{' {
			continue
		}
		j := i + 1
		for path[j] != '}' && path[j] != '.' {
			j++
		}
		found = append(found, path[i+1:j])
	}
	return found
}

// first is the name of the first wildcard, or "".
func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// quiet answers a miss and a wrong method without a body.
func quiet(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func honeRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) http.Handler {
		mux := &route.Mux{Overlap: true, NotFound: quiet(404), NotAllowed: quiet(405)}
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.HandleParams(r.Method+" "+end(r.Path), [...]route.ParamsFunc{
				func(http.ResponseWriter, *http.Request, route.Params) {},
				func(_ http.ResponseWriter, _ *http.Request, p route.Params) {
					for _, name := range wanted {
						total.bytes += len(p.Get(name))
					}
				},
				func(w http.ResponseWriter, _ *http.Request, p route.Params) {
					w.Header().Set("Content-Type", "text/plain; charset=utf-8")
					io.WriteString(w, p.Get(one))
				},
			}[kind])
		}
		return mux
	}
}

// end makes / a path and not the beginning of all.
func end(path string) string {
	if path == "/" {
		return "/{$}"
	}
	return path
}

func serveMux(kind int) func([]Route) http.Handler {
	return func(all []Route) (h http.Handler) {
		defer func() {
			if recover() != nil {
				h = nil // it refuses the set
			}
		}()
		mux := http.NewServeMux()
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.HandleFunc(r.Method+" "+end(r.Path), [...]http.HandlerFunc{
				func(http.ResponseWriter, *http.Request) {},
				func(_ http.ResponseWriter, q *http.Request) {
					for _, name := range wanted {
						total.bytes += len(q.PathValue(name))
					}
				},
				func(w http.ResponseWriter, q *http.Request) {
					w.Header().Set("Content-Type", "text/plain; charset=utf-8")
					io.WriteString(w, q.PathValue(one))
				},
			}[kind])
		}
		return mux
	}
}

func httpRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) (h http.Handler) {
		defer func() {
			if recover() != nil {
				h = nil
			}
		}()
		mux := httprouter.New()
		mux.NotFound, mux.MethodNotAllowed = quiet(404), quiet(405)
		mux.HandleOPTIONS = false
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.Handle(r.Method, colons(r.Path), [...]httprouter.Handle{
				func(http.ResponseWriter, *http.Request, httprouter.Params) {},
				func(_ http.ResponseWriter, _ *http.Request, p httprouter.Params) {
					for _, name := range wanted {
						total.bytes += len(p.ByName(name))
					}
				},
				func(w http.ResponseWriter, _ *http.Request, p httprouter.Params) {
					w.Header().Set("Content-Type", "text/plain; charset=utf-8")
					io.WriteString(w, p.ByName(one))
				},
			}[kind])
		}
		return mux
	}
}

func echoRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) http.Handler {
		mux := echo.NewWithConfig(echo.Config{HTTPErrorHandler: func(c *echo.Context, err error) {
			c.Response().WriteHeader(http.StatusNotFound)
		}})
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.Add(r.Method, starOnly(colons(r.Path)), [...]echo.HandlerFunc{
				func(*echo.Context) error { return nil },
				func(c *echo.Context) error {
					for _, name := range wanted {
						total.bytes += len(c.Param(name))
					}
					return nil
				},
				func(c *echo.Context) error { return c.String(http.StatusOK, c.Param(one)) },
			}[kind])
		}
		return mux
	}
}

// starOnly is a path for echo and chi, whose * has no name.
func starOnly(path string) string {
	for i := range len(path) {
		if path[i] == '*' {
			return path[:i+1]
		}
	}
	return path
}

func ginRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		mux := gin.New()
		mux.HandleMethodNotAllowed = true
		mux.NoRoute(func(c *gin.Context) { c.Status(http.StatusNotFound); c.Writer.WriteHeaderNow() })
		mux.NoMethod(func(c *gin.Context) { c.Status(http.StatusMethodNotAllowed); c.Writer.WriteHeaderNow() })
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.Handle(r.Method, colons(r.Path), [...]gin.HandlerFunc{
				func(*gin.Context) {},
				func(c *gin.Context) {
					for _, name := range wanted {
						total.bytes += len(c.Param(name))
					}
				},
				func(c *gin.Context) { c.String(http.StatusOK, "%s", c.Param(one)) },
			}[kind])
		}
		return mux
	}
}

func chiRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) http.Handler {
		mux := chi.NewRouter()
		mux.NotFound(quiet(404).ServeHTTP)
		mux.MethodNotAllowed(quiet(405).ServeHTTP)
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			path, _, rest := strings.Cut(r.Path, "{"+first(names(r.Path[strings.LastIndexByte(r.Path, '/'):]))+"...}")
			if rest {
				path += "*"
			}
			mux.MethodFunc(r.Method, path, [...]http.HandlerFunc{
				func(http.ResponseWriter, *http.Request) {},
				func(_ http.ResponseWriter, q *http.Request) {
					for _, name := range wanted {
						total.bytes += len(chi.URLParam(q, name))
					}
				},
				func(w http.ResponseWriter, q *http.Request) {
					w.Header().Set("Content-Type", "text/plain; charset=utf-8")
					io.WriteString(w, chi.URLParam(q, one))
				},
			}[kind])
		}
		return mux
	}
}

func bunRouter(kind int) func([]Route) http.Handler {
	return func(all []Route) http.Handler {
		mux := bunrouter.New(
			bunrouter.WithNotFoundHandler(bunrouter.HTTPHandler(quiet(404))),
			bunrouter.WithMethodNotAllowedHandler(bunrouter.HTTPHandler(quiet(405))))
		var total sum
		for _, r := range all {
			wanted := names(r.Path)
			one := first(wanted)
			mux.Handle(r.Method, colons(r.Path), [...]bunrouter.HandlerFunc{
				func(http.ResponseWriter, bunrouter.Request) error { return nil },
				func(_ http.ResponseWriter, q bunrouter.Request) error {
					for _, name := range wanted {
						total.bytes += len(q.Param(name))
					}
					return nil
				},
				func(w http.ResponseWriter, q bunrouter.Request) error {
					w.Header().Set("Content-Type", "text/plain; charset=utf-8")
					_, err := io.WriteString(w, q.Param(one))
					return err
				},
			}[kind])
		}
		return mux
	}
}
