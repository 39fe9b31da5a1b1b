package engine_test

import (
	"fmt"
	"testing"

	"github.com/hone-go/hone/engine"
)

// A zero Server may be closed, whatever its engine, and leaves nothing behind; serving
// without a Protocol still panics.
func TestZeroServerCanBeClosed(t *testing.T) {
	for _, e := range append(engine.All(), engine.Engine{}) {
		for name, end := range map[string]func(*engine.Server) error{
			"Close":    (*engine.Server).Close,
			"Shutdown": func(s *engine.Server) error { return s.Shutdown(t.Context()) },
		} {
			s := &engine.Server{Engine: e}
			for range 2 {
				if err := end(s); err != nil {
					t.Errorf("%s: %s of a zero Server returned %v", e.Name(), name, err)
				}
			}
		}
		func() {
			s := &engine.Server{Engine: e}
			defer s.Close()
			defer func() {
				if got, want := fmt.Sprint(recover()), "engine: Server.Protocol is nil"; got != want {
					t.Errorf("%s: Serve without a Protocol panics with %q, want %q", e.Name(), got, want)
				}
			}()
			ln := listen(t, overTCP)
			defer ln.Close()
			s.Serve(ln)
		}()
	}
}
