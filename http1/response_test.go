package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"go/version"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hone-go/hone/engine"
)

// notes are what a handler has observed, and what its server has logged.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// Write records the first line of a log entry, without the address.
func (n *notes) Write(p []byte) (int, error) {
	line, _, _ := strings.Cut(string(p), "\n")
	n.add("log: %s", address.ReplaceAllString(line, "ADDRESS"))
	return len(p), nil
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.lines, "\n"), text)
}

func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := strings.Join(n.lines, "\n")
	n.lines = nil
	return text
}

var (
	address    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	dateField  = regexp.MustCompile(`Date: [^\r]+ GMT\r\n`)
	closeField = regexp.MustCompile(`Connection: close\r\n((?:[^\r]+\r\n)*)\r\n`)
)

const get = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"

func post(body string) string {
	return fmt.Sprintf("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// answers are handlers whose responses must be equal byte by byte on net/http and on the fast
// path.
var answers = []struct {
	name    string
	request string // empty: get
	serve   func(n *notes, w http.ResponseWriter, r *http.Request)
}{
	{"nothing", "", func(n *notes, w http.ResponseWriter, r *http.Request) {}},
	{"hello", "", func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\n") }},
	{"hello by Write", "", func(n *notes, w http.ResponseWriter, r *http.Request) { n.count(w.Write([]byte("hello\n"))) }},
	{"writes nothing", "", func(n *notes, w http.ResponseWriter, r *http.Request) { n.count(w.Write(nil)) }},
	{"404", "", func(n *notes, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }},
	{"redirect", "", func(n *notes, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/y?z", http.StatusFound) }},
	{"status only", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
	{"unknown status", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(799) }},
	{"unassigned status", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(599); w.Write([]byte("x")) }},
	{"204", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(204)
		n.count(w.Write([]byte("abc")))
		n.count(w.Write(nil))
	}},
	{"304", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "3")
		w.Header().Set("Etag", "x")
		w.WriteHeader(304)
		n.count(io.WriteString(w, "abc"))
	}},
	{"101 without Hijack", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(101)
	}},
	{"superfluous WriteHeader", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(202)
	}},
	{"WriteHeader after Write", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("x"))
		w.WriteHeader(202)
	}},
	{"invalid status", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		defer func() { n.add("%v", recover()) }()
		w.WriteHeader(99)
	}},
	{"status of four digits", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		defer func() { n.add("%v", recover()) }()
		w.WriteHeader(1000)
	}},
	{"2048 bytes", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("x"), 2048)) }},
	{"2049 bytes", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("x"), 2049)) }},
	{"2049 bytes of a string", "", func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 2049)) }},
	{"5000 bytes of a string", "", func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 5000)) }},
	{"small and large", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		for i := range 40 {
			n.count(w.Write(bytes.Repeat([]byte("y"), 37*i)))
		}
	}},
	{"small and large strings", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		for i := range 60 {
			n.count(io.WriteString(w, strings.Repeat("z", 91*i)))
		}
	}},
	{"300 KiB", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Write(bytes.Repeat([]byte("0123456789abcdef"), 300<<6))
	}},
	{"300 KiB, declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(300<<10))
		for range 300 {
			w.Write(bytes.Repeat([]byte("0123456789abcdef"), 64))
		}
	}},
	{"declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		n.count(io.WriteString(w, "hello"))
	}},
	{"declared zero", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "0")
		n.count(io.WriteString(w, "hello"))
	}},
	{"declared, too much", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		n.count(io.WriteString(w, "hello"))
		n.count(io.WriteString(w, "!"))
	}},
	{"declared, too little", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		n.count(io.WriteString(w, "hell"))
	}},
	{"declared, nothing", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "5") }},
	{"declared badly", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "five")
		io.WriteString(w, "hello")
		n.add("%q", w.Header())
	}},
	{"declared negative", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "-1")
		w.WriteHeader(200)
		io.WriteString(w, "hello")
	}},
	{"declared badly for HEAD", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "five")
		io.WriteString(w, "hello")
	}},
	{"HEAD", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) { n.count(io.WriteString(w, "hello")) }},
	{"HEAD, nothing", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {}},
	{"HEAD, much", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) { n.count(w.Write(make([]byte, 5000))) }},
	{"HEAD, declared", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "77") }},
	{"HEAD, flushed", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}},
	{"HEAD with trailers", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "A")
		io.WriteString(w, "hello")
		w.Header().Set("A", "b")
	}},
	{"HTML", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "  <!doctype html><title>x</title>")
	}},
	{"JSON", "", func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"a": 1}`) }},
	{"binary", "", func(n *notes, w http.ResponseWriter, r *http.Request) { w.Write([]byte{1, 2, 3}) }},
	{"GIF", "", func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "GIF89a...") }},
	{"no Content-Type", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "hello")
	}},
	{"empty Content-Type", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "")
		io.WriteString(w, "hello")
	}},
	{"Content-Encoding", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "hello")
	}},
	{"empty Content-Encoding", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "")
		io.WriteString(w, "hello")
	}},
	{"no Date", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		io.WriteString(w, "hello")
	}},
	{"own Date", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "yesterday")
		io.WriteString(w, "hello")
	}},
	{"many fields", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		for i := range 30 {
			w.Header().Add(fmt.Sprintf("X-%d", i*7%30), strconv.Itoa(i))
			w.Header().Add("X-Same", strconv.Itoa(i))
		}
		io.WriteString(w, "hello")
	}},
	{"odd fields", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["lower-case"] = []string{"a", "b"}
		h["bad name"] = []string{"c"}
		h[""] = []string{"d"}
		h["Bad:"] = []string{"e"}
		h["Umläut"] = []string{"f"}
		h["Value"] = []string{" spaces\t", "line\r\nInjected: yes", "\n", "", "umläut\x00"}
		h["content-length"] = []string{"99"}
		io.WriteString(w, "hello")
	}},
	{"fields changed afterwards", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("A", "1")
		w.Header()["B"] = []string{"2"}
		w.WriteHeader(200)
		w.Header().Set("A", "changed")
		w.Header()["B"][0] = "changed"
		w.Header().Set("C", "late")
		io.WriteString(w, "hello")
		w.Header().Set("Content-Length", "1")
		n.add("%q", w.Header())
	}},
	{"fields before an implicit head", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.Header().Set("Late", "x")
	}},
	{"Connection: close from the handler", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	}},
	{"Connection: Close in a list", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "keep-alive, Close")
		io.WriteString(w, "bye")
	}},
	{"Connection: keep-alive from the handler", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "keep-alive")
		io.WriteString(w, "on")
	}},
	{"Connection: close from the client", "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "bye")
		n.add("%v %q", r.Close, r.Header)
	}},
	{"closes from both sides", "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	}},
	{"identity", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		io.WriteString(w, "until the end")
		w.(http.Flusher).Flush()
	}},
	{"chunked by the handler", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		io.WriteString(w, "hello")
	}},
	{"another transfer encoding", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "gzip")
		io.WriteString(w, "hello")
	}},
	{"chunked and declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
	}},
	{"identity and declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
	}},
	{"flushed", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
		}
	}},
	{"flushed first", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).Flush())
		io.WriteString(w, "<html>")
	}},
	{"flushed, declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}},
	{"flushed last", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
	}},
	{"trailers", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Trailer", "b, A ,,Content-Length")
		w.Header().Add("Trailer", "C")
		io.WriteString(w, "hello")
		w.Header().Set("A", "1")
		w.Header().Add("B", "2")
		w.Header().Add("B", "3\r\nx")
		w.Header().Set("D", "undeclared")
	}},
	{"trailers that exist before", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "A")
		w.Header().Set("A", "early")
		io.WriteString(w, "hello")
		w.Header().Set("A", "late")
	}},
	{"trailers by prefix", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set(http.TrailerPrefix+"Early", "1")
		io.WriteString(w, "hello")
		w.Header().Set(http.TrailerPrefix+"late", "2")
		w.Header()[http.TrailerPrefix+"bad name"] = []string{"3"}
	}},
	{"trailers by prefix, late", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"Late", "2")
	}},
	{"trailers by prefix, declared length", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set(http.TrailerPrefix+"Late", "2")
		io.WriteString(w, "hello")
	}},
	{"empty Trailer", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "")
		io.WriteString(w, "hello")
	}},
	{"Trailer without values", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Trailer"] = nil
		io.WriteString(w, "hello")
	}},
	{"103", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.Header().Set("X", "y")
		w.WriteHeader(103)
		io.WriteString(w, "hello")
	}},
	{"100 and 102", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(100)
		w.WriteHeader(102)
		w.WriteHeader(204)
	}},
	{"panics", "", func(n *notes, w http.ResponseWriter, r *http.Request) { panic("no luck") }},
	{"panics after a small Write", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		panic(errors.New("no luck"))
	}},
	{"aborts", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		panic(http.ErrAbortHandler)
	}},
	{"aborts after Flush", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		io.WriteString(w, "never sent")
		panic(http.ErrAbortHandler)
	}},
	{"body", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		p := make([]byte, 6)
		n.count(r.Body.Read(nil))
		n.count(r.Body.Read(p))
		n.count(r.Body.Read(p))
		n.count(r.Body.Read(p))
		n.count(r.Body.Read(nil))
		n.add("%v", r.Body.Close())
		n.count(r.Body.Read(p))
		n.add("%v %v", r.Body.Close(), r.GetBody == nil)
	}},
	{"body closed early", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", r.Body.Close())
		n.count(r.Body.Read(make([]byte, 4)))
		io.WriteString(w, "hello")
	}},
	{"body not read", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }},
	{"body after the head", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		n.count(r.Body.Read(make([]byte, 4)))
		w.(http.Flusher).Flush()
		n.count(r.Body.Read(make([]byte, 4)))
	}},
	{"body after the head, full duplex", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).EnableFullDuplex())
		w.(http.Flusher).Flush()
		n.count(r.Body.Read(make([]byte, 4)))
		io.Copy(io.Discard, r.Body) // otherwise net/http panics
	}},
	{"body after the head, closing", "POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		n.count(r.Body.Read(make([]byte, 4)))
	}},
	{"no body", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v %v", r.Body == http.NoBody, r.Body != nil)
		n.count(r.Body.Read(make([]byte, 4)))
		n.add("%v", r.Body.Close())
		n.count(r.Body.Read(make([]byte, 4)))
	}},
	{"MaxBytesReader", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 100)
		_, err := io.ReadAll(r.Body)
		n.add("%v", err)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}},
	{"MaxBytesReader, another status", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 100)
		_, err := io.ReadAll(r.Body)
		n.add("%v", err)
		w.WriteHeader(400)
	}},
	{"MaxBytesReader, enough", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1000)
		p, err := io.ReadAll(r.Body)
		n.add("%d %v", len(p), err)
	}},
	{"MaxBytesReader after Flush", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.(http.Flusher).Flush()
		r.Body = http.MaxBytesReader(w, r.Body, 100)
		_, err := io.ReadAll(r.Body)
		n.add("%v", err)
	}},
	{"MaxBytesHandler", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			n.add("%v", err)
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		}), 100).ServeHTTP(w, r)
	}},
	{"MaxBytesHandler, another status", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			n.add("%v", err)
		}), 10).ServeHTTP(w, r)
	}},
	{"MaxBytesHandler, in several reads", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			n.add("%v", err)
		}), 600).ServeHTTP(w, r)
	}},
	{"MaxBytesHandler after WriteHeader", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(200)
			_, err := io.ReadAll(r.Body)
			n.add("%v", err)
		}), 10).ServeHTTP(w, r)
	}},
	{"MaxBytesHandler, enough", post(strings.Repeat("x", 1000)), func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			part := make([]byte, 512)
			for range 10 {
				n.count(r.Body.Read(part[:100]))
			}
			p, err := io.ReadAll(r.Body)
			n.add("%d %v", len(p), err)
		}), 1000).ServeHTTP(w, r)
	}},
	{"413 without MaxBytesReader", post("abc"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.ReadAll(r.Body)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}},
	{"form", "POST /x?q=1 HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\na=b&c=d&a=e", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v %v %v", r.FormValue("q"), r.Form, r.PostForm)
	}},
	{"multipart form", multipartPost(), func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", r.ParseMultipartForm(1))
		for _, f := range r.MultipartForm.File["file"] {
			in, err := f.Open()
			if err != nil {
				n.add("%v", err)
				return
			}
			text, _ := io.ReadAll(in)
			in.Close()
			n.add("%s %d %s", f.Filename, f.Size, text)
		}
	}},
	{"ReadFrom, small", "", func(n *notes, w http.ResponseWriter, r *http.Request) { n.copied(io.Copy(w, only("hello"))) }},
	{"ReadFrom, 511", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, only(strings.Repeat("a", 511))))
	}},
	{"ReadFrom, 512", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, only(strings.Repeat("a", 512))))
	}},
	{"ReadFrom, 513", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, only(strings.Repeat("a", 513))))
	}},
	{"ReadFrom, 100 000", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, only(strings.Repeat("a", 100000))))
	}},
	{"ReadFrom, declared", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		n.copied(io.Copy(w, only(strings.Repeat("a", 100000))))
	}},
	{tooLong, "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		n.copied(io.Copy(w, only(strings.Repeat("a", 1500))))
	}},
	{"ReadFrom after Write", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		n.copied(io.Copy(w, only(strings.Repeat("a", 3000))))
		io.WriteString(w, "last")
	}},
	{"ReadFrom for HEAD", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, only(strings.Repeat("a", 3000))))
	}},
	{"ReadFrom with an error", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.copied(io.Copy(w, struct{ io.Reader }{io.MultiReader(strings.NewReader(strings.Repeat("a", 600)), iotest.ErrReader(errors.New("broken")))}))
	}},
	{"ServeContent", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.txt", time.Unix(1, 0), strings.NewReader(strings.Repeat("0123456789", 500)))
	}},
	{"ServeContent of ranges", "GET /x HTTP/1.1\r\nHost: h\r\nRange: bytes=5-20\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.txt", time.Unix(1, 0), strings.NewReader(strings.Repeat("0123456789", 500)))
	}},
	{"ServeFile", "", func(n *notes, w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "response.go") }},
	{"server in the context", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
		addr, local := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		n.add("%v %v %v %v", ok, local, addr.IP, r.Context().Value("other"))
	}},
	{"context", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, has := r.Context().Deadline()
		n.add("%v %v", has, r.Context().Err())
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		n.add("%v", ctx.Err())
		cancel()
		n.add("%v %v %v", ctx.Err(), r.Context().Err(), context.Cause(r.Context()))
	}},
	{"TimeoutHandler", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("A", "b")
			io.WriteString(w, "in time")
		}), time.Hour, "late").ServeHTTP(w, r)
	}},
	{"TimeoutHandler, late", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), time.Millisecond, "late").ServeHTTP(w, r)
	}},
	{"write deadline passed", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second)))
		io.WriteString(w, "never sent")
	}},
	{"deadlines to come", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		n.add("%v %v", c.SetWriteDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Now().Add(time.Hour)))
		n.add("%v %v", c.SetWriteDeadline(time.Time{}), c.SetReadDeadline(time.Time{}))
		io.WriteString(w, "sent")
	}},
	{"hijacked", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			n.add("%v", err)
			return
		}
		defer nc.Close()
		_, again, err := http.NewResponseController(w).Hijack()
		n.add("%v %v", again == nil, err)
		n.count(w.Write([]byte("x")))
		n.count(w.Write(nil))
		w.WriteHeader(400)
		n.add("%v %v", rw.Reader.Buffered(), r.Context().Err())
		rest, err := http.ReadRequest(rw.Reader)
		if err != nil {
			n.add("%v", err)
			return
		}
		fmt.Fprintf(rw, "raw bytes, then %s", rest.URL)
		rw.Flush()
		io.WriteString(nc, "; unbuffered")
		_, tcp := nc.(*net.TCPConn)
		_, secure := nc.(*tls.Conn)
		n.add("%v", tcp || secure)
	}},
	{"hijacked after WriteHeader", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(101)
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			n.add("%v", err)
			return
		}
		rw.WriteString("raw")
		rw.Flush()
		nc.Close()
	}},
	{"hijacked after Write", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "lost")
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			n.add("%v", err)
			return
		}
		nc.Close()
	}},
	{"hijacked with a body", post("some bytes"), func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.count(r.Body.Read(make([]byte, 4)))
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			n.add("%v", err)
			return
		}
		p := make([]byte, 9)
		io.ReadFull(rw, p)
		fmt.Fprintf(nc, "%s", p)
		nc.Close()
	}},
	{"hijacked, then panics", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			n.add("%v", err)
			return
		}
		go func() {
			for end := time.Now().Add(5 * time.Second); !n.has("panic serving") && time.Now().Before(end); {
				runtime.Gosched()
			}
			io.WriteString(nc, "still here")
			nc.Close()
		}()
		panic("no luck")
	}},
	{"method changed by the handler", "", func(n *notes, w http.ResponseWriter, r *http.Request) {
		r.Method = "HEAD"
		io.WriteString(w, "hello")
	}},
	{"request as it is", "GET /a%20b?q=1;2#f HTTP/1.1\r\nHost: h\r\nA: b\r\nCookie: c=d\r\n\r\n", func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v %v %v %v %v %q %v %v", r.Method, r.URL, r.Proto, r.Host, r.RequestURI, r.Header, r.ContentLength, r.TransferEncoding)
		n.add("%v %v %v %v %v", r.Form, r.TLS == nil || r.TLS.HandshakeComplete, r.Pattern, r.Close, address.MatchString(r.RemoteAddr))
	}},
}

// only hides all methods but Read.
func only(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func (n *notes) count(m int, err error)    { n.add("%d %v", m, err) }
func (n *notes) copied(m int64, err error) { n.add("%d %v", m, err) }

func multipartPost() string {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	form.SetBoundary("boundary")
	form.WriteField("name", "value")
	file, _ := form.CreateFormFile("file", "a.txt")
	io.WriteString(file, strings.Repeat("text", 100))
	form.Close()
	return fmt.Sprintf("POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", form.FormDataContentType(), body.Len(), body.String())
}

// contender is a server to compare.
type contender struct {
	name  string
	addr  string
	notes notes
	at    atomic.Int32 // the index in answers that is requested
	fast  func() uint64
	mute  func(bool) // SetKeepAlivesEnabled
}

func (c *contender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/end" {
		io.WriteString(w, "end")
		return
	}
	answers[c.at.Load()].serve(&c.notes, w, r)
}

// startContenders starts net/http, as the first, and the fast path on every engine.
func startContenders(t *testing.T) (all []*contender) {
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	std, ln := &contender{name: "net/http"}, listen()
	std.addr = ln.Addr().String()
	server := &http.Server{Handler: std, ErrorLog: log.New(&std.notes, "", 0)}
	std.mute = server.SetKeepAlivesEnabled
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	all = append(all, std)
	for i, e := range append(engines(), engine.Engine{}) {
		c, ln := &contender{name: e.Name()}, listen()
		if i == len(engines()) {
			c.name, ln = c.name+"-tls", secured(t, ln)
		}
		c.addr = ln.Addr().String()
		s := &Server{Engine: e, Std: &http.Server{Handler: c, ErrorLog: log.New(&c.notes, "", 0)}}
		s.faults.Interval = -1 // net/http has none
		c.mute = s.SetKeepAlivesEnabled
		c.fast = func() uint64 { return s.Stats().Fast }
		go s.Serve(ln)
		t.Cleanup(func() { s.Close() })
		all = append(all, c)
	}
	return all
}

// engines are all engines of this operating system, in every mode.
func engines() (all []engine.Engine) {
	for _, e := range engine.All() {
		all = append(all, e)
		if e == engine.Events(engine.Auto) {
			all = append(all, engine.Events(engine.Inline), engine.Events(engine.Offload))
		}
	}
	return all
}

// exchange sends a request and another one, and returns everything that it reads.
func (c *contender) exchange(t *testing.T, request string) string {
	nc, err := net.Dial("tcp", c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(nc, request+"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	got, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: no end after %q", c.name, got)
	}
	last := closeField.ReplaceAllString(string(got), "${1}Connection: close\r\n\r\n") // as since Go 1.27
	return dateField.ReplaceAllString(last, "Date: X\r\n")
}

func TestResponsesMatchNetHTTP(t *testing.T) { compareAnswers(t, true) }

func TestAnswersWithoutKeepAlives(t *testing.T) { compareAnswers(t, false) }

// tooLong is an answer of which net/http sends too much before Go 1.27.
const tooLong = "ReadFrom, declared too little"

func TestReadFromEndsAtTheDeclaredLength(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			if n, err := io.Copy(w, only(strings.Repeat("a", 1500))); n != 1000 || err != http.ErrContentLength {
				t.Errorf("%d bytes, %v", n, err)
			}
		})})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		for range 2 {
			say(t, nc, get)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); len(body) != 1000 || err != nil {
				t.Errorf("the client got %d bytes, %v", len(body), err)
			}
		}
	})
}

// compareAnswers requests all of answers from every server.
func compareAnswers(t *testing.T, keepAlives bool) {
	t.Parallel()
	var all []*contender
	for i, a := range answers {
		if t.Failed() {
			return // each further failure may wait for its deadline
		}
		if a.name == tooLong && version.Compare(runtime.Version(), "go1.27") < 0 {
			continue
		}
		if all == nil || strings.Contains(a.name, "panics") { // an engine logs one panic a second
			all = startContenders(t)
			for _, c := range all {
				c.mute(keepAlives)
			}
		}
		request := a.request
		if request == "" {
			request = get
		}
		var want, wantNotes string
		for j, c := range all {
			c.at.Store(int32(i))
			before := uint64(0)
			if c.fast != nil {
				before = c.fast()
			}
			got := c.exchange(t, request)
			gotNotes := c.notes.take()
			if j == 0 {
				want, wantNotes = got, gotNotes
				continue
			}
			if got != want {
				t.Errorf("%s on %s:\n got %q\nwant %q", a.name, c.name, short(got), short(want))
			}
			if gotNotes != wantNotes {
				t.Errorf("%s on %s: the handler and the log saw\n%s\nwant\n%s", a.name, c.name, gotNotes, wantNotes)
			}
			for end := time.Now().Add(5 * time.Second); c.fast() == before && time.Now().Before(end); {
				runtime.Gosched() // the count is updated when the visit ends, and a hijacker may close before
			}
			if c.fast() == before {
				t.Errorf("%s on %s: not served by the fast path", a.name, c.name)
			}
		}
	}
}

func short(s string) string {
	if len(s) > 3000 {
		return s[:1500] + fmt.Sprintf("…%d bytes…", len(s)) + s[len(s)-1000:]
	}
	return s
}
