package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/websocket"
)

// told opens a file as a store and returns the messages in it.
func told(t *testing.T, file string) (*store, []string, error) {
	t.Helper()
	var messages []string
	s, err := openStore(file, func(room string, m message) {
		messages = append(messages, fmt.Sprint(room, " ", m.Number, " ", m.Text))
	})
	if err == nil {
		t.Cleanup(func() { s.close() })
	}
	return s, messages, err
}

// A server that is killed while writing leaves an incomplete line, cut anywhere. The store
// ignores it.
func TestTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.jsonl")
	s, _, err := told(t, file)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"one", "two"} {
		if err := s.add("lobby", message{Number: uint64(i + 1), Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	second := strings.LastIndexByte(strings.TrimSuffix(string(whole), "\n"), '\n') + 1
	for cut := second; cut < len(whole); cut++ {
		if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		torn, messages, err := told(t, file)
		if err != nil || torn.history != s.history || !slices.Equal(messages, []string{"lobby 1 one"}) {
			t.Fatalf("cut after %d bytes: %q, %v", cut, messages, err)
		}
		if err := torn.add("lobby", message{Number: 2, Text: "2"}); err != nil {
			t.Fatal(err)
		}
		if _, messages, err := told(t, file); err != nil || !slices.Equal(messages, []string{"lobby 1 one", "lobby 2 2"}) {
			t.Fatalf("cut after %d bytes, and written to: %q, %v", cut, messages, err)
		}
	}
}

// A file that is not a history is left unchanged.
func TestForeignFile(t *testing.T) {
	for _, text := range []string{"hello\n", "{}\n", "{\"history\":\"x\"}\nhello\n", "{\"history\":\"x\"}\n{\"room\":\"\"}\n"} {
		file := filepath.Join(t.TempDir(), "chat.jsonl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := told(t, file)
		if said := fmt.Sprint(err); err == nil || !strings.Contains(said, file) || !strings.Contains(said, "-history") {
			t.Errorf("%q: %s, want an error that names the file and -history", text, said)
		}
		if now, err := os.ReadFile(file); string(now) != text || err != nil {
			t.Errorf("%q is %q now, %v", text, now, err)
		}
	}
}

// A message that cannot be written to the file gets no number.
func TestFullDisk(t *testing.T) {
	s, _, err := told(t, filepath.Join(t.TempDir(), "chat.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	r := &room{name: "lobby", store: s}
	if err := r.say(websocket.Conn{}, new(member), message{ID: "1", Text: "x"}); err == nil || r.last != 0 || len(r.kept) != 0 {
		t.Errorf("say: %v, with %d messages kept and the last number %d", err, len(r.kept), r.last)
	}
}
