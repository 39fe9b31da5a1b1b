package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tlsfiles"
)

// certified makes a certificate for 127.0.0.1, and a pool that trusts it.
func certified(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	return s.TLS.Certificates[0], trusted
}

// serveTLS starts s with TLS, and returns a client for it.
func serveTLS(t *testing.T, s *Server, h2 bool) (*serving, *http.Client) {
	t.Helper()
	cert, trusted := certified(t)
	if s.Std == nil {
		s.Std = &http.Server{}
	}
	s.Std.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &serving{s, ln.Addr().String(), make(chan error, 1)}
	go func() { r.served <- s.ServeTLS(ln, "", "") }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: h2}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
		if err := <-r.served; err != http.ErrServerClosed {
			t.Errorf("ServeTLS returned %v", err)
		}
	})
	return r, &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// said answers with what a handler sees of the connection.
func said(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %d %v", r.Proto, r.URL.Path, len(body), r.TLS != nil && r.TLS.HandshakeComplete)
}

// Both halves serve HTTP/1.1 over TLS, and both set Request.TLS.
func TestHTTP1OverTLS(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s, client := serveTLS(t, &Server{Engine: e, Handler: http.HandlerFunc(said)}, false)
		for i, body := range []io.Reader{nil, strings.NewReader("abc"), io.MultiReader(strings.NewReader("abcd")), strings.NewReader(strings.Repeat("x", 200_000)), nil} {
			want := fmt.Sprintf("HTTP/1.1 /%d %d true", i, []int{0, 3, 4, 200_000, 0}[i])
			if got := posting(t, client, fmt.Sprintf("https://%s/%d", s.addr, i), body); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// net/http serves HTTP/2 after the engine's handshake.
func TestHTTP2(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s, client := serveTLS(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "After")
			said(w, r)
			w.Header().Set("After", "all")
		})}, true)
		posting(t, client, "https://"+s.addr, nil) // now the client knows that one connection is enough
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				resp, err := client.Post(fmt.Sprintf("https://%s/%d", s.addr, i), "text/plain", strings.NewReader("body"))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				if want := fmt.Sprintf("HTTP/2.0 /%d 4 true", i); string(body) != want || resp.Trailer.Get("After") != "all" {
					t.Errorf("got %q and trailer %q, want %q", body, resp.Trailer, want)
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Requests != 101 || st.OpenLoans != 1 || st.Open != 1 {
			t.Errorf("%d requests, %d loans, %d connections", st.Requests, st.OpenLoans, st.Open)
		}
	})
}

// A stream is flushed part by part, and Shutdown waits for its end.
func TestHTTP2FlushAndShutdown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		next := make(chan struct{})
		s, client := serveTLS(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range 3 {
				fmt.Fprintf(w, "part %d\n", i)
				http.NewResponseController(w).Flush()
				<-next
			}
		})}, true)
		resp, err := client.Get("https://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		down := make(chan error, 1)
		for i := range 3 {
			if line, err := lines.ReadString('\n'); line != fmt.Sprintf("part %d\n", i) {
				t.Fatalf("%q, %v", line, err)
			}
			if i == 1 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				go func() { down <- s.Shutdown(ctx) }()
				await(t, "the drain", s.draining.Load)
			}
			next <- struct{}{}
		}
		if _, err := lines.ReadByte(); err != io.EOF {
			t.Error(err)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		if st := s.Stats(); st.Drained.Forced != 0 {
			t.Errorf("%d connections were closed by force", st.Drained.Forced)
		}
	})
}

// Std selects the protocols; the server refuses those that it does not offer.
func TestProtocols(t *testing.T) {
	only := func(set func(*http.Protocols, bool)) *http.Protocols {
		p := new(http.Protocols)
		set(p, true)
		return p
	}
	for _, c := range []struct {
		name string
		std  *http.Server
		want string
		off  bool
	}{
		{"both", &http.Server{}, "HTTP/2.0", false},
		{"NoHTTP2", &http.Server{}, "HTTP/1.1", true},
		{"an empty TLSNextProto", &http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}, "HTTP/1.1", false},
		{"HTTP/1 alone", &http.Server{Protocols: only((*http.Protocols).SetHTTP1)}, "HTTP/1.1", false},
		{"HTTP/2 alone", &http.Server{Protocols: only((*http.Protocols).SetHTTP2)}, "HTTP/2.0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client := serveTLS(t, &Server{Std: c.std, NoHTTP2: c.off, Handler: http.HandlerFunc(said)}, true)
			resp, err := client.Get("https://" + s.addr)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.Proto != c.want {
				t.Errorf("got %s, want %s", resp.Proto, c.want)
			}
		})
	}
}

// Without TLS, HTTP/2 is served only if Std.Protocols allows it.
func TestHTTP2WithoutTLS(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, on := range []bool{false, true} {
			std := &http.Server{Handler: http.HandlerFunc(said)}
			if on {
				std.Protocols = new(http.Protocols)
				std.Protocols.SetHTTP1(true)
				std.Protocols.SetUnencryptedHTTP2(true)
			}
			s := serve(t, &Server{Engine: e, Std: std})
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			resp, err := client.Get("http://" + s.addr + "/x")
			switch {
			case err == nil:
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if !on || string(body) != "HTTP/2.0 /x 0 false" {
					t.Errorf("allowed %v: got %q", on, body)
				}
			case on:
				t.Error(err)
			}
			transport.CloseIdleConnections()
			if !on {
				continue
			}
			nc := s.dial(t) // HTTP/1 is served too, and the connection comes back
			r := bufio.NewReader(nc)
			for range 2 {
				say(t, nc, chunked)
				if got := readAnswer(t, r); got != "200 HTTP/1.1 /up 3 false" {
					t.Error(got)
				}
			}
		}
	})
}

// A client that speaks HTTP on the TLS port is told so in net/http's words.
func TestPlainTextToTLS(t *testing.T) {
	s, _ := serveTLS(t, &Server{Handler: http.HandlerFunc(said)}, false)
	want := "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
	if got := talk(t, s.addr, getting("/")); got != want {
		t.Errorf("got %q", got)
	}
}

func posting(t *testing.T, client *http.Client, url string, body io.Reader) string {
	t.Helper()
	resp, err := client.Post(url, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// Certificates from package tlsfiles serve HTTP/1.1 and HTTP/2.
func TestCertificateOfTLSFiles(t *testing.T) {
	cert, trusted := certified(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := tlsfiles.Server{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, files.Key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Std: &http.Server{TLSConfig: config, Handler: http.HandlerFunc(said)}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: h2}
		got := posting(t, &http.Client{Transport: transport, Timeout: 10 * time.Second}, "https://"+ln.Addr().String()+"/", nil)
		if want := map[bool]string{false: "HTTP/1.1 / 0 true", true: "HTTP/2.0 / 0 true"}[h2]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		transport.CloseIdleConnections()
	}
	s.Close()
	<-served
}
