// Command mutate measures what tests notice: it changes one statement at a time, at random,
// and runs the tests. A change that survives needs a test, or its line is not needed.
//
//	go run ./tools/mutate -n 40 -also './framed ./http1' ./engine ./workers
//
// It draws from all statements of the packages for this platform, tests excluded. A mutant
// lacks the statement, negates the condition of an if or for, exchanges && and ||, < and <=,
// > and >=, or == and !=, or adds one to an integer. Its package's tests run with -short and,
// if they pass, those of the other packages, and of -also, that import it. It is an overlay
// (go help build): the checkout is never modified.
//
// It is killed when a test fails twice, and passes without the mutant in between; otherwise the kill
// is unconfirmed, and counts as a survivor. It is timed out when no test has failed in time: a
// deadlock, or a busy machine. If it does not compile, another one is drawn. A seed draws the same
// mutants of the same code. The exit code is 3 if one survived, else 1 after an error; go run turns
// 3 into 1.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "mutate:", err)
	if errors.Is(err, errSurvived) {
		os.Exit(3)
	}
	os.Exit(1)
}

var errSurvived = errors.New("mutants survived; test what each changes, or delete it")

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ExitOnError)
	seed := flags.Uint64("seed", 0, "what to draw; 0: a random seed, which is printed")
	n := flags.Int("n", 40, "number of mutants to test")
	also := flags.String("also", "", "more packages whose tests run for survivors in packages that they import")
	limit := flags.Duration("limit", 2*time.Minute, "time limit for the tests of a package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	*seed = cmp.Or(*seed, 1+rand.Uint64N(1e6))
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packages, err := list(ctx, flags.Args())
	if err != nil {
		return err
	}
	all, err := statements(packages)
	if err != nil {
		return err
	}
	others, err := list(ctx, append(strings.Fields(*also), flags.Args()...))
	if err != nil {
		return err
	}
	return (&trial{dir, *limit, others, stdout, map[string]bool{}}).draw(ctx, all, *n, *seed)
}

// folder is a package, as go list describes it.
type folder struct {
	ImportPath, Dir                          string
	GoFiles, Deps, TestImports, XTestImports []string
}

func list(ctx context.Context, patterns []string) (all []*folder, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json", "--"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := new(folder)
		if err := d.Decode(p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// trial tests mutants.
type trial struct {
	dir    string // for temporary files
	limit  time.Duration
	others []*folder
	stdout io.Writer
	sound  map[string]bool // packages whose tests pass without a mutant
}

// Verdicts on mutants.
const broken, killed, timedOut, survived, unconfirmed = "does not compile", "killed", "timed out", "survived", "unconfirmed"

// draw tests n mutants, at most one of each statement, and prints the result.
func (t *trial) draw(ctx context.Context, all [][]mutant, n int, seed uint64) (err error) {
	fmt.Fprintf(t.stdout, "seed %d, %d statements\n", seed, len(all))
	random, results, tested := rand.New(rand.NewPCG(seed, 0)), map[string][]mutant{}, 0
	for _, at := range random.Perm(len(all)) {
		if tested == n {
			break
		}
		m := all[at][random.IntN(len(all[at]))]
		fmt.Fprintf(t.stdout, "%d/%d %v\n", tested+1, n, m)
		got, why, err := t.judge(ctx, m)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.stdout, "\t%s%s\n", got, why)
		results[got] = append(results[got], m)
		if got != broken {
			tested++
		}
	}
	survivors := slices.Concat(results[survived], results[unconfirmed])
	fmt.Fprintf(t.stdout, "seed %d: %d killed, %d timed out, %d survived, of these %d unconfirmed kills; %d more did not compile\n",
		seed, len(results[killed]), len(results[timedOut]), len(survivors), len(results[unconfirmed]), len(results[broken]))
	for _, m := range survivors {
		fmt.Fprintf(t.stdout, "\t%v\n", m)
		err = errSurvived
	}
	return err
}

// judge runs tests until one kills the mutant, which why then names. A kill that is not confirmed
// leaves the mutant to the other packages.
func (t *trial) judge(ctx context.Context, m mutant) (got, why string, err error) {
	changed, overlay := filepath.Join(t.dir, "mutant.go"), filepath.Join(t.dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: changed}})
	if err := errors.Join(err, os.WriteFile(changed, m.source(), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", "", err
	}
	got = survived
	for _, p := range append([]*folder{m.in}, t.others...) {
		imported := slices.Concat(p.Deps, p.TestImports, p.XTestImports)
		if p != m.in && (p.ImportPath == m.in.ImportPath || !slices.Contains(imported, m.in.ImportPath)) {
			continue
		}
		if !t.sound[p.ImportPath] { // otherwise its tests would kill every mutant
			if was, failed, err := t.test(ctx, p); err != nil || was != survived {
				return "", "", cmp.Or(err, fmt.Errorf("without a mutant, the tests of %s: %s %s", p.ImportPath, was, failed))
			}
			t.sound[p.ImportPath] = true
		}
		now, failed, err := t.test(ctx, p, "-overlay", overlay)
		switch {
		case err != nil:
			return "", "", err
		case now == killed:
			sure, err := t.confirm(ctx, p, overlay, failed)
			if err != nil || sure {
				return now, " by " + failed[0], err
			}
			got, why = unconfirmed, fmt.Sprintf(": %s failed once", failed[0])
		case now != survived:
			return now, "", nil
		}
	}
	return got, why, nil
}

// confirm reports whether the tests that failed pass without the mutant, and fail again with it.
func (t *trial) confirm(ctx context.Context, p *folder, overlay string, failed []string) (sure bool, err error) {
	var only []string
	if failed[0] != crash {
		only = []string{"-run", "^(" + strings.Join(failed, "|") + ")$"}
	}
	without, _, err := t.test(ctx, p, only...)
	if err != nil || without != survived {
		return false, err
	}
	again, _, err := t.test(ctx, p, append(only, "-overlay", overlay)...)
	return again != survived, err
}

// test runs the tests of a package.
func (t *trial) test(ctx context.Context, p *folder, flags ...string) (got string, failed []string, err error) {
	args := slices.Concat([]string{"test", "-short", "-count=1", "-v", "-vet=off", "-timeout", t.limit.String()}, flags, []string{p.ImportPath})
	cmd := exec.CommandContext(ctx, "go", args...)
	var out beginning
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	err = cmd.Run()
	got, failed = read(string(out), err == nil)
	return got, failed, ctx.Err()
}

// read returns what the output of go test says, and the tests that failed.
func read(out string, passed bool) (got string, failed []string) {
	for _, match := range regexp.MustCompile(`(?m)^\s*--- FAIL: ([^\s/]+)`).FindAllStringSubmatch(out, -1) {
		if !slices.Contains(failed, match[1]) {
			failed = append(failed, match[1])
		}
	}
	switch {
	case passed:
		return survived, nil
	case strings.Contains(out, "[build failed]"):
		return broken, nil
	case failed != nil:
		return killed, failed
	case strings.Contains(out, "panic: test timed out") || len(out) == mostOutput:
		return timedOut, nil
	}
	return killed, []string{crash}
}

// crash stands for the name of a test when none was to blame.
const crash = "a crash"

// beginning is the beginning of an output: that of a mutant may have no end.
type beginning []byte

const mostOutput = 16 << 20

func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), mostOutput-len(*b))]...)
	return len(p), nil
}

// mutant is a file of which one part is replaced.
type mutant struct {
	in       *folder
	path     string
	src      []byte
	from, to int
	with     string
}

// statements returns the mutants of each statement of packages.
func statements(packages []*folder) (all [][]mutant, err error) {
	for _, p := range packages {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			replace := func(from, to token.Pos, with string) mutant {
				start, end := files.Position(from).Offset, files.Position(to).Offset
				return mutant{p, path, src, start, end, strings.ReplaceAll(with, "X", string(src[start:end]))}
			}
			for n := range ast.Preorder(parsed) {
				if s, ok := n.(ast.Stmt); ok {
					all = append(all, mutate(s, replace))
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(s []mutant) bool { return len(s) == 0 }), nil
}

// mutate returns the mutants of a statement, without those of the statements in it. X, in what
// replace puts in a place, is what was there.
func mutate(s ast.Stmt, replace func(from, to token.Pos, with string) mutant) (mutants []mutant) {
	exchanged := map[token.Token]string{
		token.LAND: "||", token.LOR: "&&", token.EQL: "!=", token.NEQ: "==",
		token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Stmt:
			return n == s
		case *ast.BinaryExpr:
			if other := exchanged[n.Op]; other != "" {
				mutants = append(mutants, replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other))
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseUint(n.Value, 0, 63); n.Kind == token.INT && err == nil {
				mutants = append(mutants, replace(n.Pos(), n.End(), strconv.FormatUint(v+1, 10)))
			}
		}
		return true
	})
	var condition ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
		mutants = append(mutants, replace(s.Pos(), s.End(), ""))
	case *ast.IfStmt:
		condition = s.Cond
	case *ast.ForStmt:
		condition = s.Cond
	}
	if b, ok := condition.(*ast.BinaryExpr); condition != nil && (!ok || b.Op != token.EQL && b.Op != token.NEQ) {
		mutants = append(mutants, replace(condition.Pos(), condition.End(), "!(X)"))
	}
	return mutants
}

func (m mutant) source() []byte { return slices.Concat(m.src[:m.from], []byte(m.with), m.src[m.to:]) }

// String is the place of the mutant, the old line and the new one.
func (m mutant) String() string {
	line := func(src []byte, to int) string {
		rest, _, _ := bytes.Cut(src[to:], []byte("\n"))
		begin := bytes.LastIndexByte(src[:m.from], '\n') + 1
		return strings.Join(strings.Fields(string(src[begin:to+len(rest)])), " ")
	}
	here, _ := os.Getwd() // without it, the path is absolute
	return fmt.Sprintf("%s:%d: %s -> %s", strings.TrimPrefix(m.path, here+"/"), 1+bytes.Count(m.src[:m.from], []byte("\n")),
		line(m.src, m.to), cmp.Or(line(m.source(), m.from+len(m.with)), "(deleted)"))
}
