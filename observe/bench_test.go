package observe_test

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/observe"
)

// pipes is a listener whose connections are pipes: ten thousand of them need no file descriptors.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipes"} }

// BenchmarkScrape is the cost of one scrape for the server's process: all of /metrics, the hone_
// part of it (/stats), and reading the counters alone.
func BenchmarkScrape(b *testing.B) {
	for _, conns := range []int{0, 10_000} {
		srv := &framed.Server{
			Engine:  engine.Buffered(0),
			Limits:  engine.Limits{Conns: conns + 1},
			Handler: framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }),
		}
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		for range conns {
			client, server := net.Pipe()
			ln.conns <- server
			defer client.Close()
		}
		name := map[int]string{0: "conns=0", 10_000: "conns=10000"}[conns]
		h := (&observe.Admin{Stats: srv.Stats}).Handler()
		for _, path := range []string{"/metrics", "/stats"} {
			b.Run(name+path, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w := &sink{ResponseRecorder: httptest.NewRecorder()}
					if h.ServeHTTP(w, at(ln.Addr(), path)); w.Code != 200 || w.n == 0 {
						b.Fatal(w.Code)
					}
				}
			})
		}
		b.Run(name+"/counters", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if st := srv.Stats(); st.Open != conns {
					b.Fatalf("%d connections open", st.Open)
				}
			}
		})
		srv.Close()
		<-served
	}
}

// sink counts the bytes of a body and discards them.
type sink struct {
	*httptest.ResponseRecorder
	n int
}

func (s *sink) Write(p []byte) (int, error) {
	s.n += len(p)
	return len(p), nil
}
