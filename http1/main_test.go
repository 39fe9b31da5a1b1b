package http1

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

// TestMain counts goroutines after all tests.
func TestMain(m *testing.M) {
	testrun.SideBySide(8)
	// net/http rests for half a second before it closes a connection whose request it refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
