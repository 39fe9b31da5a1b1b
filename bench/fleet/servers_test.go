package fleet_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServers asks the same of every server.
func TestServers(t *testing.T) {
	dir, entries := built(t, fleet.Frames())
	for _, e := range entries {
		t.Run(e.Name, func(t *testing.T) {
			if !e.Ours() && !strings.HasPrefix(e.Version, "v") && e.Program != "netbufio" && e.Source == "" {
				t.Errorf("its version is %q", e.Version)
			}
			server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			for _, ask := range []struct {
				name string
				of   func(*testing.T, net.Conn)
			}{
				{"byte by byte", asksByteByByte}, {"many at once", asksManyAtOnce}, {"large and small", asksLargeAndSmall},
				{"something that is not a request", asksNonsense},
			} {
				t.Run(ask.name, func(t *testing.T) { ask.of(t, dial(t, server.Addr)) })
			}
			t.Run("memory", func(t *testing.T) { tellsMemory(t, server, e) })
			t.Run("load", func(t *testing.T) {
				isLoaded(t, load.Plan{Target: codec.Frames{Address: server.Addr}, Depth: 64, Echo: true})
			})
		})
	}
}

// built builds entries, all of which must be there.
func built(t *testing.T, entries []fleet.Entry) (dir string, all []fleet.Entry) {
	t.Helper()
	dir = t.TempDir()
	all, err := fleet.Build(t.Context(), "..", dir, entries, func(missing string) { testrun.Lacks(t, missing) })
	if err != nil {
		t.Fatal(err)
	}
	return dir, all
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(10 * time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// request appends a request to dst.
func request(dst []byte, id uint64, content []byte) []byte {
	return wire.Append(dst, wire.Packet{Command: wire.Submit, ID: id, Content: content})
}

func asksByteByByte(t *testing.T, conn net.Conn) {
	for _, b := range request(nil, 1<<40, []byte("letters")) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if id, content := readAnswer(t, conn); id != 1<<40 || string(content) != "letters" {
		t.Errorf("the answer to %d is %q", id, content)
	}
}

// asksManyAtOnce sends more than any read buffer holds, and the last in halves.
func asksManyAtOnce(t *testing.T, conn net.Conn) {
	const count = 5000
	var all []byte
	for id := range uint64(count) {
		all = request(all, id+1, fmt.Appendf(nil, "request %d", id))
	}
	for _, part := range [][]byte{all[:len(all)-5], all[len(all)-5:]} {
		if _, err := conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[uint64]bool)
	for range count { // in whatever order
		id, content := readAnswer(t, conn)
		if want := fmt.Sprintf("request %d", id-1); seen[id] || string(content) != want {
			t.Fatalf("answer %d is %q, seen: %v", id, content, seen[id])
		}
		seen[id] = true
	}
}

// readAnswer reads one answer of any content.
func readAnswer(t *testing.T, conn net.Conn) (id uint64, content []byte) {
	t.Helper()
	frame := make([]byte, wire.HeaderSize)
	_, err := io.ReadFull(conn, frame)
	if err == nil {
		var need int
		_, need, err = wire.Frame(frame, service.FrameLimit+100)
		frame = append(frame, make([]byte, need)...)
	}
	if err == nil {
		_, err = io.ReadFull(conn, frame[wire.HeaderSize:])
	}
	var p wire.Packet
	if err == nil {
		p, err = wire.Parse(frame[wire.HeaderSize:])
	}
	if err != nil || p.Command != wire.SubmitAck || p.Result != wire.OK {
		t.Fatalf("%v, %v, %v", err, p.Command, p.Result)
	}
	return p.ID, p.Content
}

func asksLargeAndSmall(t *testing.T, conn net.Conn) {
	for i, size := range []int{service.FrameLimit - 13, 0, 5000, 1} {
		want := bytes.Repeat([]byte("x"), size)
		if _, err := conn.Write(request(nil, uint64(i+1), want)); err != nil {
			t.Fatal(err)
		}
		if id, content := readAnswer(t, conn); id != uint64(i+1) || !bytes.Equal(content, want) {
			t.Errorf("%d bytes: the answer to %d has %d", size, id, len(content))
		}
	}
}

func asksNonsense(t *testing.T, conn net.Conn) {
	if _, err := conn.Write([]byte{0, 0, 0, 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection does not end: %v", err)
	}
}

func tellsMemory(t *testing.T, server *fleet.Server, e fleet.Entry) {
	m, err := server.Collect(t.Context(), e)
	if err != nil || m.Anonymous <= 0 || m.Resident <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
