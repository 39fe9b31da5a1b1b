// Package web is what every HTTP server of the comparison serves, and what the client
// asks of them. The servers differ in what reads requests and writes answers.
package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"time"

	"github.com/hone-go/hone/bench/service"
)

// The paths, and what answers to them contain. Everything else is not found.
const (
	HelloPath   = "/hello"
	PagePath    = "/page"
	PicturePath = "/picture"
	OncePath    = "/once"    // one event and a flush, likewise
	EndlessPath = "/endless" // events without a pause, of servers that run handlers of net/http
)

const (
	hello = "Hello, World!"

	line    = "All work and no play, said Jack\n" // 32 bytes
	lines   = line + line + line + line + line + line + line + line
	page    = lines + lines + lines + lines + lines + lines + lines + lines // 2,048
	dots    = "\x5a\xa5\x3c\xc3"
	rows    = dots + dots + dots + dots + dots + dots + dots + dots
	picture = "\x89PNG\r\n\x1a\n" + rows + rows + rows + rows + rows + rows + rows + rows + rows + rows +
		rows + rows + rows + rows + rows + rows + rows + rows + rows + rows + rows + dots + dots + dots + dots + dots // 700
)

// PictureHeaders are what a cache or a browser wants to know of a picture; with
// Content-Length and Date its answer has eight.
var PictureHeaders = [][2]string{
	{"Content-Type", "image/png"},
	{"Cache-Control", "public, max-age=31536000, immutable"},
	{"Etag", `"5f4dcc3b5aa765d61d8327deb882cf99"`},
	{"Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT"},
	{"Vary", "Accept-Encoding"},
	{"X-Content-Type-Options", "nosniff"},
}

// Body is what a path is answered with.
func Body(path string) (body string, found bool) {
	switch path {
	case HelloPath:
		return hello, true
	case PagePath:
		return page, true
	case PicturePath:
		return picture, true
	}
	return "", false
}

// Handler answers as a handler of net/http is usually written: it sets what headers
// it knows of, and leaves the rest to the server. What to pushes goes to the streams on CrowdPath; nil: there are none.
func Handler(to *service.Pusher) http.Handler {
	streams := new(Streams)
	if to != nil {
		streams.Obey(to)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, found := Body(r.URL.Path)
		switch {
		case r.URL.Path == CrowdPath:
			streams.ServeHTTP(w, r)
			return
		case r.URL.Path == OncePath:
			_, _ = w.Write(Event([]byte(Welcome))) // a client that has left reads nothing
			_ = http.NewResponseController(w).Flush()
			return
		case r.URL.Path == EndlessPath:
			out := http.NewResponseController(w)
			for {
				if _, err := w.Write(Event([]byte(Welcome))); err != nil || out.Flush() != nil {
					return
				}
			}
		case !found:
			http.NotFound(w, r)
			return
		case r.URL.Path == PagePath:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		case r.URL.Path == PicturePath:
			header := w.Header()
			for _, h := range PictureHeaders {
				header.Set(h[0], h[1])
			}
		}
		if r.Method == http.MethodPost {
			io.Copy(io.Discard, r.Body) // an error ends the connection, which is the server's affair
		}
		io.WriteString(w, body)
	})
}

// Certificate makes one for this machine.
func Certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Undate overwrites the dates of answers, which all have the same length, so that answers
// can be compared.
func Undate(answers []byte) {
	const name = "\r\nDate: "
	for {
		at := bytes.Index(answers, []byte(name))
		if at < 0 {
			return
		}
		answers = answers[at+len(name):]
		copy(answers, "Mon, 02 Jan 2006 15:04:05 GMT")
	}
}
