package pool

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"weak"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needReuse skips the test in builds that do not reuse memory at once.
func needReuse(t *testing.T) {
	t.Helper()
	if testrun.Race {
		t.Skip("with the race detector a sync.Pool drops one Put in four on purpose")
	}
	if checking {
		t.Skip("the check build quarantines released buffers")
	}
	before := debug.SetGCPercent(-1) // a garbage collection would empty the pools
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// needDrop skips the test in builds that keep released memory for longer than the pool
// does.
func needDrop(t *testing.T) {
	t.Helper()
	if checking {
		t.Skip("the check build quarantines released buffers")
	}
}

// wantPanic runs f, which must panic with a message that begins with begins.
func wantPanic(t *testing.T, begins string, f func()) (text string) {
	t.Helper()
	defer func() {
		t.Helper()
		text, _ = recover().(string)
		if !strings.HasPrefix(text, begins) {
			t.Errorf("panic %q, want one that begins with %q", text, begins)
		}
	}()
	f()
	return ""
}

// watch returns a weak pointer to a buffer's memory.
func watch(b Buffer) weak.Pointer[byte] { return weak.Make(&b.Bytes()[:1][0]) }

// gone reports whether all of the memory has been freed, after a few garbage collections
// with f between them.
func gone(all []weak.Pointer[byte], f func()) bool {
	left := len(all)
	for range 6 {
		runtime.GC()
		f()
		left = 0
		for _, w := range all {
			if w.Value() != nil {
				left++
			}
		}
	}
	return left == 0
}
