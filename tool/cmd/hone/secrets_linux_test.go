package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// planted are secrets in all places where a command takes some.
func planted() map[string]string {
	secrets := map[string]string{}
	for i, where := range []string{"query", "header", "body", "argument", "environment", "setting", "build", "request", "answer", "token"} {
		secrets[where] = fmt.Sprintf("hush%02dhush%s", i, where)
	}
	secrets["inherited"] = inheritedSecret
	return secrets
}

// leaks are the secrets that data has.
func leaks(secrets map[string]string, data []byte) (found []string) {
	for where, secret := range secrets {
		if strings.Contains(string(data), secret) {
			found = append(found, where)
		}
	}
	return found
}

// TestSecretsStay plants secrets in URLs, headers, bodies, commands and environments, runs
// everything that makes something to pass on, and looks for them in all of it: what was
// printed, files, pages, and runs that were kept.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	secrets := planted()
	seen := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.RawQuery == "key="+secrets["query"] && r.Header.Get("Authorization") == secrets["header"] && string(body) == secrets["body"] {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	}))
	defer web.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	gone := closed.URL
	closed.Close()
	dir := t.TempDir()
	store, html := filepath.Join(dir, "runs"), filepath.Join(dir, "report.html")
	query := "/users?key=" + secrets["query"]
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secrets["token"]), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := []string{"-H", "Authorization: " + secrets["header"], "--body", secrets["body"]}
	addr := testrun.FreeAddr(t)
	check := func(what string, args []string, wanted ...int) {
		t.Helper()
		var stdout, stderr strings.Builder
		code := command.Run(t.Context(), newRoot(), args, strings.NewReader(""), &stdout, &stderr)
		if ok := strings.Contains(fmt.Sprint(wanted), fmt.Sprint(code)); !ok {
			t.Errorf("%s: exit code %d, want one of %v: %s%s", what, code, wanted, stdout.String(), stderr.String())
		}
		if found := leaks(secrets, []byte(stdout.String()+stderr.String())); found != nil {
			t.Errorf("%s prints its secret of %s:\n%s%s", what, found, stdout.String(), stderr.String())
		}
	}
	load := append([]string{"load", web.URL + query, "-n", "200", "--store", store}, asked...)
	check("load", append(load, "--save", "text"), exit.OK, exit.Invalid)
	check("load --json", append(load, "--json", "-o", filepath.Join(dir, "load.json")), exit.OK, exit.Invalid)
	check("load with a login", []string{"load", web.URL + query, "-n", "200", "--bearer-file", token, "--json", "--save", "login", "--store", store}, exit.OK, exit.Invalid)
	check("load with a wrong login", []string{"load", web.URL, "--basic-file", token}, exit.Failed)
	check("load of nobody", append([]string{"load", gone + query, "-d", "100ms"}, asked...), exit.Failed)
	check("load of no URL", append([]string{"load", "http://me:" + secrets["query"] + "@127.0.0.1:1" + query, "-d", "100ms"}, asked...), exit.Usage)
	check("load of messages", []string{"load", strings.TrimPrefix(web.URL, "http://"), "--frame", "line", "--request", secrets["request"],
		"--expect-content", secrets["answer"], "-d", "100ms", "--timeout", "200ms", "--save", "messages", "--store", store}, exit.OK, exit.Failed, exit.Invalid)
	check("knee", append([]string{"knee", web.URL + query, "--axis", "conns", "--to", "2", "--for", "100ms", "--confirm", "1", "--expect", "p50<10s", "--json", "--save", "knee", "--store", store}, asked...),
		exit.OK, exit.Invalid)
	command := "TOKEN=" + secrets["setting"] + " exec hone serve --admin off --addr " + addr + " # " + secrets["argument"]
	bench := []string{"bench", "--cmd", command, "--env", "SECRET=" + secrets["environment"], "--build", "true " + secrets["build"],
		"--target", addr, "-n", "1", "-d", "100ms", "--max-others", "100%", "--allow-errors", "--store", store}
	check("bench", append(bench, "--save", "bench"), exit.OK, exit.Invalid)
	check("bench --json", append(bench, "--discard", "--json", "-o", filepath.Join(dir, "bench.json")), exit.OK, exit.Invalid)
	died := append([]string{}, bench...)
	died[2] = "exit 3 # " + secrets["argument"]
	check("bench of a server that ends", died, exit.Failed)
	check("torture", append([]string{"torture", "http://" + addr + query, "--cmd", strings.Replace(command, "serve", "serve --service http", 1), "--env", "SECRET=" + secrets["environment"],
		"--status", "404,405", "--only", "segmentation", "--json", "-o", filepath.Join(dir, "torture.json")}, asked...), exit.OK)
	for _, name := range []string{"text", "knee", "bench"} {
		check("run show", []string{"run", "show", name, "--store", store}, exit.OK)
		check("run show --json", []string{"run", "show", name, "--json", "--store", store}, exit.OK)
		check("run export", []string{"run", "export", name, "-o", filepath.Join(dir, name+".tar"), "--store", store}, exit.OK)
		if name != "knee" { // which keeps no intervals
			check("run export", []string{"run", "export", name, "--format", "hdr", "-o", filepath.Join(dir, name+".hdr"), "--store", store}, exit.OK)
		}
		check("report", []string{"report", name, "-o", html + name, "--store", store}, exit.OK)
	}
	check("run list", []string{"run", "list", "--store", store}, exit.OK)
	livePageIsClean(t, secrets, append(load, "--ui", "127.0.0.1:0", "--ui-stay"))
	select {
	case <-seen:
	default:
		t.Error("the server never had the secrets")
	}
	filesAreClean(t, secrets, dir)
	runsAreClean(t, secrets, store, 3)
}

// livePageIsClean reads the page of a load once it has ended, and all events on it.
func livePageIsClean(t *testing.T, secrets map[string]string, args []string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	said, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, newRoot(), args, strings.NewReader(""), io.Discard, stderr)
		stderr.Close()
	}()
	url := ""
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "the live page stays") {
		if _, at, ok := strings.Cut(lines.Text(), "live page: "); ok {
			url = at
		}
	}
	go io.Copy(io.Discard, said)
	for _, path := range []string{"", "events"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		page := make([]byte, 1<<16)
		n, err := io.ReadAtLeast(response.Body, page, 256)
		response.Body.Close()
		if err != nil {
			t.Errorf("/%s: %v", path, err)
		}
		if found := leaks(secrets, page[:n]); found != nil {
			t.Errorf("/%s of the live page has the secret of %s:\n%s", path, found, page[:n])
		}
	}
	end()
	<-ended
}

// filesAreClean looks into all files of a folder.
func filesAreClean(t *testing.T, secrets map[string]string, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if found := leaks(secrets, data); found != nil {
			t.Errorf("%s has the secret of %s", filepath.Base(path), found)
		}
		files++
		return err
	})
	if err != nil || files < 9 {
		t.Errorf("%d files, %v", files, err)
	}
}

// runsAreClean looks into all that is kept, which the store's file has in a denser form.
func runsAreClean(t *testing.T, secrets map[string]string, path string, least int) {
	t.Helper()
	store, err := record.OpenRead(path)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := store.List(record.Filter{})
	if err != nil || len(runs) < least {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	for _, r := range runs {
		run, err := store.Get(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range run.Samples {
			for _, a := range s.Artefacts {
				text = append(text, a.Data...)
			}
		}
		if found := leaks(secrets, text); found != nil {
			t.Errorf("the run %s has the secret of %s: %s", r.Name, found, text)
		}
	}
}
