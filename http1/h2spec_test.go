package http1

import (
	"encoding/xml"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestH2Spec runs github.com/summerwind/h2spec, which `make suites` installs, against connections on loan and
// against net/http: none fails here alone.
func TestH2Spec(t *testing.T) {
	program := os.Getenv("HONE_H2SPEC")
	if program == "" {
		t.Skip("HONE_H2SPEC is not set; make suites installs the program and sets it")
	}
	handler := http.HandlerFunc(said)
	quiet := log.New(io.Discard, "", 0)
	s, _ := serveTLS(t, &Server{Handler: handler, Std: &http.Server{ErrorLog: quiet}}, true)
	std := httptest.NewUnstartedServer(handler)
	std.EnableHTTP2, std.Config.ErrorLog = true, quiet
	std.StartTLS()
	t.Cleanup(std.Close)
	cases, failed := h2spec(t, program, s.addr)
	_, known := h2spec(t, program, std.Listener.Addr().String())
	t.Logf("%d of %d cases pass; net/http: %d; failed: %q", cases-len(failed), cases, cases-len(known), failed)
	if cases < 140 {
		t.Errorf("h2spec has run %d cases, want 140 or more", cases)
	}
	for _, name := range failed {
		if !slices.Contains(known, name) {
			t.Errorf("%s fails, and passes with net/http", name)
		}
	}
}

// h2spec returns how many cases there are, and those that fail.
func h2spec(t *testing.T, program, addr string) (cases int, failed []string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), program, "-t", "-k", "-h", host, "-p", port, "-o", "5", "-j", report).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) { // it ends with 1 when a case fails
		t.Fatalf("%v\n%s", err, said)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var suites struct {
		Cases []struct {
			Package string    `xml:"package,attr"`
			Name    string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	for _, c := range suites.Cases {
		if c.Failure != nil || c.Error != nil {
			failed = append(failed, c.Package+": "+c.Name)
		}
	}
	return len(suites.Cases), failed
}
