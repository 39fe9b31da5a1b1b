package exit

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// The nearest word is suggested if it is near, and the alternative otherwise.
func TestDidYouMean(t *testing.T) {
	known := []string{"load", "lab", "bench", "baseline"}
	for text, want := range map[string]string{
		"laod": "did you mean load?", "bnech": "did you mean bench?", "basline": "did you mean baseline?", "l": "see --help", "serve": "see --help",
	} {
		if got := DidYouMean(text, known, "see --help"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// An error keeps its cause and its code however it is wrapped.
func TestError(t *testing.T) {
	err := fmt.Errorf("outer: %w", Failedf("load: %w", io.ErrUnexpectedEOF))
	end := new(Error)
	if !errors.As(err, &end) || end.Code != Failed || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	if FailedIf(nil) != nil {
		t.Error("nothing went wrong, and there is an error")
	}
}
