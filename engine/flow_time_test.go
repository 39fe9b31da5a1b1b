package engine

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
)

// What a peer sends stays with the peer while a handler does not return, and while nobody reads the
// replies: the server reads and holds little of it, and others are served.
func TestFloodIsNotRead(t *testing.T) {
	const little = 2 * fakenet.Buffer
	for _, what := range []string{"block", "fill"} {
		t.Run(what, func(t *testing.T) {
			bubbles(t, func(t *testing.T, e Engine) {
				release := make(chan struct{})
				r := start(t, e, scripted(func(t *Turn, message string) error {
					switch message {
					case "block":
						<-release
					case "fill":
						t.Out = append(t.Out, make([]byte, 8<<10)...)
					}
					return echo(t, message)
				}), Limits{StallTime: -1})
				c, other := r.dial(t), r.dial(t)
				c.send(message(what))
				c.SetWriteDeadline(time.Now().Add(time.Minute))
				if n, err := c.Write(bytes.Repeat(message(what), 1<<18)); !errors.Is(err, os.ErrDeadlineExceeded) || n > little {
					t.Errorf("the server took %d bytes (%v)", n, err)
				}
				if st := r.Stats(); st.BytesIn > little || st.Waiting > 1<<20 {
					t.Errorf("it has read %d bytes, and %d of replies wait", st.BytesIn, st.Waiting)
				}
				if what == "fill" || e != Events(Inline) {
					other.ask("hello")
				}
				close(release)
				c.Close()
			})
		})
	}
}
