package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
)

// loaded runs hone load with two connections against a web server, and returns its exit
// code and what it wrote.
func loaded(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	args = append([]string{"load", "-c", "2", "--warmup", "0", "--max-lag", "1h"}, args...) // whatever else the machine does
	code = command.Run(context.Background(), newRoot(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// https is a server of TLS that wants a client's certificate, and the files that
// its clients need.
func https(t *testing.T, handler http.HandlerFunc) (url, certFile, keyFile string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.URL, certFile, keyFile
}

func TestLoadHTTPS(t *testing.T) {
	url, cert, key := https(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Certificates", strconv.Itoa(len(r.TLS.PeerCertificates)))
		if len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for name, c := range map[string]struct {
		args   []string
		status string
	}{
		"insecure":    {[]string{"--insecure", "--status", "418"}, "418"},
		"authority":   {[]string{"--cacert", cert, "--status", "4xx"}, "418"},
		"certificate": {[]string{"--cacert", cert, "--cert", cert, "--key", key}, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := loaded(t, append(c.args, url, "-n", "200", "--json", "--allow-errors")...)
			var r struct {
				Requests int64            `json:"requests"`
				Errors   map[string]int64 `json:"errors"`
				Statuses map[string]int64 `json:"statuses"`
			}
			if err := json.Unmarshal([]byte(stdout), &r); err != nil {
				t.Fatalf("%v: exit code %d, %s", err, code, stderr)
			}
			if r.Requests != 200 || r.Errors["total"] != 0 || r.Statuses[c.status] != r.Requests {
				t.Errorf("%+v, want all of them %s", r, c.status)
			}
		})
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":      {nil, exit.Failed, "authority of its certificate"},
		"no pair":      {[]string{"--cert", cert}, exit.Usage, "belong together"},
		"no file":      {[]string{"--cacert", cert + "x"}, exit.Failed, "name a PEM file"},
		"no authority": {[]string{"--cacert", key}, exit.Failed, "no certificate in it"},
		"no key":       {[]string{"--cert", cert, "--key", cert}, exit.Failed, "both PEM"},
	} {
		code, stdout, stderr := loaded(t, append(c.args, url)...)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q, want %d and %q", name, code, stdout, stderr, c.code, c.says)
		}
	}
}

// A login goes out with every request.
func TestLoadLogsIn(t *testing.T) {
	url, cert, _ := https(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if user, password, _ := r.BasicAuth(); user != "me" || password != "pass:word" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	file := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(file, []byte("me:pass:word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := loaded(t, url, "--cacert", cert, "--basic-file", file, "-n", "200")
	if code != exit.OK && code != exit.Invalid || !strings.Contains(stdout, "statuses    200 × ") || strings.Contains(stdout, "401 ×") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// What is written on the command line is what a handler sees.
func TestLoadSendsWhatItIsTold(t *testing.T) {
	seen := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Connection", "close")
		select {
		case seen <- r.Method + " " + r.URL.String() + " " + r.Host + " " + strings.Join(r.Header.Values("X-Id"), "+") + " " + string(body):
		default:
		}
	}))
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr := loaded(t, s.URL+"/a?b", "-X", "PUT", "-H", "X-Id: 1", "-H", "X-Id:2", "-H", "Host: example.com", "--body", "@"+file, "-n", "200")
	if got, want := <-seen, "PUT /a?b example.com 1+2 from a file"; got != want {
		t.Errorf("the handler saw %q, want %q", got, want)
	}
	for _, want := range []string{"statuses    200 × ", "reconnects  "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in the result: %s%s", want, stdout, stderr)
		}
	}
}

// The first help is short.
func TestLoadHelpIsShort(t *testing.T) {
	var out strings.Builder
	if code := command.Run(t.Context(), newRoot(), []string{"load", "--help"}, strings.NewReader(""), &out, &out); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	if lines := strings.Count(out.String(), "\n"); lines > 36 || !strings.Contains(out.String(), "--expect GOAL") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}
