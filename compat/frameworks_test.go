//go:build linux

package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"
)

// The three applications answer the same script: each route uses what its framework offers
// for it.
//
//	GET  /users/{id}        JSON, a cookie, an ETag
//	POST /users             what was bound from JSON or a form
//	POST /upload            the name, size and content of a multipart file
//	GET  /page              40 KB of HTML, which may be compressed
//	GET  /stream            parts that are flushed
//	GET  /panic             recovered: 500
//	GET  /slow              ends at the middleware's deadline: 503 or 504
//	GET  /moved             redirect
//	GET  /empty             204
type user struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"  form:"name"  binding:"required"`
	Roles []string `json:"roles" form:"roles"`
}

// page is HTML that compresses well.
var page = "<!doctype html><title>page</title>" + strings.Repeat("<p>All work and no play.</p>\n", 1400)

// deadline ends /slow.
const deadline = 20 * time.Millisecond

func frameworkScript() []string {
	const boundary = "b0undary"
	multipart := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n" +
		strings.Repeat("content ", 500) + "\r\n--" + boundary + "--\r\n"
	large := strings.Replace(multipart, "content ", strings.Repeat("larger ", 10_000), 1)
	ofMultipart := "Content-Type: multipart/form-data; boundary=" + boundary
	const asJSON, asForm = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
	body := `{"name":"Ada","roles":["admin","dev"]}`
	return []string{
		request("GET /users/17"),
		request("GET /users/17?verbose=1&name=%C3%A9", "Cookie: session=abc; theme=dark", "Accept: application/json", "X-Forwarded-For: 192.0.2.7"),
		request("HEAD /users/17"),
		requestWith(body, "POST /users", asJSON),
		requestWith("name=Ada&roles=admin&roles=dev", "POST /users", asForm),
		requestWith("{", "POST /users", asJSON),
		chunked(body, 7, "POST /users", asJSON),
		requestWith(body, "POST /users", asJSON, "Expect: 100-continue"),
		requestWith(multipart, "POST /upload", ofMultipart),
		requestWith(large, "POST /upload", ofMultipart),
		chunked(multipart, 1000, "POST /upload", ofMultipart),
		request("GET /page"),
		request("GET /page", "Accept-Encoding: gzip, deflate, br"),
		request("HEAD /page", "Accept-Encoding: gzip"),
		request("GET /stream"),
		request("GET /stream", "Accept-Encoding: gzip"),
		request("GET /panic"),
		request("GET /slow"),
		request("GET /moved"),
		request("GET /empty"),
		request("GET /none/of/these"),
		request("PUT /page"),
		request("OPTIONS /page", "Origin: http://other.test", "Access-Control-Request-Method: GET"),
		request("GET /users/%2e%2e%2fetc%2fpasswd"),
		request("GET //page"),
		request("GET /users/17", "Connection: close"),
		strings.Replace(request("GET /users/18"), "HTTP/1.1", "HTTP/1.0", 1),
		request("DELETE /users/17"),
		request("GET /users/19"),
	}
}

func TestEcho(t *testing.T)  { sameAsNetHTTP(t, echoApp, frameworkScript()) }
func TestChi(t *testing.T)   { sameAsNetHTTP(t, chiApp, frameworkScript()) }
func TestGin(t *testing.T)   { sameAsNetHTTP(t, ginApp, frameworkScript()) }
func TestPlain(t *testing.T) { sameAsNetHTTP(t, plainApp, plainScript()) }

func echoApp() http.Handler {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.Use(echomiddleware.RequestLogger(), echomiddleware.Recover(), echomiddleware.Gzip(), echomiddleware.CORS("*"),
		echomiddleware.Secure(), echomiddleware.BodyLimit(8*mib), echomiddleware.ContextTimeout(deadline),
		echomiddleware.RequestIDWithConfig(echomiddleware.RequestIDConfig{Generator: func() string { return "id" }}))
	e.GET("/users/:id", func(c *echo.Context) error {
		c.SetCookie(&http.Cookie{Name: "seen", Value: c.Param("id"), HttpOnly: true})
		c.Response().Header().Set("ETag", `"1"`)
		return c.JSON(http.StatusOK, map[string]any{"id": c.Param("id"), "query": c.QueryParams(), "ip": strings.Split(c.RealIP(), ":")[0], "cookies": c.Cookies()})
	})
	e.POST("/users", func(c *echo.Context) error {
		var u user
		if err := c.Bind(&u); err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, u)
	})
	e.POST("/upload", func(c *echo.Context) error {
		file, err := c.FormFile("file")
		if err != nil {
			return err
		}
		f, err := file.Open()
		if err != nil {
			return err
		}
		defer f.Close()
		return c.Stream(http.StatusOK, "text/plain; "+file.Filename, f)
	})
	e.GET("/page", func(c *echo.Context) error { return c.HTML(http.StatusOK, page) })
	e.GET("/stream", func(c *echo.Context) error {
		for i := range 5 {
			fmt.Fprintf(c.Response(), "part %d\n", i)
			if err := http.NewResponseController(c.Response()).Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	e.GET("/panic", func(*echo.Context) error { panic("asked to") })
	e.GET("/slow", func(c *echo.Context) error {
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	e.GET("/moved", func(c *echo.Context) error { return c.Redirect(http.StatusFound, "/page") })
	e.GET("/empty", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) })
	return e
}

func chiApp() http.Handler {
	r := chi.NewRouter()
	logger := chimiddleware.RequestLogger(&chimiddleware.DefaultLogFormatter{Logger: log.New(io.Discard, "", 0)})
	r.Use(chimiddleware.RequestID, chimiddleware.ClientIPFromRemoteAddr, logger, quietRecoverer, chimiddleware.Compress(5), chimiddleware.CleanPath,
		chimiddleware.Heartbeat("/ping"), chimiddleware.Throttle(100), chimiddleware.Timeout(deadline), chimiddleware.GetHead)
	r.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "%q %q %q", chi.URLParam(r, "id"), r.URL.Query(), r.Cookies())
	})
	r.Post("/users", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 20)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rest, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q %q %v", r.Form, rest, err)
	})
	r.Post("/upload", func(w http.ResponseWriter, r *http.Request) {
		f, header, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		fmt.Fprintf(w, "%s %d %d %v", header.Filename, header.Size, n, err)
	})
	r.Get("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
	})
	r.Get("/stream", stream)
	r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("asked to") })
	r.Get("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r.Get("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page", http.StatusFound) })
	r.Get("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return r
}

// quietRecoverer is chi's Recoverer for a request whose log goes nowhere.
func quietRecoverer(next http.Handler) http.Handler {
	recoverer := chimiddleware.Recoverer(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := chimiddleware.GetLogEntry(r)
		recoverer.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chimiddleware.LogEntryCtxKey, quietEntry{entry})))
	})
}

type quietEntry struct{ chimiddleware.LogEntry }

func (quietEntry) Panic(any, []byte) {}

func ginApp() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.HandleMethodNotAllowed = true
	g.Use(gin.LoggerWithWriter(io.Discard), gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), deadline)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	})
	g.GET("/users/:id", func(c *gin.Context) {
		c.SetCookie("seen", c.Param("id"), 60, "/", "", true, true)
		c.IndentedJSON(http.StatusOK, gin.H{"id": c.Param("id"), "query": c.Request.URL.Query(), "ip": c.ClientIP(), "path": c.FullPath()})
	})
	g.POST("/users", func(c *gin.Context) {
		var u user
		if err := c.ShouldBind(&u); err != nil {
			c.AbortWithStatusJSON(http.StatusBadRequest, gin.H{"error": err.Error()})
			return
		}
		c.JSON(http.StatusCreated, u)
	})
	g.POST("/upload", func(c *gin.Context) {
		file, err := c.FormFile("file")
		if err != nil {
			c.AbortWithError(http.StatusBadRequest, err)
			return
		}
		f, err := file.Open()
		if err != nil {
			c.AbortWithError(http.StatusInternalServerError, err)
			return
		}
		defer f.Close()
		c.DataFromReader(http.StatusOK, file.Size, "text/plain", f, map[string]string{"X-Name": file.Filename})
	})
	g.GET("/page", func(c *gin.Context) { c.Data(http.StatusOK, "text/html", []byte(page)) })
	g.GET("/stream", func(c *gin.Context) {
		parts := 0
		c.Stream(func(w io.Writer) bool {
			c.SSEvent("part", parts)
			parts++
			return parts < 5
		})
	})
	g.GET("/panic", func(*gin.Context) { panic("asked to") })
	g.GET("/slow", func(c *gin.Context) {
		<-c.Request.Context().Done()
		c.String(http.StatusGatewayTimeout, "%v", errors.Is(c.Request.Context().Err(), context.DeadlineExceeded))
	})
	g.GET("/moved", func(c *gin.Context) { c.Redirect(http.StatusFound, "/page") })
	g.GET("/empty", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return g
}

func stream(w http.ResponseWriter, _ *http.Request) {
	for i := range 5 {
		fmt.Fprintf(w, "part %d\n", i)
		http.NewResponseController(w).Flush()
	}
}

// plainApp is net/http alone: what its own handlers and its ResponseWriter do.
func plainApp() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /echo/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %q %q %q %q", r.Method, r.RequestURI, r.PathValue("rest"), r.URL, r.Header, r.Host)
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q %q %d", r.ContentLength, r.TransferEncoding, r.Trailer, err, len(body))
		w.Write(body)
	})
	mux.HandleFunc("POST /ignore", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ignored") })
	mux.HandleFunc("GET /trailer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	})
	mux.HandleFunc("GET /early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		io.WriteString(w, "late")
	})
	mux.HandleFunc("GET /sniff", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "\x89PNG\r\n\x1a\n rest") })
	mux.HandleFunc("GET /none", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) {
		for range 300 {
			io.WriteString(w, strings.Repeat("0123456789", 100))
		}
	})
	mux.HandleFunc("GET /declared", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		n, err := io.WriteString(w, "too long")
		w.Header().Set("X-Too-Late", fmt.Sprint(n, err))
	})
	mux.HandleFunc("GET /short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "short")
	})
	mux.HandleFunc("GET /close", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	})
	mux.HandleFunc("GET /undated", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "undated")
	})
	mux.HandleFunc("GET /abort", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("asked to") })
	mux.HandleFunc("GET /stream", stream)
	mux.HandleFunc("GET /hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		rw.WriteString("HTTP/1.1 299 Own\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
		rw.Flush()
	})
	mux.HandleFunc("GET /about", func(w http.ResponseWriter, r *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		_, copies := w.(io.ReaderFrom)
		_, texts := w.(io.StringWriter)
		_, pushes := w.(http.Pusher)
		_, noticed := w.(http.CloseNotifier) //lint:ignore SA1019 there are applications that ask
		_, local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
		remote, err := netip.ParseAddrPort(r.RemoteAddr)
		control := http.NewResponseController(w)
		fmt.Fprintln(w, flushes, hijacks, copies, texts, pushes, noticed, local, server, remote.Addr(), err, r.Pattern, r.TLS == nil, r.Body == http.NoBody,
			r.GetBody == nil, r.ContentLength, control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.EnableFullDuplex())
	})
	mux.HandleFunc("POST /duplex", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusOK)
		control.Flush()
		some := make([]byte, 1000)
		for {
			n, err := r.Body.Read(some)
			w.Write(some[:n])
			control.Flush()
			if err != nil {
				return
			}
		}
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) {
		n, err := io.Copy(w, bytes.NewReader(file)) // by ReadFrom
		if err != nil || n != int64(len(file)) {
			panic(err)
		}
	})
	mux.HandleFunc("GET /twice", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "a")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-A", "b")
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "teapot")
	})
	mux.HandleFunc("GET /headers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["x-lower"] = []string{"1", "2"}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("X-Lines", "one\r\ntwo: three")
		w.Header().Set("Bad Name", "x")
		w.Header().Set("Transfer-Encoding", "identity")
		io.WriteString(w, "headers")
	})
	mux.HandleFunc("GET /unread", func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		n, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, n, err)
	})
	mux.HandleFunc("GET /304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	return mux
}

func plainScript() []string {
	body := strings.Repeat("0123456789abcdef", 1000)
	script := []string{
		request("GET /echo/a/b?c=d&e#f", "User-Agent: test", "accept: */*", "X-A: 1", "x-a: 2", "Pragma: no-cache"),
		request("GET /echo/%41%2f%20", "Accept-Language:   de  "),
		"GET http://other.test/echo/absolute HTTP/1.1\r\nHost: app.test\r\n\r\n",
		requestWith(body, "POST /echo"),
		requestWith(strings.Repeat(body, 10), "POST /echo"),
		chunked(body, 999, "POST /echo"),
		strings.TrimSuffix(chunked("abc", 1, "POST /echo", "Trailer: X-T"), "\r\n") + "X-T: v\r\n\r\n",
		requestWith(body, "POST /ignore"),
		chunked(body, 100, "POST /ignore"),
		requestWith(body, "POST /echo", "Expect: 100-continue"),
		requestWith("body", "POST /echo", "Expect: the-unexpected"),
		requestWith(body, "POST /duplex"),
		chunked(body, 1001, "POST /duplex"),
		requestWith(body, "GET /unread"),
		request("OPTIONS *"),
		"GET /none HTTP/1.1\r\n\r\n",
		"GET /none HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		request("GET /none", "Bad Name: x"),
		request("GET /none", "Content-Length: 4x"),
		requestWith("body\r\n", "POST /echo", "Transfer-Encoding: chunked"),
		request("GET /none", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
		"BREW /pot\r\n\r\n",
		"GET /none HTTP/3.0\r\nHost: a\r\n\r\n",
		"GET /echo/bare HTTP/1.1\nHost: a\n\n",
		request("GET /none", "X-Long: "+strings.Repeat("x", 20_000)),
	}
	for _, path := range []string{"trailer", "early", "sniff", "none", "large", "declared", "short", "close", "undated", "abort", "panic", "stream", "hijack", "304", "about", "file", "twice", "headers", "unread"} {
		var headers []string
		if path == "panic" || path == "abort" || path == "hijack" {
			headers = append(headers, "Connection: close") // so the script knows that it ends
		}
		get := request("GET /"+path, headers...)
		script = append(script, get, request("HEAD /"+path, headers...), strings.Replace(get, "HTTP/1.1", "HTTP/1.0", 1))
	}
	script = slices.DeleteFunc(script, func(r string) bool { return strings.HasPrefix(r, "HEAD /hijack") })
	return append(script, request("GET /echo/last"))
}
