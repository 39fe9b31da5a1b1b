//go:build linux

package compat

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sClient is a running openssl s_client.
type sClient struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer // so far
	cmd  *exec.Cmd
}

func startSClient(t *testing.T, s *served, args ...string) *sClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := &sClient{t: t, cmd: exec.CommandContext(ctx, needs(t, "openssl"), append([]string{"s_client", "-connect", s.addr}, args...)...)}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.cmd.Stdout
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// says waits until the client has printed text, or has ended.
func (c *sClient) says(text string) bool {
	from := c.said.Len()
	for !strings.Contains(c.said.String()[from:], text) {
		b, err := c.out.ReadByte()
		if err != nil {
			return false
		}
		c.said.WriteByte(b)
	}
	return true
}

// get makes a request.
func (c *sClient) get(path string) {
	c.t.Helper()
	io.WriteString(c.in, "GET "+path+" HTTP/1.1\r\nHost: app.test\r\n\r\n")
	if !c.says("GET " + path + " HTTP/1.1 length 0 read 0") {
		c.t.Errorf("%s has no answer: %s", path, c.said.String())
	}
}

// end ends the client, and returns all that it has printed.
func (c *sClient) end() string {
	c.in.Close()
	io.Copy(&c.said, c.out)
	c.cmd.Wait()
	return c.said.String()
}

// TestOpenSSL has s_client update keys, resume a session, show a certificate, and renegotiate, which
// must be refused.
func TestOpenSSL(t *testing.T) {
	dir := t.TempDir()
	cert := certificate(t)
	mine, session := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "session")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(mine, both, 0o600); err != nil {
		t.Fatal(err)
	}
	eachSide(t, engines(), func(t *testing.T, on side) {
		s := serveTLS(t, on, &http.Server{Handler: http.HandlerFunc(told)}, cert)
		for _, version := range []string{"-tls1_2", "-tls1_3"} {
			c := startSClient(t, s, version, "-sess_out", session)
			c.get("/first")
			if version == "-tls1_3" {
				for _, command := range []string{"K\n", "k\n"} { // asking for the server's, and not
					io.WriteString(c.in, command)
					if !c.says("KEYUPDATE") {
						t.Errorf("%s: no key update: %s", version, c.said.String())
					}
					c.get("/after-" + strings.TrimSpace(command))
				}
			}
			c.end()
			c = startSClient(t, s, version, "-sess_in", session)
			c.get("/resumed")
			if out := c.end(); !strings.Contains(out, "Reused, ") {
				t.Errorf("%s: the session is not resumed: %s", version, out)
			}
		}
		c := startSClient(t, s, "-tls1_2")
		c.get("/before")
		io.WriteString(c.in, "R\n")
		if !c.says("RENEGOTIATING") || !c.says("alert") {
			t.Errorf("renegotiation is not refused with an alert: %s", c.said.String())
		}
		c.end()

		std := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Client", r.TLS.PeerCertificates[0].Subject.CommonName)
			told(w, r)
		})}
		std.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
		s = serveOn(t, on, std, true)
		for _, version := range []string{"-tls1_2", "-tls1_3"} {
			c := startSClient(t, s, version, "-cert", mine, "-key", mine)
			c.get("/with-a-certificate")
			if out := c.end(); !strings.Contains(out, "X-Client: app.test") {
				t.Errorf("%s: the server has not seen the certificate: %s", version, out)
			}
			c = startSClient(t, s, version)
			io.WriteString(c.in, "GET /without HTTP/1.1\r\nHost: app.test\r\n\r\n")
			if refused := c.says("alert"); !refused {
				t.Errorf("%s: no alert without a certificate: %s", version, c.said.String())
			}
			if out := c.end(); strings.Contains(out, "200 OK") {
				t.Errorf("%s: an answer without a certificate: %s", version, out)
			}
		}
	})
}

// TestPython has Python's http.client make requests on one connection over TLS.
func TestPython(t *testing.T) {
	const script = `
import http.client, ssl, sys
context = ssl._create_unverified_context()
c = http.client.HTTPSConnection(sys.argv[1], context=context)
for i, body in enumerate([None, b"x" * 100000, iter([b"chunk"] * 1000)]):
    c.request("POST" if body else "GET", "/%d" % i, body, encode_chunked=True, headers={"Transfer-Encoding": "chunked"} if i == 2 else {})
    r = c.getresponse()
    print(r.status, r.read().decode().split(" read ")[1].split()[0])
c.request("GET", "/", headers={"Connection": "close"})
version = c.sock.version()
r = c.getresponse()
r.read()
print(version)
`
	python := needs(t, "python3")
	eachSide(t, engines(), func(t *testing.T, on side) {
		s := serveTLS(t, on, &http.Server{Handler: http.HandlerFunc(told)}, certificate(t))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, python, "-c", script, s.addr).CombinedOutput()
		if want := "200 0\n200 100000\n200 5000\nTLSv1.3\n"; err != nil || string(out) != want {
			t.Errorf("%s (%v), want %q", out, err, want)
		}
	})
}
