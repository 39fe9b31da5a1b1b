package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// Many users write and read notes at the same time. Each sees only their own notes, and the
// work after each response belongs to its own request.
func TestNotes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	stdout, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(serving, "127.0.0.1:0", w)
		w.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	addr, found := strings.CutPrefix(lines.Text(), "listening on ")
	if !found {
		t.Fatalf("the first line is %q", lines.Text())
	}
	var told sync.Map
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			user, _, _ := strings.Cut(lines.Text(), " ")
			told.Store(user, lines.Text())
		}
	})
	client := &http.Client{Transport: new(http.Transport)}
	var users sync.WaitGroup
	for i := range 20 {
		users.Go(func() { visit(ctx, t, client, "http://"+addr, fmt.Sprint("user", i)) })
	}
	users.Wait()
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	reading.Wait()
	for i := range 20 {
		user := fmt.Sprint("user", i)
		if line, _ := told.Load(user); line == nil || !strings.Contains(line.(string), "wrote note 1 from 127.0.0.1:") {
			t.Errorf("the log for %s: %v", user, line)
		}
	}
}

// visit makes one user's requests.
func visit(ctx context.Context, t *testing.T, client *http.Client, base, user string) {
	for _, step := range []struct {
		method, path, who, body string
		code                    int
		want                    string
	}{
		{"GET", "/health", "", "", 200, "ok\n"},
		{"POST", "/users/" + user + "/notes", user, "I am " + user, 201, fmt.Sprintf(`{"id":1,"user":%q,"text":"I am %s"}`, user, user)},
		{"GET", "/users/" + user + "/notes/1", user, "", 200, fmt.Sprintf(`{"id":1,"user":%q,"text":"I am %s"}`, user, user)},
		{"GET", "/users/" + user + "/notes/2", user, "", 404, "no such note\n"},
		{"GET", "/users/" + user + "/notes/one", user, "", 404, "no such note\n"},
		{"GET", "/users/" + user + "/notes/1", "mallory", "", 403, "these notes belong to another user\n"},
		{"GET", "/users/" + user + "/notes/1", "", "", 401, "send your user name in the Authorization header\n"},
		{"PUT", "/users/" + user + "/notes", user, "", 405, "Method Not Allowed\n"},
	} {
		r, err := http.NewRequestWithContext(ctx, step.method, base+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Error(err)
			return
		}
		if step.who != "" {
			r.Header.Set("Authorization", step.who)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != step.code || string(got) != step.want || err != nil {
			t.Errorf("%s %s: %d %q, %v, want %d %q", step.method, step.path, answer.StatusCode, got, err, step.code, step.want)
		}
	}
}
