package torture

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// update writes tables instead of comparing them.
var update = flag.Bool("update", false, "write generated tables into the repository")

// TestPages holds requests.md to the code.
func TestPages(t *testing.T) {
	var requests, frames, handshakes strings.Builder
	requests.WriteString("| sent | RFC | a right server may |\n|---|---|---|\n")
	for _, in := range httpInputs() {
		fmt.Fprintf(&requests, "| %s | %s | %s |\n", in.name, in.section, in.may())
	}
	frames.WriteString("| sent, and then a ping | RFC 6455 | a right server must |\n|---|---|---|\n")
	for _, in := range socketInputs() {
		fmt.Fprintf(&frames, "| %s | §%s | %s |\n", in.name, in.section, in.want)
	}
	handshakes.WriteString("| a handshake with | RFC | a right server may |\n|---|---|---|\n")
	for _, in := range socketHandshakes() {
		may := "refuse"
		if in.serve > 0 {
			may = "refuse, or accept"
		}
		fmt.Fprintf(&handshakes, "| %s | %s | %s |\n", in.name, in.section, may)
	}
	name := "requests.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, section := range []struct{ name, made string }{
		{"requests", requests.String()}, {"frames", frames.String()}, {"handshakes", handshakes.String()},
	} {
		begin, end := "<!-- "+section.name+" -->\n", "<!-- "+section.name+" end -->"
		head, rest, hasBegin := strings.Cut(text, begin)
		_, tail, hasEnd := strings.Cut(rest, end)
		if !hasBegin || !hasEnd {
			t.Fatalf("requests.md lacks %s or %s", begin, end)
		}
		text = head + begin + "\n" + section.made + "\n" + end + tail
	}
	same(t, name, text)
}

// may says in words what a server may do.
func (r rights) may() string {
	var ways []string
	if r.refuse {
		ways = append(ways, "refuse")
	}
	if r.serve > 0 {
		ways = append(ways, giveAnswers(r.serve))
	}
	if r.waits {
		ways = append(ways, "wait")
	}
	return strings.Join(ways, ", or ")
}

func giveAnswers(n int) string {
	if n == 1 {
		return "give 1 answer and close"
	}
	return fmt.Sprintf("give %d answers", n)
}

// String says in words what a server may do.
func (r reaction) String() string {
	return [...]string{"close", "close (going on harms nobody)", "close, or wait", "go on", "go on, or refuse the message"}[r]
}

// httpInputs returns all lists.
func httpInputs() []httpInput {
	return slices.Concat(lineInputs, fieldInputs, hostInputs, lengthInputs, codingInputs, chunkInputs, lifeInputs)
}

// same compares a file with what it should be, or writes it.
func same(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	switch {
	case *update:
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Error(err)
	case string(got) != want:
		t.Errorf("%s is not what the code says; run go test ./tool/torture -run %s -update, and look at what has changed", name, t.Name())
	}
}
