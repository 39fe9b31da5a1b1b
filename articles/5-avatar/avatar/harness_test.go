package avatar

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

var white = rgb(0xffffff)

// patience bounds everything that a test waits for.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	// net/http rests for half a second before it closes a connection whose request it refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// onlyGo are the fonts that every machine has.
func onlyGo(tb testing.TB) *Fonts {
	tb.Helper()
	f, err := openFonts(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
