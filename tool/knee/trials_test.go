package knee

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// A server that closes the connections of more than half of the requests is not there; with fewer
// it has missed.
func TestServerThatClosesConnections(t *testing.T) {
	t.Parallel()
	for each, gone := range map[int64]bool{5: false, 1: true} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if asked.Add(1)%each == 0 {
				panic(http.ErrAbortHandler)
			}
		}))
		defer server.Close()
		goal, err := load.ParseGoal("p50<1m")
		if err != nil {
			t.Fatal(err)
		}
		s := &Search{
			Plan: Plan{Goals: 1, From: 2, To: 3, Width: 0.02, Confirm: 1, Whole: true}, Goals: []load.Goal{goal}, Length: 300 * time.Millisecond,
			Load: load.Plan{Target: load.HTTP{URL: server.URL, Method: http.MethodPost}, Conns: 2, MaxLag: time.Hour},
		}
		if err := s.Run(t.Context()); (err != nil) != gone {
			t.Errorf("every %dth request: %v", each, err)
		}
	}
}
