package probe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/hone-go/hone/tool/record"
)

// page requests a page under a host name.
func page(t *testing.T, pages http.Handler, method, path, host string) (status int, body string, header http.Header) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text), w.Result().Header
}

func TestPages(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "USERPROFILE", "AppData"} {
		t.Setenv(name, home)
	}
	before := made(t, CPU, time.Second, map[string]int64{"same<main": 9e8, "gone<main": 3e8})
	now := made(t, CPU, time.Second, map[string]int64{"same<main": 9e8, "planted<main": 5e8})
	for _, runs := range [][][]record.Sample{
		{{sample(1e6, now)}},
		{{sample(1e6, now)}, {sample(1e6, before)}},
	} {
		pages, err := viewOf(t, CPU, runs...).Pages()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/flamegraph", "/top", "/peek?f=planted"} {
			status, body, header := page(t, pages, "GET", path, "localhost:8080")
			if status != 200 || !strings.Contains(body, "planted") {
				t.Errorf("%s: %d %.200s", path, status, body)
			}
			if path != "/peek?f=planted" && strings.Contains(body, "gone") != (len(runs) == 2) {
				t.Errorf("%s of %d runs has what is gone: %v", path, len(runs), len(runs) != 2)
			}
			for _, url := range regexp.MustCompile(`(?:src|href)="(?:https?:)?//[^"]*`).FindAllString(body, -1) {
				if !strings.Contains(url, "github.com/google/pprof/") { // a link to its documentation
					t.Errorf("%s loads %s", path, url)
				}
			}
			if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s: %v", path, header)
			}
		}
		if status, body, _ := page(t, pages, "GET", "/download", "127.0.0.1"); status != 200 {
			t.Errorf("download: %d", status)
		} else if _, err := profile.ParseData([]byte(body)); err != nil {
			t.Errorf("download: %v", err)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
}

func TestPagesAreForThisMachine(t *testing.T) {
	pages, err := viewOf(t, CPU, []record.Sample{sample(1, made(t, CPU, time.Second, map[string]int64{"main": 1e9}))}).Pages()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:1": 200, "127.9.9.9": 200, "[::1]:80": 200, "[::1]": 200,
		"example.org": 403, "example.org:80": 403, "": 403, "192.0.2.1": 403, "localhost.example.org": 403, "127.0.0.1.example.org:80": 403, "[2001:db8::1]:80": 403,
	} {
		if status, _, _ := page(t, pages, "GET", "/top", host); status != want {
			t.Errorf("host %q: %d, want %d", host, status, want)
		}
	}
	for path, want := range map[string]int{"/": 302, "/graph?f=x": 302, "/saveconfig?config=x": 404, "/deleteconfig?config=x": 404, "/disasm?f=main": 404, "/elsewhere": 404} {
		status, _, header := page(t, pages, "GET", path, "localhost")
		if status != want || want == 302 && !strings.HasPrefix(header.Get("Location"), "flamegraph") {
			t.Errorf("%s: %d %v", path, status, header)
		}
	}
	if status, _, _ := page(t, pages, "POST", "/top", "localhost"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}
