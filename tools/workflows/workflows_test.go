package workflows

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

const (
	root    = "../.."
	folder  = root + "/.github/workflows"
	command = `^make ([a-z-]+)((?: [A-Z]+=(?:'[\w ./-]*'|[\w./-]*))*)$` // a target and variables
	pinned  = `uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`
)

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(folder + "/*")
	if err != nil || len(files) < 4 {
		t.Fatalf("%q, %v", files, err)
	}
	makefile := read(t, root+"/Makefile")
	for _, file := range files {
		for _, fault := range faults(read(t, file), makefile) {
			t.Errorf("%s: %s", filepath.Base(file), fault)
		}
	}
}

// TestReadme compares what the tests' workflow runs with what the README tells a reader to type.
func TestReadme(t *testing.T) {
	_, line, _ := strings.Cut(read(t, root+"/README.md"), "\n$ go test ")
	line, _, _ = strings.Cut(line, "\n")
	_, all, _ := strings.Cut(read(t, root+"/Makefile"), "\nALL         := ")
	all, _, _ = strings.Cut(all, "\n")
	tested := strings.Fields(all)
	for _, packages := range strings.Fields(line) {
		if !slices.Contains(tested, packages) {
			t.Errorf("README.md tests %s, and ALL in the Makefile is %s", packages, all)
		}
	}
	if line == "" || !strings.Contains(read(t, folder+"/checks.yml"), "- run: make test\n") {
		t.Errorf("README.md says go test %q, and checks.yml does not run make test", line)
	}
}

const (
	good = `name: a
on: [push, pull_request]
permissions:
  contents: read
concurrency: a
jobs:
  one:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - uses: ./ci/action
      - run: make test PACKAGES='./... ./pool'
      - run: make bench WHAT=peers
  other:
    runs-on: macos-15
    timeout-minutes: 5
    continue-on-error: true
    name: other (not run yet, may fail)
    permissions:
      contents: write
    steps:
      - run: make test
`
	goodMakefile = "test: ## run $(PACKAGES)\nbench: ## measure $(WHAT)\nbench.peers: ## race\n"
)

// TestFaults has one change of a good workflow for each rule.
func TestFaults(t *testing.T) {
	if found := faults(good, goodMakefile); len(found) != 0 {
		t.Errorf("%q in a good workflow", found)
	}
	for _, c := range []struct{ from, to, want string }{
		{"make test\n", "make tests\n", `"make tests": the Makefile has no target tests`},
		{"WHAT=peers", "WHAT=pears", `"make bench WHAT=pears": the Makefile has no target bench.pears`},
		{"PACKAGES=", "FOLDERS=", `"make test FOLDERS='./... ./pool'": the Makefile has no variable FOLDERS`},
		{"make test\n", "make test; curl example.org\n", `"make test; curl example.org" is not make, a target and variables`},
		{"make test\n", "make test PACKAGES=${{ github.ref }}\n", `"make test PACKAGES=${{ github.ref }}" is not make, a target and variables`},
		{"@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "actions/checkout@v7 is not pinned to a commit, with its version behind it"},
		{" # v7.0.1", "", "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 is not pinned to a commit, with its version behind it"},
		{"persist-credentials: false", "fetch-depth: 0", "one: the checkout leaves its token behind; set persist-credentials: false"},
		{"contents: read", "contents: write", "permissions at the top must be contents: read alone"},
		{"permissions:\n  contents: read\n", "", "permissions at the top must be contents: read alone"},
		{"[push, pull_request]", "[pull_request_target]", "pull_request_target runs a stranger's code with the rights of the repository"},
		{"concurrency: a\n", "", "no concurrency group"},
		{"ubuntu-24.04", "ubuntu-latest", "one: ubuntu-latest is another system one day; name its version"},
		{"ubuntu-24.04", "${{ matrix.os }}", "one: ${{ matrix.os }} is not Linux, so nobody may have run this job; set continue-on-error: true"},
		{"    continue-on-error: true\n", "", "other: macos-15 is not Linux, so nobody may have run this job; set continue-on-error: true"},
		{"continue-on-error: true", "continue-on-error: ${{ false }}", "other: macos-15 is not Linux, so nobody may have run this job; set continue-on-error: true"},
		{" (not run yet, may fail)", "", "other: the name does not say that the job may fail"},
		{"timeout-minutes: 5\n    steps", "env: {A: b}\n    steps", "one: no timeout-minutes"},
		{"make test\n", "make test\n        env:\n          A: ${{ secrets.A }}\n", "secrets are not for workflows; a job has github.token"},
	} {
		changed := strings.Replace(good, c.from, c.to, 1)
		if found := faults(changed, goodMakefile); !slices.Contains(found, c.want) {
			t.Errorf("%q for %q: %q, want %q", c.to, c.from, found, c.want)
		}
	}
}

// faults returns what is wrong with a workflow.
func faults(text, makefile string) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	w, errs := actionlint.Parse([]byte(text))
	if len(errs) > 0 {
		return []string{errs[0].Error()}
	}
	for _, event := range w.On {
		if event.EventName() == "pull_request_target" {
			fault("pull_request_target runs a stranger's code with the rights of the repository")
		}
	}
	if p := w.Permissions; p == nil || len(p.Scopes) != 1 || p.Scopes["contents"] == nil || p.Scopes["contents"].Value.Value != "read" {
		fault("permissions at the top must be contents: read alone")
	}
	if w.Concurrency == nil {
		fault("no concurrency group")
	}
	if strings.Contains(text, "secrets.") {
		fault("secrets are not for workflows; a job has github.token")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		all = append(all, jobFaults(w.Jobs[name])...)
		for _, step := range w.Jobs[name].Steps {
			switch exec := step.Exec.(type) {
			case *actionlint.ExecRun:
				all = append(all, commandFaults(exec.Run.Value, makefile)...)
			case *actionlint.ExecAction:
				uses := exec.Uses.Value
				line := strings.Split(text, "\n")[exec.Uses.Pos.Line-1]
				if !strings.HasPrefix(uses, "./") && !regexp.MustCompile(pinned).MatchString(line) {
					fault("%s is not pinned to a commit, with its version behind it", uses)
				}
				keeps := exec.Inputs["persist-credentials"]
				if strings.HasPrefix(uses, "actions/checkout@") && (keeps == nil || keeps.Value.Value != "false") {
					fault("%s: the checkout leaves its token behind; set persist-credentials: false", name)
				}
			}
		}
	}
	return all
}

// jobFaults returns what is wrong with a job, except for its steps.
func jobFaults(job *actionlint.Job) (all []string) {
	fault := func(format string, args ...any) { all = append(all, job.ID.Value+": "+fmt.Sprintf(format, args...)) }
	if job.TimeoutMinutes == nil {
		fault("no timeout-minutes")
	}
	mayFail := job.ContinueOnError != nil && job.ContinueOnError.Value
	if mayFail && (job.Name == nil || !strings.Contains(job.Name.Value, "(not run yet, may fail)")) {
		fault("the name does not say that the job may fail")
	}
	if job.RunsOn == nil {
		fault("no runs-on")
		return all
	}
	labels := job.RunsOn.Labels
	if job.RunsOn.LabelsExpr != nil {
		labels = append(labels, job.RunsOn.LabelsExpr)
	}
	for _, label := range labels {
		if strings.HasSuffix(label.Value, "-latest") {
			fault("%s is another system one day; name its version", label.Value)
		}
		if !mayFail && !strings.HasPrefix(label.Value, "ubuntu-") {
			fault("%s is not Linux, so nobody may have run this job; set continue-on-error: true", label.Value)
		}
	}
	return all
}

// commandFaults returns what is wrong with a command, which must be a target of the Makefile.
func commandFaults(run, makefile string) (all []string) {
	m := regexp.MustCompile(command).FindStringSubmatch(run)
	if m == nil {
		return []string{fmt.Sprintf("%q is not make, a target and variables", run)}
	}
	targets := []string{m[1]}
	for _, v := range regexp.MustCompile(`([A-Z]+)=(\S*)`).FindAllStringSubmatch(m[2], -1) {
		if !strings.Contains(makefile, "$("+v[1]+")") {
			all = append(all, fmt.Sprintf("%q: the Makefile has no variable %s", run, v[1]))
		}
		if v[1] == "WHAT" {
			targets = append(targets, m[1]+"."+v[2])
		}
	}
	for _, target := range targets {
		if !strings.Contains("\n"+makefile, "\n"+target+": ") {
			all = append(all, fmt.Sprintf("%q: the Makefile has no target %s", run, target))
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
