package torture

import (
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
)

// A target whose answer is a stream of events without end has bystanders, too: they wait for its
// first event. Streams that start one after the other are found.
func TestEventStreamsBesideBystanders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault string
		want  Verdict
	}{{webServer, Survived}, {lateStreams, Fell}} {
		if c.want == Fell && !testrun.All() {
			continue // two tries take 20 s
		}
		t.Run("fault "+c.fault, func(t *testing.T) {
			t.Parallel()
			p := plan(t, c.fault, "event-streams")
			p.Load.Target = load.HTTP{URL: strings.TrimSuffix(p.Load.Target.(load.HTTP).URL, "events") + "events"}
			found := attack(t, p)["event-streams"]
			if found.Verdict != c.want && (c.want == Fell || found.Verdict != Slower) { // slower than before on a busy machine
				t.Errorf("%v: %s %v", found.Verdict, found.Words, found.Notes)
			}
		})
	}
}
