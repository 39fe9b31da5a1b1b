package commandline

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sizes parses args as a command does, and returns what it says: <nil> if nothing is wrong.
func sizes(args ...string) (size int64, help, says string) {
	var age time.Duration
	flags, config := New("test")
	flags.Int64Var(&size, "size", 176<<20, "`BYTES` of it")
	flags.DurationVar(&age, "age", time.Hour, "how old")
	var out strings.Builder
	err := Parse(flags, config, args, 0, &out)
	return size, out.String(), fmt.Sprint(err)
}

// Arguments may stand before and behind flags.
func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"1 2":               "176 [1 2] <nil>",
		"--size 64MiB 1 2":  "64 [1 2] <nil>",
		"1 --size 64MiB 2":  "64 [1 2] <nil>",
		"1 2 --size=64MiB":  "64 [1 2] <nil>",
		"1 2 --size 1MiB 3": `1 [3] unexpected argument "3"`,
	} {
		flags, config := New("test")
		size := flags.Int64("size", 176<<20, "`BYTES` of it")
		err := Parse(flags, config, strings.Fields(line), 2, io.Discard)
		if got := fmt.Sprint(*size>>20, " ", flags.Args(), " ", err); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestAmounts(t *testing.T) {
	const none = "<nil>"
	for text, want := range map[string]int64{"0": 0, "65536": 65536, "64KiB": 64 << 10, "3MiB": 3 << 20, "10GiB": 10 << 30, "7TiB": 7 << 40} {
		if got, _, says := sizes("--size", text); got != want || says != none {
			t.Errorf("--size %s is %d, %s; want %d", text, got, says, want)
		}
	}
	for _, text := range []string{"", "B", "KiB", "10GB", "1.5GiB", "iBM", "iBMiB", "9999999999GiB", "x"} {
		if _, _, says := sizes("--size", text); !strings.Contains(says, "flag --size: not a number of bytes; write it as in") {
			t.Errorf("--size %q: %s", text, says)
		}
	}
	if _, _, says := sizes("--age", "7d"); says != `invalid value "7d" for flag --age: not a duration; write it with its unit, as in 168h, 30m or 10s` {
		t.Error(says)
	}
	file := filepath.Join(t.TempDir(), "file.toml")
	if err := os.WriteFile(file, []byte("size = \"2GiB\"\nage = \"7d\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if size, _, says := sizes("--config", file, "--age", "30m"); size != 2<<30 || says != none {
		t.Error(size, says)
	}
	if _, _, says := sizes("--config", file); !strings.Contains(says, `file.toml: invalid value "7d" for age: not a duration`) {
		t.Error(says)
	}
	_, help, _ := sizes("--help")
	for _, want := range []string{"--size BYTES\n    \tBYTES of it (default 176MiB)", "--age duration\n    \thow old (default 1h0m0s)"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is not in the help:\n%s", want, help)
		}
	}
}
