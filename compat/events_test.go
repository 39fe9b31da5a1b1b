//go:build linux

package compat

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// feed is an application that sends server-sent events to everybody, in order.
type feed struct {
	mu     sync.Mutex
	next   chan struct{} // closed when there is another event
	events int
	joined atomic.Int64
	left   atomic.Int64
}

func newFeed() *feed { return &feed{next: make(chan struct{})} }

// publish adds an event.
func (f *feed) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	close(f.next)
	f.next = make(chan struct{})
}

// state is how many events there are, and what says that there is another.
func (f *feed) state() (int, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events, f.next
}

func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return
	}
	f.joined.Add(1)
	defer f.left.Add(1)
	for sent := 0; ; {
		events, next := f.state()
		for ; sent < events; sent++ {
			fmt.Fprintf(w, "id: %d\ndata: event %d\n\n", sent, sent)
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}

// subscriber reads events.
type subscriber struct {
	c net.Conn
	r *bufio.Reader
}

func (f *feed) subscribe(s *served) (*subscriber, error) {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(4 * patience))
	if _, err := fmt.Fprint(c, request("GET /events", "Accept: text/event-stream")); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(c, 512)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\r\n" {
			return &subscriber{c, r}, nil
		}
	}
}

// want reads events up to a number and says what is missing, chunks or not.
func (s *subscriber) want(from, to int) error {
	for id := from; id < to; {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("at event %d: %w", id, err)
		}
		text, found := strings.CutPrefix(line, "data: event ")
		if !found {
			continue
		}
		if got := strings.TrimSpace(text); got != fmt.Sprint(id) {
			return fmt.Errorf("event %s came in the place of %d", got, id)
		}
		id++
	}
	return nil
}

// TestServerSentEvents has 2 000 clients get all events in order. When clients leave,
// their requests' contexts end, and the others go on.
func TestServerSentEvents(t *testing.T) {
	const events = 10
	for _, on := range engines() {
		t.Run(on.name, func(t *testing.T) {
			clients := 2000
			if on.name != "events" {
				clients = size(200, 2000)
			}
			f := newFeed()
			s := serve(t, on, &http.Server{Handler: f})
			crowd := make([]*subscriber, clients)
			t.Cleanup(func() {
				for _, one := range crowd {
					if one != nil {
						one.c.Close()
					}
				}
			})
			each := func(part []*subscriber, do func(i int) error) {
				var working sync.WaitGroup
				const share = 50
				for from := 0; from < len(part); from += share {
					working.Go(func() {
						for i := from; i < min(from+share, len(part)); i++ {
							if err := do(i); err != nil {
								t.Errorf("client %d: %v", i, err)
								return
							}
						}
					})
				}
				working.Wait()
			}
			each(crowd, func(i int) (err error) {
				crowd[i], err = f.subscribe(s)
				return err
			})
			if t.Failed() {
				return
			}
			for range events {
				f.publish()
			}
			each(crowd, func(i int) error { return crowd[i].want(0, events) })
			stay := clients / 2
			for _, one := range crowd[stay:] {
				one.c.Close()
			}
			eventually(t, "the contexts of those who have left end", func() bool { return f.left.Load() == int64(clients-stay) })
			for range events {
				f.publish()
			}
			each(crowd[:stay], func(i int) error { return crowd[i].want(events, 2*events) })
			if got := f.left.Load(); got != int64(clients-stay) {
				t.Errorf("%d handlers have ended, but %d clients have left", got, clients-stay)
			}
			st := s.http.Stats()
			t.Logf("%d clients, %d loans", clients, st.Loans)
			for _, one := range crowd[:stay] {
				one.c.Close()
			}
			eventually(t, "all contexts end", func() bool { return f.left.Load() == int64(clients) })
		})
	}
}
