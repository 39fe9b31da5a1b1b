package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"
	"github.com/valyala/fasthttp"

	"github.com/hone-go/hone/articles/avatar"
	"github.com/hone-go/hone/articles/lab"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// The pictures that are asked for: as many as fit any cache.
const (
	pictures = 64
	side     = 128
)

func nameOf(i int) string { return fmt.Sprintf("J%c-D%c", 'a'+i%8, 'a'+i/8) }

func targetOf(i int) string { return "/avatar/" + nameOf(i) + "?size=" + strconv.Itoa(side) }

// images are the pictures, as hone draws them, by name and size.
func images() (map[string]picture, error) {
	service, err := service()
	if err != nil {
		return nil, err
	}
	defer service.Close()
	all := make(map[string]picture, pictures)
	for i := range pictures {
		w := &kept{header: http.Header{}}
		r, err := http.NewRequest("GET", targetOf(i), nil)
		if err != nil {
			return nil, err
		}
		service.ServeHTTP(w, r)
		all[nameOf(i)+"/"+strconv.Itoa(side)] = picture{w.body, w.header.Get("Etag")}
	}
	return all, nil
}

// picture is an image that the others have ready.
type picture struct {
	body []byte
	tag  string
}

// kept is an answer in memory.
type kept struct {
	header http.Header
	body   []byte
}

func (k *kept) Header() http.Header { return k.header }
func (k *kept) WriteHeader(int)     {}
func (k *kept) Write(b []byte) (int, error) {
	k.body = append(k.body, b...)
	return len(b), nil
}

func service() (*avatar.Service, error) {
	fonts, err := avatar.OpenFonts(avatar.FontOptions{Places: []string{}})
	return &avatar.Service{Fonts: fonts}, err
}

// entry is a program that takes part.
type entry struct {
	name  string
	serve func(net.Listener) error // nil: a stage of articles/lab
	path  string                   // of the picture that it is asked for
}

// servers are the programs that take part, hone first. Those that are not hone find the
// path's name and the query's size as their users do, look the bytes up in a map, and send
// them with the headers that hone sends. The article's is its last stage.
func servers() []entry {
	own, article := targetOf(0), "/avatar/a?size="+strconv.Itoa(side)
	return []entry{
		{"hone", serveHone, own},
		{"article", nil, article},
		{"echo", serveHandler(echoHandler), own},
		{"hello", serveHello, web.HelloPath},
		{"chi", serveHandler(chiHandler), own},
		{"gin", serveHandler(ginHandler), own},
		{"net/http", serveHandler(muxHandler), own},
		{"fasthttp", withImages(serveFast), own},
	}
}

// named finds a program.
func named(name string) (entry, error) {
	for _, e := range servers() {
		if e.name == name {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("there is no server %q", name)
}

func serveHandler(handler func(map[string]picture) http.Handler) func(net.Listener) error {
	return withImages(func(ln net.Listener, all map[string]picture) error { return withLimits(ln, handler(all)) })
}

func serve(name string) error {
	e, err := named(name)
	if err != nil {
		return err
	}
	if e.serve == nil {
		return lab.Serve(context.Background(), "article-unlogged", os.Stdin, os.Stdout)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.serve(ln) }()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended <- nil
	}()
	if err := say(ln.Addr().String()); err != nil {
		return err
	}
	return <-ended
}

func serveHone(ln net.Listener) error {
	s, err := service()
	if err != nil {
		return err
	}
	s.Limits.UseMemory() // as the command does
	return (&avatar.Server{Service: s}).Serve(ln)
}

// serveHello is the least that http1 can be asked for.
func serveHello(ln net.Listener) error {
	l := avatar.Limits{}.OrDefaults()
	return (&http1.Server{Handler: web.Handler(), Limits: engine.Limits{Conns: l.Connections}}).Serve(ln)
}

func withImages(serve func(net.Listener, map[string]picture) error) func(net.Listener) error {
	return func(ln net.Listener) error {
		all, err := images()
		if err != nil {
			return err
		}
		return serve(ln, all)
	}
}

// withLimits serves a handler with the times that hone has.
func withLimits(ln net.Listener, h http.Handler) error {
	l := avatar.Limits{}.OrDefaults()
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: l.HeaderTime, ReadTimeout: l.ReadTime, WriteTimeout: l.WriteTime,
		IdleTimeout: l.IdleTime, MaxHeaderBytes: l.HeaderBytes,
	}
	return s.Serve(ln)
}

var errMissing = errors.New("no such picture")

// fillHeader sets what hone sends.
func fillHeader(h http.Header, p picture) {
	h.Set("Content-Type", "image/png")
	h.Set("Content-Length", strconv.Itoa(len(p.body)))
	h.Set("Etag", p.tag)
	h.Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=604800")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

func muxHandler(all map[string]picture) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /avatar/{name}", func(w http.ResponseWriter, r *http.Request) {
		p, ok := all[r.PathValue("name")+"/"+r.URL.Query().Get("size")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fillHeader(w.Header(), p)
		w.Write(p.body)
	})
	return mux
}

func chiHandler(all map[string]picture) http.Handler {
	mux := chi.NewRouter()
	mux.Get("/avatar/{name}", func(w http.ResponseWriter, r *http.Request) {
		p, ok := all[chi.URLParam(r, "name")+"/"+r.URL.Query().Get("size")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fillHeader(w.Header(), p)
		w.Write(p.body)
	})
	return mux
}

func echoHandler(all map[string]picture) http.Handler {
	e := echo.New()
	e.GET("/avatar/:name", func(c *echo.Context) error {
		p, ok := all[c.Param("name")+"/"+c.QueryParam("size")]
		if !ok {
			return errMissing
		}
		fillHeader(c.Response().Header(), p)
		return c.Blob(http.StatusOK, "image/png", p.body)
	})
	return e
}

func ginHandler(all map[string]picture) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.GET("/avatar/:name", func(c *gin.Context) {
		p, ok := all[c.Param("name")+"/"+c.Query("size")]
		if !ok {
			c.AbortWithError(http.StatusNotFound, errMissing)
			return
		}
		fillHeader(c.Writer.Header(), p)
		c.Data(http.StatusOK, "image/png", p.body)
	})
	return e
}

func serveFast(ln net.Listener, all map[string]picture) error {
	l := avatar.Limits{}.OrDefaults()
	prefix := len("/avatar/")
	s := &fasthttp.Server{
		NoDefaultServerHeader: true, ReadTimeout: l.ReadTime, WriteTimeout: l.WriteTime, IdleTimeout: l.IdleTime,
		ReadBufferSize: l.HeaderBytes,
		Handler: func(c *fasthttp.RequestCtx) {
			path := c.Path()
			if len(path) < prefix {
				c.NotFound()
				return
			}
			p, ok := all[string(path[prefix:])+"/"+string(c.QueryArgs().Peek("size"))]
			if !ok {
				c.NotFound()
				return
			}
			h := &c.Response.Header
			h.SetContentType("image/png")
			h.Set("Etag", p.tag)
			h.Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=604800")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cross-Origin-Resource-Policy", "cross-origin")
			h.Set("Access-Control-Allow-Origin", "*")
			h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
			c.Response.SetBodyRaw(p.body)
		},
	}
	return s.Serve(ln)
}
