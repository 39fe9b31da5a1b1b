package torture

import (
	"context"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/websocket"
)

func echo(t *testing.T) *websocket.Upgrader {
	u := &websocket.Upgrader{
		Message: func(c websocket.Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil },
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // closes connections at once
		_ = u.Shutdown(ctx)
	})
	return u
}

func TestSocketScenariosOnHTTP1(t *testing.T) {
	t.Parallel()
	all := socketScenarios
	for _, s := range httpScenarios {
		if s.Kinds&WebSocket != 0 {
			all = append(all, s)
		}
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			at := serveHTTP1(t, echo(t), engine.Limits{FrameTime: 2 * time.Second, IdleTime: 3 * time.Second})
			a := arena(t, codec.WebSocket{URL: "ws" + at[len("http"):] + "/"}, eager)
			if f := attackWith(t, s.Name, a); f.Verdict != Survived {
				t.Errorf("%s: %s", f.Verdict, f.Words)
			}
			if err := a.Healthy(within(t, a.Within)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
