package avatar

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

// patience bounds everything that a test waits for.
const patience = 60 * time.Second

var (
	update   = flag.Bool("update", false, "write testdata and the pictures of README.md again")
	seed     = flag.Uint64("seed", rand.Uint64(), "draw the same random `NUMBERS` again")
	fontDirs = flag.String("fonts", "/usr/share/fonts", "look for the fonts of README.md in these `DIRECTORIES`, with commas between them")
)

func TestMain(m *testing.M) {
	// net/http rests for half a second before it closes a connection whose request it refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// onlyGo are the fonts that every machine has.
func onlyGo(tb testing.TB) *Fonts {
	tb.Helper()
	f, err := OpenFonts(FontOptions{Places: []string{}})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// withHan are fonts that have Han characters. Without one on the machine the
// test is skipped; in CI, where make deps has been run, that is a failure only
// where the package could be installed at all.
func withHan(t *testing.T) *Fonts {
	t.Helper()
	f, err := OpenFonts(FontOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Han() == "" {
		if testrun.All() {
			t.Log("no font with Han characters: only the way without one is tested")
			return nil
		}
		t.Skip("no font with Han characters; install fonts-droid-fallback")
	}
	return f
}
