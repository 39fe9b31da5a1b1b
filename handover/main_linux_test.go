package handover

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs a server of a test when a test has started this binary as one.
func TestMain(m *testing.M) {
	if play := part(os.Getenv("HANDOVER_PART")); play != nil {
		play()
		return
	}
	goleak.VerifyTestMain(m)
}
