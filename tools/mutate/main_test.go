package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One mutant of a package is killed, one survives and one does not compile.
func TestRun(t *testing.T) {
	before, err := os.ReadFile("testdata/tiny/tiny.go")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-seed", "7", "./testdata/tiny"}, &out); err != errSurvived {
		t.Errorf("run returned %v, want %v", err, errSurvived)
	}
	for _, want := range []string{
		"seed 7, 3 statements\n",
		"/40 testdata/tiny/tiny.go:5: func Double(n *int) { *n *= 2 } -> ", "\tkilled by TestDouble\n",
		"/40 testdata/tiny/tiny.go:13: sum += n -> (deleted)\n\tdoes not compile\n",
		"\tsurvived\n", "seed 7: 1 killed, 0 timed out, 1 survived, of these 0 unconfirmed kills; 1 more did not compile\n\ttestdata/tiny/tiny.go:8: func Reset",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if after, err := os.ReadFile("testdata/tiny/tiny.go"); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed (%v):\n%s", err, after)
	}
}

// A test that fails once does not kill a mutant.
func TestUnconfirmed(t *testing.T) {
	for _, test := range []struct{ runs, want string }{ // without a mutant, with it, without and with it again
		{".x.x", "\tkilled by TestSet\nseed 1: 1 killed, 0 timed out, 0 survived, of these 0 unconfirmed kills;"},
		{".!.!", "\tkilled by a crash\nseed 1: 1 killed"},
		{".x..", "\tunconfirmed: TestSet failed once\nseed 1: 0 killed, 0 timed out, 1 survived, of these 1 unconfirmed kills; 0 more did not compile\n\ttestdata/flaky/flaky.go:5: "},
		{".xxx", "\tunconfirmed: TestSet failed once\nseed 1: 0 killed"},
		{".!..", "\tunconfirmed: a crash failed once\nseed 1: 0 killed"},
	} {
		t.Run(test.runs, func(t *testing.T) {
			t.Setenv("HONE_TEST_RUNS", test.runs)
			t.Setenv("HONE_TEST_FILE", filepath.Join(t.TempDir(), "runs"))
			var out strings.Builder
			err := run(t.Context(), []string{"-seed", "1", "./testdata/flaky"}, &out)
			if !strings.Contains(out.String(), test.want) || (err == errSurvived) != strings.Contains(test.want, "unconfirmed:") {
				t.Errorf("run returned %v, and no %q in:\n%s", err, test.want, out.String())
			}
		})
	}
}

// Every kind of statement, and what becomes of it.
func TestMutants(t *testing.T) {
	src := `package p

func f(c chan int, a, b int) int {
	for i := 0; a < i && b >= 7; i++ {
		if c <- 0x10; a == b {
			continue
		}
		go func() {
			a = b
		}()
	}
	if f(c, 1, b) > 2 {
		defer close(c)
	}
	return a + b
}
`
	want := []string{
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; a < i || b >= 7; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; a <= i && b >= 7; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; a < i && b > 7; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; a < i && b >= 8; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; !(a < i && b >= 7); i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 1; a < i && b >= 7; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for ; a < i && b >= 7; i++ {",
		"4: for i := 0; a < i && b >= 7; i++ { -> for i := 0; a < i && b >= 7; {",
		"5: if c <- 0x10; a == b { -> if c <- 0x10; a != b {",
		"5: if c <- 0x10; a == b { -> if c <- 17; a == b {",
		"5: if c <- 0x10; a == b { -> if ; a == b {",
		"6: continue -> (deleted)",
		"8: go func() { a = b }() -> (deleted)",
		"9: a = b -> (deleted)",
		"12: if f(c, 1, b) > 2 { -> if f(c, 1, b) >= 2 {",
		"12: if f(c, 1, b) > 2 { -> if f(c, 2, b) > 2 {",
		"12: if f(c, 1, b) > 2 { -> if f(c, 1, b) > 3 {",
		"12: if f(c, 1, b) > 2 { -> if !(f(c, 1, b) > 2) {",
		"13: defer close(c) -> (deleted)",
	}
	file := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := statements([]*folder{{Dir: filepath.Dir(file), GoFiles: []string{"p.go"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		for _, m := range s {
			got = append(got, strings.TrimPrefix(m.String(), file+":"))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRead(t *testing.T) {
	for out, want := range map[string]string{
		"# p\n./p.go:1:1: undefined: x\nFAIL\tp [build failed]\nFAIL":                       broken,
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestB (0.00s)\n": killed + " TestA TestB",
		"--- FAIL: TestA (0.00s)\npanic: test timed out after 1s\n":                         killed + " TestA",
		"--- PASS: TestA (0.00s)\npanic: test timed out after 1s\n":                         timedOut,
		"panic: runtime error: index out of range\n":                                        killed + " a crash",
		strings.Repeat("more and more\n", mostOutput/len("more and more\n")+1)[:mostOutput]: timedOut,
	} {
		got, failed := read(out, false)
		if got = strings.Join(append([]string{got}, failed...), " "); got != want {
			t.Errorf("%.80q means %q, want %q", out, got, want)
		}
	}
	var b beginning
	for range 3 {
		if n, err := b.Write(make([]byte, mostOutput/2+1)); n != mostOutput/2+1 || err != nil {
			t.Error(n, err)
		}
	}
	if len(b) != mostOutput {
		t.Errorf("%d bytes are kept", len(b))
	}
}
