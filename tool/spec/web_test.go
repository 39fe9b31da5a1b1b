package spec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
)

// targetOf is what flags make of a target.
func targetOf(t *testing.T, text string, flags ...string) (load.Target, error) {
	t.Helper()
	f, cmd := new(Load), &cobra.Command{Use: "load"}
	f.Define(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		return nil, err
	}
	err := f.Complete("load", text)
	return f.Plan.Target, err
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ url, resolve, address string }{
		{"http://shop.example/x", "shop.example:80:127.0.0.1", "127.0.0.1:80"},
		{"https://Shop.example:8443/", "shop.EXAMPLE:8443:[::1]", "[::1]:8443"},
		{"wss://shop.example/", "shop.example:443:::1", "[::1]:443"},
		{"http://[::1]:8080/", "[::1]:8080:127.0.0.2", "127.0.0.2:8080"},
	} {
		target, err := targetOf(t, c.url, "--resolve", "else.example:1:127.0.0.9", "--resolve", c.resolve)
		address := ""
		switch target := target.(type) {
		case load.HTTP:
			address = target.Address
		case load.WebSocket:
			address = target.Address
		}
		if err != nil || address != c.address {
			t.Errorf("%s with %s: %q, %v, want %s", c.url, c.resolve, address, err, c.address)
		}
	}
	for _, c := range []struct{ url, resolve string }{
		{"http://shop.example/", "shop.example:127.0.0.1"}, {"http://shop.example/", ":80:127.0.0.1"},
		{"http://shop.example/", "shop.example:80:elsewhere"}, {"http://shop.example/", "shop.example::127.0.0.1"},
		{"http://shop.example/", "[::1:80:127.0.0.1"}, {"http://shop.example/", "shop.example:443:127.0.0.1"},
		{"127.0.0.1:7000", "127.0.0.1:7000:127.0.0.2"}, {"http://unix:/s:/x", "localhost:80:127.0.0.1"},
	} {
		if target, err := targetOf(t, c.url, "--resolve", c.resolve); err == nil {
			t.Errorf("%s with %s: %+v", c.url, c.resolve, target)
		}
	}
}

// Where the target is makes no other scenario, and a login file's name is not kept.
func TestWebScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hush")
	if err := os.WriteFile(file, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, cmd := new(Load), &cobra.Command{Use: "load"}
	f.Define(cmd)
	if err := cmd.ParseFlags([]string{"--resolve", "a.example:80:127.0.0.1", "--bearer-file", file}); err != nil {
		t.Fatal(err)
	}
	if err := f.Complete("load", "http://a.example/"); err != nil {
		t.Fatal(err)
	}
	kept := strings.Join(f.Kept("x", "http://a.example/").Words(), " ")
	if strings.Contains(kept, "resolve") || strings.Contains(kept, "hush") || !strings.Contains(kept, "bearer-file=") {
		t.Errorf("kept: %s", kept)
	}
	if settings := f.Plan.Settings; settings["bearer-file"] == "" || strings.Contains(settings["bearer-file"], "hush") || settings["resolve"] != "" {
		t.Errorf("settings: %v", settings)
	}
}

func TestLogin(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	user, token := write("user", "me:hush:hush\n"), write("token", " hush\n")
	const url = "http://127.0.0.1:1/"
	for _, c := range []struct{ flag, file, want string }{
		{"--basic-file", user, "Basic bWU6aHVzaDpodXNo"}, {"--bearer-file", token, "Bearer hush"},
	} {
		target, err := targetOf(t, url, c.flag, c.file, "-H", "A: b")
		if h, ok := target.(load.HTTP); !ok || err != nil || h.Header.Get("Authorization") != c.want || h.Header.Get("A") != "b" {
			t.Errorf("%s: %+v, %v", c.flag, target, err)
		}
	}
	for name, flags := range map[string][]string{
		"two files":       {"--basic-file", user, "--bearer-file", token},
		"a header, too":   {"--bearer-file", token, "-H", "authorization: x"},
		"no such file":    {"--bearer-file", token + "x"},
		"an empty file":   {"--bearer-file", write("empty", "\n")},
		"several lines":   {"--bearer-file", write("lines", "hush\nhush")},
		"no colon":        {"--basic-file", token},
		"no version left": {"--tls-min", "1.3", "--tls-max", "1.2"},
	} {
		where := url
		if strings.HasPrefix(flags[0], "--tls") {
			where = "https://127.0.0.1:1/"
		}
		target, err := targetOf(t, where, flags...)
		if end := new(exit.Error); !errors.As(err, &end) {
			t.Errorf("%s: %+v, %v", name, target, err)
			continue
		}
		if said := err.Error(); strings.Contains(said, "hush") || !strings.Contains(said, "; ") {
			t.Errorf("%s: %q tells the secret, or not what to do", name, said)
		}
	}
	for _, flag := range []string{"--tls-resume", "--tls-min=1.3", "--tls-max=1.2"} {
		if _, err := targetOf(t, url, flag); err == nil {
			t.Errorf("%s is taken without TLS", flag)
		}
	}
}
