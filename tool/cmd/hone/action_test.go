package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hone-go/hone/internal/testrun"
)

const actionFolder = "../../../ci/action"

// comment is a comment of a pull request.
type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
	URL  string `json:"html_url"`
	User struct {
		Type string `json:"type"`
	} `json:"user"`
}

// comments answers like GitHub's API for the comments of o/r's pull request 12.
type comments struct {
	mu      sync.Mutex
	all     []comment
	asked   []string // method and path
	refuses bool
}

func (c *comments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	if r.Header.Get("Authorization") != "Bearer s3cret" || c.refuses {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var sent struct{ Body string }
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	switch id, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/repos/o/r/issues/comments/")); {
	case r.Method == http.MethodGet && r.URL.Path == "/repos/o/r/issues/12/comments":
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		from := min(100*(page-1), len(c.all))
		json.NewEncoder(w).Encode(c.all[from:min(from+100, len(c.all))])
	case r.Method == http.MethodPost && r.URL.Path == "/repos/o/r/issues/12/comments":
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(c.add("Bot", sent.Body))
	case r.Method == http.MethodPatch && id > 0 && id <= len(c.all):
		c.all[id-1].Body = sent.Body
		json.NewEncoder(w).Encode(c.all[id-1])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// seen returns the comments, and what has been asked since the last call.
func (c *comments) seen() (all []comment, asked string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, c.asked = strings.Join(c.asked, ", "), nil
	return slices.Clone(c.all), asked
}

func (c *comments) add(by, body string) comment {
	made := comment{ID: len(c.all) + 1, Body: body, URL: fmt.Sprintf("https://example.org/%d", len(c.all)+1)}
	made.User.Type = by
	c.all = append(c.all, made)
	return made
}

// action runs the scripts of the action as a runner does.
type action struct {
	t    *testing.T
	dir  string // the workspace's parent
	env  map[string]string
	said string // of the last script
}

// run runs a script and returns its exit code.
func (a *action) run(script string, more ...string) int {
	a.t.Helper()
	program, err := filepath.Abs(filepath.Join(actionFolder, script))
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "GORACE="+quickExit, "GOFLAGS="+withoutDWARF)
	for name, value := range a.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, more...)
	out, err := cmd.CombinedOutput()
	if a.said = string(out); cmd.ProcessState == nil {
		a.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func (a *action) git(args ...string) {
	a.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = a.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (a *action) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *action) read(name string) string {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

// newAction makes a repository whose branch slow allocates twice where main does once, and a workspace
// with the merge of both, as actions/checkout makes it.
func newAction(t *testing.T) *action {
	t.Helper()
	for _, program := range []string{"bash", "git", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	hone, err := exec.LookPath("hone")
	if err != nil {
		t.Fatal(err)
	}
	a := &action{t: t, dir: t.TempDir()}
	a.write("origin/go.mod", "module example.org/m\n\ngo 1.26\n")
	a.write("origin/m.go", "package m\n\nfunc Encode() []byte { return make([]byte, 64) }\n")
	a.write("origin/m_test.go", "package m\n\nimport \"testing\"\n\nvar kept []byte\n\nfunc BenchmarkEncode(b *testing.B) {\n\tfor b.Loop() {\n\t\tkept = Encode()\n\t}\n}\n")
	a.git("init", "-q", "origin")
	a.git("-C", "origin", "add", ".")
	a.git("-C", "origin", "commit", "-q", "-m", "one")
	a.git("-C", "origin", "checkout", "-q", "-b", "slow")
	a.write("origin/m.go", "package m\n\nfunc Encode() []byte { return append(make([]byte, 64), 1) }\n")
	a.git("-C", "origin", "commit", "-q", "-a", "-m", "slower")
	a.git("-C", "origin", "checkout", "-q", "main")
	a.git("clone", "-q", "origin", "work")
	a.git("-C", "work", "checkout", "-q", "--detach", "origin/main")
	a.git("-C", "work", "merge", "-q", "--no-ff", "-m", "merge", "origin/slow")
	a.env = map[string]string{
		"RUNNER_TEMP": filepath.Join(a.dir, "temp"), "GITHUB_WORKSPACE": filepath.Join(a.dir, "work"), "GITHUB_REPOSITORY": "o/r",
		"GITHUB_REF_NAME": "12/merge", "GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": filepath.Join(a.dir, "summary.md"), "GITHUB_OUTPUT": filepath.Join(a.dir, "output"),
		"HONE_PROGRAM": hone, "HONE_KEY": "codec", "HONE_FLAGS": "--cmd=go test -run ^$ -bench Encode -benchmem -benchtime 1ms ./...\n-n=6\n--max-others=100%\n",
		"GITHUB_TOKEN": "s3cret", "HONE_PULL": "12", "HONE_REPORT": filepath.Join(a.dir, "temp/hone/report.md"),
	}
	return a
}

// A pull request that is slower gets a comment and exit code 3; the next run updates the comment.
func TestAction(t *testing.T) {
	t.Parallel()
	a := newAction(t)
	hub := &comments{}
	for i := range 120 {
		hub.add("User", fmt.Sprintf("<!-- hone: codec --> a person's %d", i))
	}
	hub.add("Bot", "<!-- hone: other -->")
	server := httptest.NewServer(hub)
	defer server.Close()
	a.env["GITHUB_API_URL"] = server.URL

	if code := a.run("measure.sh"); code != 0 {
		t.Fatalf("measure.sh: %d: %s", code, a.said)
	}
	if out := a.read("output"); !strings.HasPrefix(out, "exit-code=3\nreport="+a.env["HONE_REPORT"]+"\nhistory=") {
		t.Errorf("output %q", out)
	}
	report := a.read("temp/hone/report.md")
	for _, want := range []string{
		`(?s)^<!-- hone: codec -->\n### hone bench: a figure is worse\n\n\*\*VALID: of 3 figures, [23] worse, `, `(?m)^\| Encode allocs/op \| 1 allocs/op \| 2 allocs/op \| worse: \+100\.0 %, exact; 6 pairs \|$`,
		`(?m)^A is origin/main [0-9a-f]{10} \([0-9a-f]{12}\), B is #12 \([0-9a-f]{12}\); 6 samples of each\.$`,
		`(?m)^<details><summary>History of origin/main</summary>$`, `(?m)^\*\*1 run of origin/main, `, `(?m)^Exit code 3; commit [0-9a-f]{40} against [0-9a-f]{40}\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("the report has no %s:\n%s", want, report)
		}
	}
	if a.read("summary.md") != report || !strings.Contains(a.read("temp/hone/history.html"), "1 run of origin/main") {
		t.Error("the summary or the history's page is missing")
	}
	code := a.run("comment.sh")
	if all, _ := hub.seen(); code != 0 || len(all) != 122 || all[121].Body != report || !strings.Contains(a.said, "https://example.org/122") {
		t.Fatalf("comment.sh: %d, %d comments: %s", code, len(all), a.said)
	}
	if code := a.run("judge.sh", "HONE_CODE=3"); code != 3 {
		t.Errorf("judge.sh: %d", code)
	}

	// The same branch once more: the comment is updated, and the history has both runs of main.
	runs := testrun.Sized(1, 2)
	if runs == 2 {
		if code := a.run("measure.sh"); code != 0 {
			t.Fatalf("measure.sh: %d: %s", code, a.said)
		}
	}
	code = a.run("comment.sh")
	all, asked := hub.seen()
	if code != 0 || len(all) != 122 || !strings.Contains(all[121].Body, []string{"**1 run of origin/main, ", "**2 runs of origin/main, "}[runs-1]) {
		t.Errorf("comment.sh: %d, %d comments: %s", code, len(all), a.said)
	}
	if asked != "GET /repos/o/r/issues/12/comments, GET /repos/o/r/issues/12/comments, PATCH /repos/o/r/issues/comments/122" {
		t.Errorf("asked %s", asked)
	}

	// A token that may not comment does not fail the job.
	hub.mu.Lock()
	hub.refuses = true
	hub.mu.Unlock()
	if code := a.run("comment.sh"); code != 0 || !strings.Contains(a.said, "::warning::hone: GitHub answers 403") || strings.Contains(a.said, "s3cret") {
		t.Errorf("comment.sh: %d: %s", code, a.said)
	}
}

// A push is compared with the commit before it, in a shallow clone, too, and what cannot be measured is in the
// report.
func TestActionOfAPush(t *testing.T) {
	t.Parallel()
	a := newAction(t)
	a.git("-C", "origin", "checkout", "-q", "slow")
	a.git("clone", "-q", "--depth", "1", "file://"+filepath.Join(a.dir, "origin"), "shallow")
	a.env["GITHUB_WORKSPACE"], a.env["GITHUB_BASE_REF"], a.env["GITHUB_REF_NAME"] = filepath.Join(a.dir, "shallow"), "", "slow"
	a.env["HONE_BEFORE"] = strings.Repeat("0", 40) // of a new branch

	if testrun.All() { // TestAction measures in any case
		if code := a.run("measure.sh"); code != 0 || !strings.Contains(a.read("output"), "exit-code=3\n") {
			t.Fatalf("measure.sh: %d: %s", code, a.said)
		}
		if report := a.read("temp/hone/report.md"); !strings.Contains(report, "B is origin/slow (") || !strings.Contains(report, "**1 run of origin/slow, ") {
			t.Errorf("%s", report)
		}
	}
	a.env["HONE_FLAGS"], a.env["GITHUB_OUTPUT"] = "--cmd=true\n--save=\"; touch pwned; $(touch pwned) `touch pwned`\n-n=5\n", filepath.Join(a.dir, "again")
	if code := a.run("measure.sh"); code != 0 || !strings.Contains(a.read("again"), "exit-code=1\n") {
		t.Errorf("measure.sh: %d: %s", code, a.said)
	}
	if report := a.read("temp/hone/report.md"); !strings.Contains(report, "### hone bench: could not measure\n\n```\nhone: bench: ") || !strings.Contains(report, " printed no benchmark: ") {
		t.Errorf("%s", report)
	}
	if found, _ := filepath.Glob(filepath.Join(a.dir, "*/pwned")); found != nil {
		t.Errorf("an input has been run: %v", found)
	}
	for name, c := range map[string]struct {
		script, want string
		code         int
		env          []string
	}{
		"no input":  {"measure.sh", "give the input file", 2, []string{"HONE_FLAGS="}},
		"bad key":   {"measure.sh", "use letters, digits, dots and dashes only", 2, []string{"HONE_KEY=a -->"}},
		"no number": {"comment.sh", "not a pull request", 2, []string{"HONE_PULL=12/../.."}},
		"no report": {"comment.sh", "there is no report", 0, []string{"HONE_REPORT=" + a.dir + "/none"}},
		"unclear":   {"judge.sh", "not clear", 0, []string{"HONE_CODE=4"}},
		"fail":      {"judge.sh", "", 4, []string{"HONE_CODE=4", "HONE_UNCLEAR=fail"}},
		"failed":    {"judge.sh", "", 1, []string{"HONE_CODE=1"}},
		"good":      {"judge.sh", "", 0, []string{"HONE_CODE=0"}},
		"maybe":     {"judge.sh", "unclear is pass or fail", 2, []string{"HONE_CODE=0", "HONE_UNCLEAR=maybe"}},
	} {
		if code := a.run(c.script, c.env...); code != c.code || !strings.Contains(a.said, c.want) {
			t.Errorf("%s: %d: %s", name, code, a.said)
		}
	}
}

// Actions are pinned, values reach the shell through the environment only, and nothing runs with the rights of
// the target branch.
func TestActionIsSafe(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(actionFolder, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Inputs map[string]struct{ Description string }
		Runs   struct {
			Steps []struct {
				Uses, Run, Shell string
				Env              map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	given, pinned := "", regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40}$`)
	for _, step := range made.Runs.Steps {
		if step.Uses != "" && !pinned.MatchString(step.Uses) {
			t.Errorf("%s is not pinned to a commit", step.Uses)
		}
		if strings.Contains(step.Run, "${{") || step.Run != "" && step.Shell != "bash" {
			t.Errorf("a value is in the text of %q", step.Run)
		}
		if script := strings.TrimSuffix(strings.TrimPrefix(step.Run, `"$GITHUB_ACTION_PATH/`), `"`); step.Run != "" {
			if info, err := os.Stat(filepath.Join(actionFolder, script)); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s cannot be run: %v", script, err)
			}
		}
		for _, value := range step.Env {
			given += value
		}
	}
	for name, input := range made.Inputs {
		if !strings.Contains(given, "inputs."+name+" ") || input.Description == "" {
			t.Errorf("the input %s reaches no script, or has no description", name)
		}
	}
	docs, err := os.Open("../../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	defer docs.Close()
	page, err := io.ReadAll(docs)
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*(on:.*)?pull_request_target`).Match(append(page, text...)) {
		t.Error("pull_request_target runs a stranger's code with the rights of the repository")
	}
	for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllSubmatch(page, -1) {
		if uses := string(m[1]); !pinned.MatchString(uses) && !strings.HasPrefix(uses, "hone-go/hone/ci/action@") {
			t.Errorf("docs/ci.md: %s is not pinned to a commit", uses)
		}
	}
	for name := range made.Inputs {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/ci.md does not describe the input %s", name)
		}
	}
}
