package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// slow is a log that stores few records for one envelope's time.
type slow struct {
	Memory
	pace *time.Ticker
}

func (s *slow) Append(ctx context.Context, envelope []byte) (uint64, error) {
	<-s.pace.C
	return s.Memory.Append(ctx, envelope)
}

// TestOverload offers many times what the log takes: all of it is acknowledged in the end,
// nobody is refused, and never more waits than may.
func TestOverload(t *testing.T) {
	log := &slow{pace: time.NewTicker(5 * time.Millisecond)}
	defer log.pace.Stop()
	const most, clients, each = 512, 40, 500
	up := serve(t, &Server{Log: log, Limits: engine.Limits{TotalInFlight: most, InFlight: 100}})
	ctx, cancel := context.WithCancel(context.Background())
	var watching, feeding sync.WaitGroup
	worst := 0
	watching.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			worst = max(worst, up.Stats().Queued)
			<-tick.C
		}
	})
	for n := range clients {
		c := &Client{Addrs: []string{up.addr}, ID: fmt.Sprint("c", n)}
		feeding.Go(func() {
			for i := range each {
				if _, err := c.SubmitAsync(soon(t), fmt.Append(nil, i), nil); err != nil {
					t.Error(err)
					break
				}
			}
			if err := c.Close(soon(t)); err != nil {
				t.Error(err)
			}
			if st := c.Stats(); st.Acknowledged != each || st.Connected != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
	feeding.Wait()
	cancel()
	watching.Wait()
	// A connection that has never asked may have a request taken beyond the limit, every
	// visit may promise some ahead (engine.Limits.TotalInFlight), and what has just been
	// acknowledged counts a moment longer.
	if worst > 2*most+most/4+8*clients {
		t.Errorf("%d records waited; %d may", worst, most)
	}
	t.Logf("%d records waited at most", worst)
	for client, got := range records(t, log) {
		for i, data := range got {
			if data != fmt.Sprint(i) {
				t.Fatalf("%s: record %d is %s", client, i, data)
			}
		}
		if len(got) != each {
			t.Errorf("%s: %d records", client, len(got))
		}
	}
}
