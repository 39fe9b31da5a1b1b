package framed_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// A drain guarantees that what was not answered was not executed. No other end of a
// connection does.
func TestClientBelievesTheDrainsPromise(t *testing.T) {
	refusal := func(r wire.Result) []byte { return packet(wire.ConnAck, 0, r, "") }
	for name, test := range map[string]struct {
		say     []byte
		certain bool
	}{
		"shutting down":               {refusal(wire.ShuttingDown), true},
		"shutting down, with content": {packet(wire.ConnAck, 0, wire.ShuttingDown, "until noon"), true},
		"idle":                        {refusal(wire.Idle), false},
		"overloaded":                  {refusal(wire.Overloaded), false},
		"too large":                   {refusal(wire.TooLarge), false},
		"a code without a name":       {refusal(200), false},
		"half a refusal":              {refusal(wire.ShuttingDown)[:13], false},
		"no word":                     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
				const calls = 3
				errs := pend(t, s.c, calls, "pending")
				for range calls {
					s.packet()
				}
				s.send(test.say)
				s.Close()
				for range calls {
					err := <-errs
					if !errors.Is(err, framed.ErrClosed) || errors.Is(err, framed.ErrNotSent) != test.certain {
						t.Errorf("a call returned %v; want ErrNotSent: %t", err, test.certain)
					}
					if test.certain && !errors.Is(err, wire.ShuttingDown) {
						t.Errorf("a call returned %v, which does not wrap the cause", err)
					}
				}
			})
		})
	}
}

// ShuttingDown as the reply to one request comes from the handler, and implies nothing
// about the others.
func TestClientTakesAHandlersShuttingDownForNoPromise(t *testing.T) {
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		first := s.call(t.Context(), "first")
		id := s.wantNext("first")
		second := s.call(t.Context(), "second")
		s.wantNext("second")
		s.send(packet(wire.SubmitAck, id, wire.ShuttingDown, ""))
		if o := <-first; o.err != wire.ShuttingDown {
			t.Errorf("the first call returned %v", o.err)
		}
		s.Close()
		if o := <-second; !errors.Is(o.err, framed.ErrClosed) || errors.Is(o.err, framed.ErrNotSent) {
			t.Errorf("the second call returned %v", o.err)
		}
	})
}

// breaking is a connection that breaks after a number of bytes sent.
type breaking struct {
	net.Conn
	sends int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) <= b.sends {
		b.sends -= len(p)
		return b.Conn.Write(p)
	}
	n := 0
	if b.sends > 0 {
		n, _ = b.Conn.Write(p[:b.sends])
		b.sends = 0
	}
	return n, errors.New("broken")
}

// When a write fails, the requests that were sent in full may have been executed; the
// others, including the one that was cut, cannot have been.
func TestClientKnowsWhatAFailedWriteHasSent(t *testing.T) {
	const calls, size = 5, wire.HeaderSize + 9 + 100
	for sent := range 2*size + 1 {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			p := &peer{Conn: far, t: t}
			first := size - 1 // its content is a byte shorter
			c := framed.NewClient(&breaking{near, first + sent}, framed.ClientOptions{})
			defer c.Close()
			s := script{p, c}
			var all []<-chan callEnd
			for i := range calls { // nobody reads: the writer holds only the first
				all = append(all, s.call(t.Context(), fmt.Sprintf("%99d", i)+string(make([]byte, min(i, 1)))))
				synctest.Wait()
			}
			got := make([]byte, first+sent)
			for n := 0; n < len(got); { // now one write sends the others
				m, err := far.Read(got[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
			synctest.Wait()
			far.Close()
			for i, ended := range all {
				mayHaveRun := i == 0 || i <= sent/size
				if o := <-ended; errors.Is(o.err, framed.ErrNotSent) == mayHaveRun {
					t.Errorf("%d bytes of the second write were sent: call %d returned %v", sent, i, o.err)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// When all servers only drain, a call fails in the end, still with ErrNotSent.
func TestMuxGivesUpOnServersThatOnlyDrain(t *testing.T) {
	m := &framed.Mux{}
	var asked atomic.Int64
	inMemory(t, m, func(_ int, p *peer) {
		if _, err := p.tryPacket(); err == nil {
			asked.Add(1)
			p.Write(packet(wire.ConnAck, 0, wire.ShuttingDown, ""))
		}
	}, func(t *testing.T) {
		_, err := m.Call(t.Context(), nil, []byte("anybody?"))
		if !errors.Is(err, framed.ErrNotSent) || !errors.Is(err, wire.ShuttingDown) {
			t.Errorf("Call returned %v", err)
		}
		if n := asked.Load(); n < 10 || n > 20 {
			t.Errorf("it was sent %d times, want about twenty at most", n)
		}
	})
}

// restarting is a set of servers with the same handler that are drained and restarted at
// their addresses, one after the other.
type restarting struct {
	t       *testing.T
	engine  engine.Engine
	handler framed.Handler
	addrs   []string
	servers []*framed.Server
	served  []chan error
}

func (r *restarting) start(i int) {
	r.t.Helper()
	ln, err := net.Listen("tcp", r.addrs[i])
	if err != nil {
		r.t.Fatal(err)
	}
	s, served := &framed.Server{Engine: r.engine, Handler: r.handler}, make(chan error, 1)
	if r.servers[i] == nil {
		r.addrs[i] = ln.Addr().String()
	}
	r.servers[i], r.served[i] = s, served
	go func() { served <- s.Serve(ln) }()
}

func (r *restarting) drain(i int) {
	r.t.Helper()
	if err := r.servers[i].Shutdown(patient(r.t)); err != nil {
		r.t.Errorf("Shutdown returned %v", err)
	}
	<-r.served[i]
}

// Two servers are drained and restarted in turn, while callers never stop. No call fails,
// so none ends with an unknown outcome, and no request is executed twice. HONE_TEST_ALL=1
// runs more drains and callers.
func TestMuxCallersDoNotNoticeDrains(t *testing.T) {
	drains, callers, most := 3, 64, int64(1<<20)
	if testrun.All() {
		drains, callers, most = 50, 256, 8<<20
	}
	run(t, func(t *testing.T, e engine.Engine) {
		executed := make(executions, most)
		late := make(later, 4096)
		r := &restarting{
			t: t, engine: e, addrs: []string{"127.0.0.1:0", "127.0.0.1:0"},
			servers: make([]*framed.Server, 2), served: make([]chan error, 2),
			handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if c.ID()%4 == 0 {
					executed.Handle(c, nil, req)
					return late.Handle(c, dst, req)
				}
				return executed.Handle(c, dst, req)
			}),
		}
		r.start(0)
		r.start(1)
		var answering sync.WaitGroup
		answering.Go(func() {
			for l := range late {
				l.reply.Send(l.content)
			}
		})
		var dials atomic.Int64
		m := newMux(t, &framed.Mux{Conns: 2, Dial: func(ctx context.Context) (net.Conn, error) {
			first := int(dials.Add(1)) % 2
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", r.addrs[first])
			if err != nil {
				nc, err = new(net.Dialer).DialContext(ctx, "tcp", r.addrs[1-first])
			}
			return nc, err
		}})
		var number, answered, unknown, unsent, wrong atomic.Int64
		stop := make(chan struct{})
		ctx := patient(t)
		var calling sync.WaitGroup
		next := func(request []byte) (n int64, _ []byte) {
			select {
			case <-stop:
				return most, request
			default:
			}
			n = number.Add(1)
			return n, binary.BigEndian.AppendUint32(request[:0], uint32(n))
		}
		judge := func(n int64, request, got []byte, err error) {
			switch {
			case err == nil && string(got) == string(request):
				answered.Add(1)
			case err == nil:
				wrong.Add(1)
			case errors.Is(err, framed.ErrNotSent):
				if unsent.Add(1) == 1 {
					t.Errorf("request %d failed with %v", n, err)
				}
			default:
				if unknown.Add(1) == 1 {
					t.Errorf("request %d ended unknown, executed %d times: %v", n, executed[n].Load(), err)
				}
			}
		}
		for range callers / 2 {
			calling.Go(func() {
				var n int64
				var request, got []byte
				for n, request = next(request); n < most; n, request = next(request) {
					var err error
					got, err = m.Call(ctx, got[:0], request)
					judge(n, request, got, err)
				}
			})
		}
		for range callers / 2 { // and as many asynchronous ones
			var n int64
			var request, got []byte
			var done func([]byte, error)
			ask := func() {
				if n, request = next(request); n >= most {
					calling.Done()
				} else if err := m.Go(ctx, got[:0], request, done); err != nil {
					judge(n, request, nil, err)
					calling.Done()
				}
			}
			done = func(reply []byte, err error) {
				got = reply
				judge(n, request, got, err)
				ask()
			}
			calling.Add(1)
			ask()
		}
		for i := range drains {
			before := answered.Load()
			eventually(t, "calls are answered, and both connections accepted", func() bool {
				// A connection that is not accepted when its listener closes is reset by
				// the kernel.
				return answered.Load() > before+int64(4*callers) && r.servers[0].Stats().Open+r.servers[1].Stats().Open == 2
			})
			r.drain(i % 2)
			r.start(i % 2)
		}
		close(stop)
		calling.Wait()
		s := m.Stats()
		m.Close()
		r.drain(0)
		r.drain(1)
		close(late)
		answering.Wait()
		twice := 0
		for n := range min(most, number.Load()+1) {
			if times := executed[n].Load(); times > 1 {
				twice++
			}
		}
		t.Logf("%d drains, %d answered, %d unknown, %d not executed, %d executed twice; %+v", drains, answered.Load(), unknown.Load(), unsent.Load(), twice, s)
		if twice > 0 || wrong.Load() > 0 || s.Lost == 0 || number.Load() >= most {
			t.Errorf("%d executed twice, %d answered wrongly, %d connections drained, %d of %d requests", twice, wrong.Load(), s.Lost, number.Load(), most)
		}
	})
}
