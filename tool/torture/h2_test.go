package torture

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load/codec"
)

// spies are a listener whose connections look at the frames of HTTP/2 that come, and have a fault.
type spies struct {
	net.Listener
	spy *spy
}

type spy struct {
	fault string
	mu    sync.Mutex
	kept  [][]byte
}

type spied struct {
	net.Conn
	spy   *spy
	in    []byte
	begun bool
}

func (s spies) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return &spied{Conn: c, spy: s.spy}, err
}

func (s *spied) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if !strings.HasPrefix(s.spy.fault, secondVersion) {
		return n, err
	}
	if s.in = append(s.in, p[:n]...); !s.begun && len(s.in) >= len(preface) {
		s.in, s.begun = s.in[len(preface):], strings.HasPrefix(string(s.in), preface)
	}
	s.spy.mu.Lock()
	defer s.spy.mu.Unlock()
	for s.begun && len(s.in) >= 9 {
		f := frame{kind: s.in[3], flags: s.in[4], payload: s.in[9:]}
		length := int(s.in[0])<<16 | int(s.in[1])<<8 | int(s.in[2])
		if len(f.payload) < length {
			break
		}
		f.payload = f.payload[:length]
		s.spy.sees(f)
		s.in = s.in[9+length:]
	}
	return n, err
}

// sees is called with every frame, and is slow with some, for which others have to wait.
func (s *spy) sees(f frame) {
	switch {
	case s.fault == keepsResets && f.kind == resetFrame:
		s.kept = append(s.kept, bytes.Repeat([]byte{1}, 4<<10))
	case s.fault == panicsOnWindow && f.kind == windowFrame && f.number(0) == 0:
		panic("a window update of nothing")
	case s.fault == panicsOnTable && f.kind == settingsFrame && f.number(0)>>16 == tableSize:
		panic("the table's size has changed")
	case s.fault == slowSettings && f.kind == settingsFrame && f.number(2) == 1, s.fault == slowPings && f.kind == pingFrame:
		<-time.After(600 * time.Millisecond)
	}
}

// A sound server survives, and its bystanders over HTTP/2 are served.
func TestSoundHTTP2(t *testing.T) {
	t.Parallel()
	only := []string{"h2-rapid-reset", "h2-malformed", "segmentation"}
	for _, s := range http2Scenarios {
		if testrun.All() && s.Name != "h2-table-size" { // in which net/http of Go 1.26.8 ends at times: CVE-2026-97032
			only = append(only, s.Name)
		}
	}
	p := plan(t, secondVersion, only...)
	p.Limits.Within = 30 * time.Second // other programs may have most of the CPUs
	p.Limits.Bytes = int64(testrun.Sized(8, 64)) << 20
	for name, f := range attack(t, p) {
		if f.Verdict != Survived && f.Verdict != Slower {
			t.Errorf("%s: %v, %s %v", name, f.Verdict, f.Words, f.Notes)
		}
	}
}

func TestWithoutHTTP2(t *testing.T) {
	t.Parallel()
	for name, f := range attack(t, plan(t, webServer, "h2-rapid-reset")) {
		if f.Verdict != NotApplicable {
			t.Errorf("%s: %v", name, f.Verdict)
		}
	}
}

// agrees serves HTTP/2 and takes everything for a good request.
func agrees(c net.Conn) {
	in := bufio.NewReader(c)
	io.CopyN(io.Discard, in, int64(len(preface)))
	c.Write(settings().append(nil))
	var p packer
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		io.CopyN(io.Discard, in, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		if head[3] == headersFrame {
			f := frame{headersFrame, endHeaders | endStream, uint32(head[8]), p.pack(field{Name: ":status", Value: "200"})}
			c.Write(f.append(nil))
		}
	}
}

func TestPlantedMalformedHTTP2(t *testing.T) {
	t.Parallel()
	a := arena(t, codec.HTTP{URL: "http://" + serveEach(t, agrees) + "/page"}, Limits{})
	f := attackWith(t, "h2-malformed", a)
	if said := strings.Join(a.inputs, "\n"); f.Verdict != Fell || !strings.Contains(said, "CR LF in a value (RFC 9113 §8.2.1): answers with 200, accepting it") || strings.Contains(said, "TE: trailers") {
		t.Errorf("%v %s\n%s", f.Verdict, f.Words, said)
	}
}

// A head without end is not found out where nothing ends it.
func TestPlantedContinuations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"h2-continuations", "h2-trailers"} {
		a := arena(t, codec.HTTP{URL: "http://" + serveEach(t, agrees) + "/page"}, Limits{Bytes: 16 << 20})
		if f := attackWith(t, name, a); f.Verdict != NotFoundOut || !strings.Contains(f.Words, "no limit up to then") {
			t.Errorf("%s: %v %s", name, f.Verdict, f.Words)
		}
	}
}

// Good requests over HTTP/2, with a body, a mark and TLS, get the answers of HTTP/1.1.
func TestBystandersOfHTTP2(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a", 20_000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, r.Host+r.Header.Get("X-Own")+r.URL.RawQuery+string(body))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	a := arena(t, codec.HTTP{
		URL: s.URL + "/?a", Method: "PUT", Body: []byte(large), Header: http.Header{"X-Own": {"own"}, "Host": {"other"}},
		TLS: s.Client().Transport.(*http.Transport).TLSClientConfig,
	}, Limits{})
	a.target.learnMarks(t.Context(), 5*time.Second)
	a.target.learnHTTP2(t.Context(), 5*time.Second)
	if !a.target.http2 || !a.target.marks {
		t.Fatal("HTTP/2 or marks were not found")
	}
	for range 2 {
		c := a.target.conn(true)
		if err := a.target.open(t.Context(), 5*time.Second, (*target).HTTP2, c); err != nil {
			t.Fatal(err)
		}
		for range 8 { // as many as there is room for, without an update
			got, err := c.exchange(c.Request(nil), time.Now().Add(5*time.Second))
			if err != nil || got.status != "202" || got.alien || got.length != int64(len("otherowna"))+int64(len(large)) {
				t.Errorf("%v, %v", got, err)
			}
		}
		c.Conn.Close()
	}
}
