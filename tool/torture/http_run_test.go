package torture

import (
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load/codec"
)

// A target whose answer is a stream of events without end has bystanders, too: they wait for its
// first event. Streams that start one after the other are found; sound ones survive, where they need
// not end.
func TestEventStreamsBesideBystanders(t *testing.T) {
	t.Parallel()
	for fault, only := range map[string][]string{webServer: {"event-streams", "half-close", "descriptors"}, lateStreams: {"event-streams"}} {
		if fault == lateStreams && !testrun.All() {
			continue // two tries take 20 s
		}
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			p := plan(t, fault, only...)
			p.Load.Target = codec.HTTP{URL: strings.TrimSuffix(p.Load.Target.(codec.HTTP).URL, "events") + "events"}
			found := attack(t, p)
			if fell := found["event-streams"].Verdict == Fell; fell != (fault == lateStreams) {
				t.Error("event-streams is wrong")
			}
			if fault == webServer && (found["half-close"].Verdict != NotApplicable || found["descriptors"].Verdict != Survived) {
				t.Error("half-close or descriptors is wrong")
			}
		})
	}
}
