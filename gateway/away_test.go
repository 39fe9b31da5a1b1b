package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// A refusal that names a time has clients stay away for a random part of it; a session is not lost by it.
func TestRefusalsThatNameATime(t *testing.T) {
	for _, result := range []wire.Result{wire.Overloaded, wire.ShuttingDown} {
		var sum time.Duration
		for range 1000 {
			err := refused(result, wire.AppendWithin(nil, 2*time.Second))
			back, ok := errors.AsType[comeBack](err)
			if !ok || back.after > 2*time.Second || !errors.Is(err, result) || isFinal(err) {
				t.Fatalf("%v: %v after %v", result, err, back.after)
			}
			sum += back.after
		}
		if mean := sum / 1000; mean < 900*time.Millisecond || mean > 1100*time.Millisecond {
			t.Errorf("%v: %v on average, want 1 s", result, mean)
		}
		if err := refused(result, []byte("in English")); err != result {
			t.Errorf("without a time: %v", err)
		}
	}
}

// The Python programs do so, too.
func TestPythonStaysAway(t *testing.T) {
	said, err := python(t, "-c", `
from honed.wire import Away, check
for result in 5, 7:
    pauses = []
    for _ in range(1000):
        try:
            check(result, b"2000")
        except Away as away:
            pauses.append(away.pause)
    assert len(pauses) == 1000 and max(pauses) <= 2 and 0.9 < sum(pauses) / 1000 < 1.1, pauses
    try:
        check(result, b"in English")
    except ConnectionError as lost:
        assert not isinstance(lost, Away)
`).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
