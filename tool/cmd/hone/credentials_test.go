package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/wire"
)

// guarded starts the server of docs/start.md that wants a token, and returns it, its address and how many connections
// have logged in.
func guarded(t *testing.T, token string) (s *framed.Server, addr string, welcome *atomic.Int64) {
	t.Helper()
	welcome = new(atomic.Int64)
	s = &framed.Server{
		Limits: engine.Limits{AuthTime: 10 * time.Second},
		Connect: framed.HandlerFunc(func(c framed.Call, dst, given []byte) ([]byte, error) {
			if string(given) != token {
				return dst, wire.Unauthorised
			}
			c.Conn().SetValue(true)
			welcome.Add(1)
			return dst, nil
		}),
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if c.Conn().Value() == nil {
				return dst, wire.Unauthorised
			}
			return append(dst, req...), nil
		}),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return s, ln.Addr().String(), welcome
}

// A server of frames that wants a login is loaded, searched and attacked with the credentials in a file, which
// stand in no output. Without them, what failed names the flag.
func TestFramesLogIn(t *testing.T) {
	t.Parallel()
	const secret = "hush-0123456789"
	server, addr, welcome := guarded(t, secret)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	token, wrong, empty, store := write("token", secret+"\n"), write("wrong", "x"), write("empty", "\n"), filepath.Join(dir, "runs")
	for _, c := range []struct {
		name  string
		args  []string
		codes []int
		says  string // on either stream
		least int64  // connections that log in
	}{
		{"load", []string{"load", addr, "-c", "2", "-d", "400ms", "--idle", "3", "--churn", "50", "--max-lag", "1h", "--credentials-file", token, "--json", "--save", "one", "--store", store}, []int{exit.OK}, `"valid": true`, 6},
		{"knee", []string{"knee", addr, "--axis", "conns", "--to", "2", "--for", "100ms", "--confirm", "1", "--expect", "p50<10s", "--credentials-file", token}, []int{exit.OK, exit.Invalid}, "", 2},
		{"torture", []string{"torture", addr, "--only", "segmentation", "--credentials-file", token}, []int{exit.OK}, "survived", 6},
		{"nobody", []string{"load", addr, "-n", "200", "--max-lag", "1h"}, []int{exit.Invalid}, "log in (--credentials-file FILE)", 0},
		{"nobody, idle", []string{"load", addr, "-c", "0", "--idle", "3", "-d", "100ms"}, []int{exit.Failed}, "--credentials-file", 0},
		{"wrong", []string{"load", addr, "-n", "200", "--credentials-file", wrong}, []int{exit.Failed}, "check what is in --credentials-file", 0},
		{"empty", []string{"load", addr, "-n", "200", "--credentials-file", empty}, []int{exit.Failed}, "is empty", 0},
		{"HTTP", []string{"load", "http://" + addr, "--credentials-file", token}, []int{exit.Usage}, "use --basic-file or --bearer-file", 0},
		{"shown", []string{"run", "show", "one", "--json", "--store", store}, []int{exit.OK}, `"credentials-file": "`, 0},
	} {
		for end := time.Now().Add(patience); server.Stats().Open > 0 && time.Now().Before(end); { // of the run before
			<-time.After(time.Millisecond)
		}
		before := welcome.Load()
		var stdout, stderr strings.Builder
		code := command.Run(t.Context(), newRoot(), c.args, strings.NewReader(""), &stdout, &stderr)
		said := stdout.String() + stderr.String()
		text, _ := json.Marshal(c.codes)
		if number, _ := json.Marshal(code); !strings.Contains(string(text), string(number)) || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, want one of %v, with %q:\n%s", c.name, code, c.codes, c.says, said)
		}
		if n := welcome.Load() - before; n < c.least || c.least == 0 && n > 0 {
			t.Errorf("%s: %d connections logged in", c.name, n)
		}
		if strings.Contains(said, secret) || strings.Contains(said, token) && c.name != "torture" {
			t.Errorf("%s prints the secret, or where it is:\n%s", c.name, said)
		}
	}
	kept, err := filesOf(store)
	if err != nil || strings.Contains(string(kept), secret) {
		t.Errorf("the store has the secret (%v)", err)
	}
}

// filesOf returns what the files of a folder have, one after the other.
func filesOf(folder string) (all []byte, err error) {
	n := 0
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all, n = append(all, text...), n+1
		return err
	})
	if err == nil && n == 0 {
		err = errors.New("there are no files")
	}
	return all, err
}
