package http1

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Requests from other projects' parser tests. `make suites` fetches them and runs these tests.

// TestLLHTTP reads the Markdown files of github.com/nodejs/llhttp, test/request.
func TestLLHTTP(t *testing.T) {
	compareCorpus(t, "HONE_LLHTTP", "test/request/*.md", 150, readMarkdown)
}

// TestDesync reads the YAML files of github.com/aws/http-desync-guardian, tests.
func TestDesync(t *testing.T) {
	compareCorpus(t, "HONE_DESYNC", "tests/*.yaml", 150, readYAML)
}

// compareCorpus compares with net/http how the requests in a folder are served. Many of them
// lack a Host, so that every server refuses them: these are also tried with a Host.
func compareCorpus(t *testing.T, variable, files string, atLeast int, read func(string) []string) {
	folder := os.Getenv(variable)
	if folder == "" {
		t.Skipf("%s is not set; make suites fetches the files and sets it", variable)
	}
	names, err := filepath.Glob(filepath.Join(folder, files))
	if err != nil {
		t.Fatal(err)
	}
	std := newStdServer(t)
	var inputs, hosts, fasts int
	try := func(in []byte) {
		var h head
		whole := h.parse(in)
		if whole == fast {
			fasts++
			checkHead(t, &h, in)
			std.check(t, &h, in)
		}
		checkPrefixes(t, &h, in, whole)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range read(string(text)) {
			inputs++
			try([]byte(in))
			if line, rest, ok := strings.Cut(in, "\r\n"); ok && !strings.Contains(strings.ToLower(in), "\r\nhost:") {
				hosts++
				try([]byte(line + "\r\nHost: a\r\n" + rest))
			}
		}
	}
	t.Logf("%d files, %d requests, %d more with a Host: %d fast", len(names), inputs, hosts, fasts)
	if inputs < atLeast {
		t.Errorf("%d requests, at least %d expected: is %s the right folder?", inputs, atLeast, folder)
	}
}

// readMarkdown returns the blocks marked as http. Their line ends are CRLF, and some bytes
// are written as escapes.
func readMarkdown(text string) []string {
	var found []string
	escape := regexp.MustCompile(`\\x[0-9a-fA-F]+|\\[0-7]{1,3}`)
	for _, block := range strings.Split(text, "\n```http\n")[1:] {
		in, _, _ := strings.Cut(block, "\n```\n")
		in = strings.NewReplacer("\\\n", "", "\n", "\r\n", `\r`, "\r", `\n`, "\n", `\t`, "\t", `\f`, "\f").Replace(in)
		in = escape.ReplaceAllStringFunc(in, func(s string) string {
			base := 8
			if s[1] == 'x' {
				base = 16
			}
			code, _ := strconv.ParseUint(strings.TrimLeft(s, `\x`), base, 8)
			return string([]byte{byte(code)})
		})
		found = append(found, in)
	}
	return found
}

// readYAML returns the requests from a list of maps, in the subset of YAML that these files use.
func readYAML(text string) []string {
	var found []string
	part := map[string]string{}
	var fields strings.Builder
	add := func() {
		if len(part) > 0 {
			found = append(found, part["method"]+" "+part["uri"]+" "+part["version"]+"\r\n"+fields.String()+"\r\n")
		}
		part = map[string]string{}
		fields.Reset()
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = scalar(strings.TrimSpace(value))
		switch key {
		case "- name":
			add()
		case "  uri", "  method", "  version":
			part[strings.TrimSpace(key)] = value
		case "    - name":
			fields.WriteString(value + ": ")
		case "      value":
			fields.WriteString(value + "\r\n")
		}
	}
	add()
	return found
}

// scalar decodes a value on one line.
func scalar(s string) string {
	switch {
	case strings.HasPrefix(s, `"`):
		s = regexp.MustCompile(`\\x([89a-fA-F])`).ReplaceAllString(s, `\u00$1`) // YAML means characters, not bytes
		s = strings.ReplaceAll(s, `\0`, `\x00`)
		if unquoted, err := strconv.Unquote(s); err == nil {
			return unquoted
		}
	case strings.HasPrefix(s, `'`):
		return strings.ReplaceAll(strings.Trim(s, `'`), `''`, `'`)
	}
	return s
}
