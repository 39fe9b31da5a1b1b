package httpdiff

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// call is one request in a handler.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	note func(format string, args ...any) // adds to what is compared
}

// handlers are all handlers, by the first element of the path.
var handlers = func() map[string]func(*call) {
	all := maps.Clone(plain)
	for _, n := range []int{1, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 20_000, 70_000, 300_000} {
		all["write-"+strconv.Itoa(n)] = func(c *call) { c.say(fill(n)) }
	}
	for _, n := range []int{5, 512, 3000, 100_000} {
		all["copy-"+strconv.Itoa(n)] = func(c *call) { c.copy(struct{ io.Reader }{strings.NewReader(fill(n))}) }
	}
	for _, code := range []int{100, 101, 102, 200, 201, 204, 205, 206, 304, 404, 413, 431, 500, 599, 999} {
		all[strconv.Itoa(code)] = func(c *call) { c.w.WriteHeader(code) }
		all[strconv.Itoa(code)+"-body"] = func(c *call) { c.w.WriteHeader(code); c.say("body") }
	}
	for i, h := range fields {
		all["fields-"+strconv.Itoa(i)] = func(c *call) { maps.Copy(c.w.Header(), h); c.say("hello") }
		all["fields-late-"+strconv.Itoa(i)] = func(c *call) { c.say(c.body()); maps.Copy(c.w.Header(), h); c.say(fill(3000)) }
	}
	return all
}()

// fields are set before an answer, or in it.
var fields = []http.Header{
	{"Content-Length": {"5"}}, {"Content-Length": {"10"}}, {"Content-Length": {"3"}}, {"Content-Length": {"0"}}, {"Content-Length": {"x5"}},
	{"Transfer-Encoding": {"identity"}}, {"Transfer-Encoding": {"chunked"}}, {"Transfer-Encoding": {"chunked"}, "Content-Length": {"5"}},
	{"Connection": {"close"}}, {"Connection": {"keep-alive"}}, {"Connection": {"x, close"}}, {"Content-Encoding": {"gzip"}}, {"Content-Type": {""}}, {"Date": {"yesterday"}},
	{"Date": nil, "Content-Type": nil, "Connection": nil, "Trailer": nil}, {"Content-Length": {"5"}, "Trailer": {"A"}, "A": {"1"}},
	{"x-lower": {"a", "b"}, "Bad Name": {"x"}, "Bad\nName": {"x"}, "": {"x"}, "X-Lines": {" a\r\nX-Evil: b\nc "}, "X-Bytes": {"\x00\x7f\xff\t"}},
	{"Trailer": {"b, A ,,Content-Length", "C"}, "A": {"1"}, http.TrailerPrefix + "E": {"2"}, http.TrailerPrefix + "f": {"3"}},
}

// Handlers that wait for the client would see it leave when it half-closes: net/http ends their
// context then, http1 a little later. Those that read up to the end need a client that does.
var (
	handlerNames = slices.Sorted(maps.Keys(handlers))
	needsClient  = []string{"timeout", "timeout-panic", "timeout-late", "context-done"}
	needsEnd     = []string{"hijack-rest", "hijack-line", "hijack-body"}
)

// describe is everything that a handler can see of a request before it reads the body.
func describe(r *http.Request) string {
	u := r.URL
	return fmt.Sprintf("%q %q %q %d.%d host %q scheme %q opaque %q user %v host %q path %q %q %v query %q %v fragment %q, length %d, encoding %q, close %v, header %q, trailer %q, empty %v, pattern %q, forms %v %v %v, TLS %v, local %v",
		r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, u.Scheme, u.Opaque, u.User, u.Host, u.Path, u.RawPath, u.OmitHost, u.RawQuery, u.ForceQuery, u.Fragment,
		r.ContentLength, r.TransferEncoding, r.Close, r.Header, r.Trailer, r.Body == http.NoBody, r.Pattern, r.Form, r.PostForm, r.MultipartForm, r.TLS, r.Context().Value(http.LocalAddrContextKey) != nil)
}

// digest is a short name of a long text.
func digest(text string) string {
	h := fnv.New64a()
	io.WriteString(h, text)
	return strconv.FormatUint(h.Sum64(), 36)
}

// serve calls the handler that the path names.
func serve(c *call) {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, "/"), "/")
	h := handlers[name]
	if h == nil {
		name, h = "count", plain["count"]
	}
	seen := describe(c.r)
	c.note("/%s: %s", name, seen)
	c.w.Header().Set(seenField, c.r.Method+" "+digest(seen))
	returned := false
	defer func() {
		if !returned {
			c.note(panicNote + digest(seen))
		}
	}()
	h(c)
	returned = true
}

const (
	seenField = "X-Seen" // carries the method, without which a client cannot tell where a response ends
	panicNote = "does not return: "
)

// body reads the rest of the body and notes it.
func (c *call) body() string {
	text, err := io.ReadAll(c.r.Body)
	c.note("body %s, %v, trailer %q", brief(string(text)), err, c.r.Trailer)
	return string(text)
}

// some reads n bytes of the body and notes them.
func (c *call) some(n int) {
	p := make([]byte, n)
	n, err := io.ReadFull(c.r.Body, p)
	c.note("read %s, %v", brief(string(p[:n])), err)
}

func (c *call) say(text string) {
	n, err := io.WriteString(c.w, text)
	c.note("wrote %d, %v", n, err)
}

// copy lets package io write.
func (c *call) copy(from io.Reader) {
	n, err := io.Copy(c.w, from)
	c.note("copied %d, %v", n, err)
}

// parts writes text and flushes it after every n bytes.
func (c *call) parts(text string, n int) {
	for part := range slices.Chunk([]byte(text), n) {
		c.say(string(part))
		c.flush()
	}
}

func (c *call) set(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		c.w.Header().Set(pair[0], pair[1])
	}
}

func (c *call) control() *http.ResponseController { return http.NewResponseController(c.w) }
func (c *call) flush()                            { c.note("flush: %v", c.control().Flush()) }
func (c *call) duplex()                           { c.note("%v", c.control().EnableFullDuplex()) }
func (c *call) limit(n int64)                     { c.r.Body = http.MaxBytesReader(c.w, c.r.Body, n) }

// brief is text, or its beginning and its digest.
func brief(text string) string {
	if len(text) > 80 {
		return fmt.Sprintf("%q… %d bytes, %s", text[:40], len(text), digest(text))
	}
	return fmt.Sprintf("%q", text)
}

var plain = map[string]func(*call){
	"nothing":        func(c *call) {},
	"end":            func(c *call) { c.say("end") },
	"no-write":       func(c *call) { c.say("") },
	"echo":           func(c *call) { c.say(c.body()) },
	"count":          func(c *call) { c.say(brief(c.body())) },
	"slow":           func(c *call) { <-time.After(3 * time.Millisecond); c.say(c.body()) },
	"flush-first":    func(c *call) { c.flush(); c.say("<html>") },
	"flush-last":     func(c *call) { c.say("hello"); c.flush() },
	"flush-declared": func(c *call) { c.set("Content-Length", "10"); c.say("hello"); c.flush(); c.say("hello") },
	"stream":         func(c *call) { c.parts(strings.Repeat("data: 1\n\n", 10), 9) },
	"echo-flushing":  func(c *call) { c.parts(c.body(), 10_000) },
	"trailers":       func(c *call) { c.set("Trailer", "A, B"); c.say(c.body()); c.set("A", "1", "B", "2\r\nx", "C", "3") },
	"trailers-late":  func(c *call) { c.say("hello"); c.flush(); c.set(http.TrailerPrefix+"a", "2") },
	"header-change":  func(c *call) { c.set("A", "1"); c.w.WriteHeader(200); c.set("A", "2"); c.set("B", "3") },
	"hints":          func(c *call) { c.set("Link", "</a.css>"); c.w.WriteHeader(103); c.w.WriteHeader(102); c.say(c.body()) },
	"status-twice":   func(c *call) { c.w.WriteHeader(201); c.w.WriteHeader(500); c.say("x") },
	"notify":         func(c *call) { c.w.(interface{ CloseNotify() <-chan bool }).CloseNotify(); c.say(c.body()) },
	"copy-declared":  func(c *call) { c.set("Content-Length", "30000"); c.copy(strings.NewReader(fill(30_000))) },
	"many-fields": func(c *call) {
		for i := range 200 {
			c.w.Header().Add("X-"+strconv.Itoa(i%150), fill(i))
		}
		c.say("hello")
	},
	"request-changed": func(c *call) { c.r.Method, c.r.Close = "HEAD", true; c.set(seenField, "HEAD"); c.say(c.body()) },
	"deadlines": func(c *call) {
		for _, at := range []time.Time{time.Now().Add(time.Hour), {}} {
			c.note("%v %v", c.control().SetWriteDeadline(at), c.control().SetReadDeadline(at))
		}
		c.say(c.body())
	},
	"deadline-passed": func(c *call) {
		c.body()
		c.note("%v", c.control().SetWriteDeadline(time.Unix(1, 0)))
		c.say("never sent")
	},
	"context-done": func(c *call) {
		ctx, cancel := context.WithTimeout(c.r.Context(), 2*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		c.note("%v %v %v", ctx.Err(), c.r.Context().Err(), c.r.Context().Value(http.ServerContextKey) != nil)
	},

	"unread":         func(c *call) { c.say("unread") },
	"unread-long":    func(c *call) { c.say(fill(6000)) },
	"part":           func(c *call) { c.some(3); c.say("part") },
	"part-close":     func(c *call) { c.some(3); c.note("%v", c.r.Body.Close()); c.some(3); c.say("part") },
	"close-body":     func(c *call) { c.note("%v", c.r.Body.Close()); c.body(); c.say("closed") },
	"late":           func(c *call) { c.say("early "); c.say(c.body()) },
	"late-long":      func(c *call) { c.say(fill(6000)); c.body() },
	"late-flush":     func(c *call) { c.some(2); c.flush(); c.body() },
	"late-status":    func(c *call) { c.w.WriteHeader(202); c.say(c.body()) },
	"read-twice":     func(c *call) { c.body(); c.body(); c.note("%v", c.r.Body.Close()); c.body() },
	"read-zero":      func(c *call) { c.some(0); c.body() },
	"duplex":         func(c *call) { c.duplex(); c.some(2); c.flush(); c.say(c.body()) },
	"duplex-late":    func(c *call) { c.duplex(); c.say(fill(6000)); c.say(c.body()) },
	"body-replaced":  func(c *call) { c.r.Body = io.NopCloser(strings.NewReader(c.body())); c.say(c.body()) },
	"most-413":       func(c *call) { c.limit(10); c.body(); http.Error(c.w, "too large", http.StatusRequestEntityTooLarge) },
	"most-400":       func(c *call) { c.limit(10); c.body(); c.w.WriteHeader(400) },
	"most-enough":    func(c *call) { c.limit(1 << 20); c.say(c.body()) },
	"most-flush":     func(c *call) { c.duplex(); c.flush(); c.limit(10); c.body() },
	"most-other-413": func(c *call) { io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, 10)); c.w.WriteHeader(413) },
	"handler-413": func(c *call) {
		c.behind(most(10), func(c *call) { c.body(); http.Error(c.w, "too large", http.StatusRequestEntityTooLarge) })
	},
	"handler-200":    func(c *call) { c.behind(most(10), func(c *call) { c.say(c.body()) }) },
	"handler-enough": func(c *call) { c.behind(most(1<<20), func(c *call) { c.say(c.body()) }) },
	"form":           func(c *call) { c.note("%v %v %v", c.r.ParseForm(), c.r.Form, c.r.PostForm); c.say(c.r.FormValue("a")) },
	"multipart": func(c *call) {
		c.note("%v", c.r.ParseMultipartForm(1))
		in, head, err := c.r.FormFile("file")
		c.note("%q %v", c.r.FormValue("a"), err)
		if err == nil {
			text, _ := io.ReadAll(in)
			in.Close()
			c.say(head.Filename + brief(string(text)))
		}
	},

	"hijack":        func(c *call) { c.hijack(goodbye) },
	"hijack-close":  func(c *call) { c.hijack(func(net.Conn, *bufio.ReadWriter) {}) },
	"hijack-101":    func(c *call) { c.set("Upgrade", "x", "Connection", "Upgrade"); c.w.WriteHeader(101); c.hijack(goodbye) },
	"hijack-status": func(c *call) { c.w.WriteHeader(202); c.hijack(goodbye) },
	"hijack-write":  func(c *call) { c.say("lost"); c.hijack(goodbye) },
	"hijack-long":   func(c *call) { c.say(fill(6000)); c.hijack(goodbye) },
	"hijack-flush":  func(c *call) { c.say("kept"); c.flush(); c.hijack(goodbye) },
	"hijack-rest":   func(c *call) { c.hijack(rest) },
	"hijack-body":   func(c *call) { c.some(2); c.hijack(rest) },
	"hijack-panic":  func(c *call) { c.hijack(goodbye); panic("no luck") },
	"hijack-misuse": func(c *call) {
		c.hijack(func(nc net.Conn, rw *bufio.ReadWriter) { c.hijack(goodbye); c.say("x"); goodbye(nc, rw) })
	},
	"hijack-line": func(c *call) {
		c.hijack(func(nc net.Conn, rw *bufio.ReadWriter) {
			line, err := rw.ReadString('\n')
			fmt.Fprintf(rw, "line %s, %v", brief(line), err)
		})
	},

	"panic":            func(c *call) { panic("no luck") },
	"panic-nil":        func(c *call) { panic(nil) },
	"panic-status":     func(c *call) { c.w.WriteHeader(0) },
	"panic-write":      func(c *call) { c.body(); c.say("lost"); panic(errors.New("no luck")) },
	"panic-long":       func(c *call) { c.say(fill(20_000)); panic("no luck") },
	"panic-flush":      func(c *call) { c.say("part"); c.flush(); panic("no luck") },
	"panic-flush-long": func(c *call) { c.say(fill(20_000)); c.flush(); c.say("more"); panic("no luck") },
	"abort":            func(c *call) { panic(http.ErrAbortHandler) },
	"abort-write":      func(c *call) { c.say("lost"); panic(http.ErrAbortHandler) },
	"abort-flush":      func(c *call) { c.say("part"); c.flush(); c.say("lost"); panic(http.ErrAbortHandler) },
	"abort-body":       func(c *call) { c.some(2); panic(http.ErrAbortHandler) },
	"goexit":           func(c *call) { c.say("lost"); runtime.Goexit() },

	"error":    func(c *call) { http.Error(c.w, "an error", http.StatusServiceUnavailable) },
	"redirect": func(c *call) { http.Redirect(c.w, c.r, "../else?a=b", http.StatusFound) },
	"content":  func(c *call) { http.ServeContent(c.w, c.r, "x.txt", time.Unix(1, 0), strings.NewReader(fill(5000))) },
	"content-tag": func(c *call) {
		c.set("Etag", `"tag"`)
		http.ServeContent(c.w, c.r, "x", time.Time{}, strings.NewReader(fill(90_000)))
	},
	"timeout":       func(c *call) { c.behind(within(time.Hour), func(c *call) { c.set("A", "b"); c.say("in time") }) },
	"timeout-panic": func(c *call) { c.behind(within(time.Hour), func(*call) { panic("no luck") }) },
	"timeout-late":  func(c *call) { c.behind(within(2*time.Millisecond), func(c *call) { <-c.r.Context().Done() }) },
}

func most(n int64) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler { return http.MaxBytesHandler(h, n) }
}

func within(d time.Duration) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler { return http.TimeoutHandler(h, d, "late") }
}

// behind serves the request through middleware.
func (c *call) behind(middleware func(http.Handler) http.Handler, serve func(*call)) {
	middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(&call{w, r, c.note})
	})).ServeHTTP(c.w, c.r)
}

// hijack takes the connection and closes it when use has returned.
func (c *call) hijack(use func(nc net.Conn, rw *bufio.ReadWriter)) {
	nc, rw, err := c.control().Hijack()
	c.note("hijack: %v", err)
	if err != nil {
		return
	}
	defer nc.Close()
	use(nc, rw)
	rw.Flush()
}

func goodbye(nc net.Conn, rw *bufio.ReadWriter) { rw.WriteString("goodbye") }

func rest(nc net.Conn, rw *bufio.ReadWriter) {
	text, err := io.ReadAll(rw)
	fmt.Fprintf(rw, "rest %s, %v", brief(string(text)), err)
}
