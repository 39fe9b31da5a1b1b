package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// publicFolder makes a folder to serve, beside a file that must not be served.
func publicFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"secret":                  "secret",
		"public/page.txt":         "0123456789",
		"public/sub/deep/a.html":  "<p>a</p>",
		"public/site/index.html":  "<p>index</p>",
		"public/space in ü%.txt":  "name",
		"public/.hidden":          "hidden",
		"public/.git/config":      "hidden",
		"public/sub/.env":         "hidden",
		"public/dotted/a.b":       "b",
		"public/empty/.gitignore": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		day := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
		if err := os.Chtimes(path, day, day); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "public")
}

// link makes a symbolic link.
func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

// fileServer serves dir on /files/ as hone does.
func fileServer(t *testing.T, dir string, set func(f *folder)) *httptest.Server {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{root: root}
	if set != nil {
		set(f)
	}
	server := httptest.NewServer(webHandler(f))
	t.Cleanup(func() {
		server.CloseClientConnections() // of handlers that a test has left waiting
		server.Close()
		root.Close()
	})
	return server
}

// fetch returns the status, some of the header, and the body.
func fetch(t *testing.T, server *httptest.Server, path string, header ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Range", "Last-Modified", "Location", "Accept-Ranges"} {
		told += fmt.Sprintf("%s: %s\n", name, response.Header.Get(name))
	}
	return response.StatusCode, told + string(body)
}

// What --files serves, it serves as http.FileServer does.
func TestFilesAreServedAsByFileServer(t *testing.T) {
	dir := publicFolder(t)
	mux := http.NewServeMux()
	mux.Handle("GET /files/", http.StripPrefix("/files/", http.FileServer(http.Dir(dir))))
	usual, ours := httptest.NewServer(mux), fileServer(t, dir, func(f *folder) { f.dots = true })
	defer usual.Close()
	for _, c := range [][]string{
		{"/files/"}, {"/files"}, {"/files/page.txt"}, {"/files/page.txt/"}, {"/files/sub"}, {"/files/sub/"}, {"/files/sub/deep/"},
		{"/files/sub/deep/a.html"}, {"/files/site/"}, {"/files/site/index.html"}, {"/files/none"}, {"/files/page.txt/below"},
		{"/files/space%20in%20%C3%BC%25.txt"}, {"/files/%00"}, {"/files/empty/"},
		{"/files/.hidden"}, {"/files/.git/"}, {"/files/sub/../page.txt"}, {"/files/..%2fsecret"}, {"/files/%2e%2e/secret"},
		{"/files/page.txt", "Range: bytes=2-4"}, {"/files/page.txt", "Range: bytes=20-"}, {"/files/page.txt", "Range: bytes=0-1,4-5"},
		{"/files/page.txt", "If-Modified-Since: Thu, 02 Jan 2020 03:04:05 GMT"}, {"/files/page.txt", "If-Modified-Since: Thu, 02 Jan 2020 03:04:04 GMT"},
		{"/files/page.txt", "Range: bytes=2-4", "If-Range: Thu, 02 Jan 2020 03:04:05 GMT"},
	} {
		status, want := fetch(t, usual, c[0], c[1:]...)
		got, body := fetch(t, ours, c[0], c[1:]...)
		if strings.Contains(want, "multipart/byteranges") { // its boundary is random
			want, body = "", ""
		}
		if got != status || body != want {
			t.Errorf("%.60v: %d %s\nwant as http.FileServer: %d %s", c, got, body, status, want)
		}
	}
}

// Nothing outside of the folder is served, and of the folder no dot files and no links
// unless they are asked for, in listings neither. A link to a dot file needs both.
func TestFilesStayInTheirFolder(t *testing.T) {
	dir := publicFolder(t)
	link(t, "page.txt", filepath.Join(dir, "inside"))
	link(t, "sub", filepath.Join(dir, "folder"))
	link(t, "../secret", filepath.Join(dir, "outside"))
	link(t, filepath.Join(dir, "page.txt"), filepath.Join(dir, "absolute"))
	link(t, "..", filepath.Join(dir, "sub", "up"))
	link(t, "loop", filepath.Join(dir, "loop"))
	link(t, ".hidden", filepath.Join(dir, "tofile"))
	link(t, ".git", filepath.Join(dir, "tofolder"))
	link(t, "tofile", filepath.Join(dir, "twice"))
	link(t, ".git/../page.txt", filepath.Join(dir, "through"))
	link(t, "sub/deep", filepath.Join(dir, "deeper"))
	link(t, "../.env", filepath.Join(dir, "sub", "deep", "env"))
	link(t, "../deep/a.html", filepath.Join(dir, "sub", "deep", "b.html"))
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "..1"), 0o755), os.WriteFile(filepath.Join(dir, "..1", "k.txt"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	link(t, "..1", filepath.Join(dir, "..data")) // as in a volume of Kubernetes
	link(t, "..data/k.txt", filepath.Join(dir, "k.txt"))
	const usual, dots, links, both = "usual", "dots", "links", "both"
	servers := map[string]*httptest.Server{
		usual: fileServer(t, dir, nil),
		dots:  fileServer(t, dir, func(f *folder) { f.dots = true }),
		links: fileServer(t, dir, func(f *folder) { f.links = true }),
		both:  fileServer(t, dir, func(f *folder) { f.dots, f.links = true, true }),
	}
	for path, serves := range map[string][]string{
		"page.txt":          {usual, dots, links, both},
		"dotted/a.b":        {usual, dots, links, both},
		".hidden":           {dots, both},
		".git/":             {dots, both},
		".git/config":       {dots, both},
		"sub/.env":          {dots, both},
		"inside":            {links, both},
		"folder/":           {links, both},
		"folder/deep/":      {links, both},
		"sub/up/page.txt":   {links, both},
		"sub/up/.hidden":    {both},
		"tofile":            {both},
		"twice":             {both},
		"tofolder/":         {both},
		"tofolder/config":   {both},
		"through":           {both},
		"deeper/env":        {both},
		"deeper/b.html":     {links, both},
		"k.txt":             {links, both},
		"..1/k.txt":         {dots, both},
		"outside":           nil,
		"absolute":          nil,
		"loop":              nil,
		"sub/up/up/secret":  nil,
		"folder/up/outside": nil,

		strings.Repeat("x", 300):     nil,
		strings.Repeat("sub/", 2000): nil,
	} {
		for name, server := range servers {
			want := http.StatusNotFound
			for _, one := range serves {
				if one == name {
					want = http.StatusOK
				}
			}
			if got, body := fetch(t, server, "/files/"+path); got != want {
				t.Errorf("%s: GET /files/%s: %d %q, want %d", name, path, got, body, want)
			}
		}
	}
	for name, want := range map[string]string{
		usual: "dotted/ empty/ page.txt site/ space in ü%.txt sub/",
		dots:  "..1/ .git/ .hidden dotted/ empty/ page.txt site/ space in ü%.txt sub/",
		links: "deeper dotted/ empty/ folder inside k.txt page.txt site/ space in ü%.txt sub/",
		both:  "..1/ ..data .git/ .hidden deeper dotted/ empty/ folder inside k.txt page.txt site/ space in ü%.txt sub/ through tofile tofolder twice",
	} {
		_, page := fetch(t, servers[name], "/files/")
		var listed []string
		for line := range strings.Lines(page) {
			if link, ok := strings.CutPrefix(line, `<a href="`); ok {
				_, text, _ := strings.Cut(link, `">`)
				listed = append(listed, strings.TrimSuffix(strings.TrimSpace(text), "</a>"))
			}
		}
		if got := strings.Join(listed, " "); got != want {
			t.Errorf("%s: the listing is %q, want %q", name, got, want)
		}
	}
}

// A name that becomes another kind of file while it is opened is refused as well.
func TestFilesThatChangeStayInTheirFolder(t *testing.T) {
	dir := publicFolder(t)
	server := fileServer(t, dir, nil)
	name := filepath.Join(dir, "changing")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Remove(name)
			if i%2 == 0 {
				os.WriteFile(name, []byte("public"), 0o600)
			} else {
				os.Symlink("../secret", name)
			}
		}
	}()
	for range 500 {
		if status, body := fetch(t, server, "/files/changing"); strings.HasSuffix(body, "secret") {
			t.Errorf("the file outside is served: %d", status)
			break
		}
	}
	close(stop)
	<-done
}

// A socket is refused, on every system that has them.
func TestFilesRefusesSockets(t *testing.T) {
	dir := publicFolder(t)
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skipf("no unix sockets here: %v", err)
	}
	defer ln.Close()
	if status, _ := fetch(t, fileServer(t, dir, nil), "/files/s"); status != http.StatusNotFound {
		t.Errorf("status %d, want 404", status)
	}
}
