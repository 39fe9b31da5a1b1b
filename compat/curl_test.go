//go:build linux

package compat

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// certificate is one for 127.0.0.1 that nobody else has signed.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "app.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// told is what the application tells a client of its request.
func told(w http.ResponseWriter, r *http.Request) {
	body := new(bytes.Buffer)
	n, err := body.ReadFrom(r.Body)
	text := fmt.Sprintf("%s %s %s length %d read %d %v %q\n", r.Method, r.RequestURI, r.Proto, r.ContentLength, n, err, r.TransferEncoding)
	w.Header().Set("X-Told", strings.TrimSpace(text))
	fmt.Fprint(w, text)
}

// TestCurl compares what curl shows of both servers.
func TestCurl(t *testing.T) {
	curl := needs(t, "curl")
	large := strings.Repeat("0123456789abcdef", 100_000)
	runs := []struct {
		name, input string
		secure      bool
		args        []string
	}{
		{name: "GET", args: []string{"/a/b?c=d"}},
		{name: "three on one connection", args: []string{"/1", "/2", "/3"}},
		{name: "HEAD", args: []string{"-I", "/"}},
		{name: "POST", args: []string{"-d", "name=value", "/"}},
		{name: "POST of a form", args: []string{"-F", "name=value", "-F", "file=@-;filename=a", "/"}, input: "content"},
		{name: "large POST", args: []string{"--data-binary", "@-", "/"}, input: large},
		{name: "PUT in chunks", args: []string{"-T", "-", "/put", "/put2"}, input: large},
		{name: "HTTP/1.0", args: []string{"--http1.0", "/"}},
		{name: "Expect", args: []string{"-H", "Expect: 100-continue", "-d", "body", "/", "/"}},
		{name: "Expect in chunks", args: []string{"-H", "Expect: 100-continue", "-T", "-", "/"}, input: large},
		{name: "compressed", args: []string{"--compressed", "/"}},
		{name: "Connection: close", args: []string{"-H", "Connection: close", "/1", "/2"}},
		{name: "Upgrade to HTTP/2", args: []string{"--http2", "/1", "/2"}},
		{name: "HTTPS", secure: true, args: []string{"--http1.1", "/1", "/2"}},
		{name: "HTTPS, PUT in chunks", secure: true, args: []string{"--http1.1", "-T", "-", "/"}, input: large},
		{name: "HTTP/2", secure: true, args: []string{"--http2", "/1", "/2"}},
		{name: "HTTP/2 POST", secure: true, args: []string{"--http2", "--data-binary", "@-", "/"}, input: large},
	}
	cert := certificate(t)
	handler := http.HandlerFunc(told)
	ask := func(t *testing.T, plain, secure *served, i int) string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		args := []string{"-q", "-sS", "-i", "-k", "--noproxy", "*", "-w", "\n%{http_version} %{http_code} %{num_connects}\n"}
		for _, arg := range runs[i].args {
			if path, isPath := strings.CutPrefix(arg, "/"); isPath && runs[i].secure {
				arg = "https://" + secure.addr + "/" + path
			} else if isPath {
				arg = plain.url("/" + path)
			}
			args = append(args, arg)
		}
		cmd := exec.CommandContext(ctx, curl, args...)
		cmd.Stdin = strings.NewReader(runs[i].input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("curl: %v", err)
		}
		return regexp.MustCompile(`(?mi)^date: .*$`).ReplaceAllString(string(out), "date")
	}
	plain, secure := serve(t, oracle(), &http.Server{Handler: handler}), serveTLS(t, oracle(), &http.Server{Handler: handler}, cert)
	want := make([]string, len(runs))
	for i := range runs {
		want[i] = ask(t, plain, secure, i)
	}
	for _, on := range engines() {
		t.Run(on.name, func(t *testing.T) {
			plain, secure := serve(t, on, &http.Server{Handler: handler}), serveTLS(t, on, &http.Server{Handler: handler}, cert)
			for i := range runs {
				if got := ask(t, plain, secure, i); got != want[i] {
					t.Errorf("%s: behind net/http curl shows\n%s\nbehind http1\n%s", runs[i].name, want[i], got)
				}
			}
			for _, s := range []*served{plain, secure} {
				st := s.http.Stats()
				t.Logf("%d requests on the fast path, %d loans", st.Fast, st.Loans)
			}
		})
	}
}
