package demo

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/tool/admin"
)

// Every server answers, refuses an impossible frame without harm to others, counts, and ends with
// its input.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, name := range Names() {
		in, end := io.Pipe()
		out, lines := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Run(t.Context(), name, in, lines) }()
		var at struct{ Addr, Admin string }
		if err := json.NewDecoder(out).Decode(&at); err != nil {
			t.Fatal(err)
		}
		const slow = "\x00\x00\x00\x15\x02\x00\x00\x00\x00\x00\x00\x00\x07sleep 1s"
		for request, want := range map[string]string{"\x00\x00\x00\x03": "", "\x40\x00\x00\x00": "", "\x00\x00\x00\x05\x7f": "",
			slow: "\x00\x00\x00\x0e\x82\x00\x00\x00\x00\x00\x00\x00\x07\x00"} {
			conn, err := net.Dial("tcp", at.Addr)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			io.WriteString(conn, request)
			conn.SetDeadline(began.Add(10 * time.Second))
			if request == slow {
				conn.(*net.TCPConn).CloseWrite()
			}
			got, err := io.ReadAll(conn)
			if conn.Close(); string(got) != want || errors.Is(err, os.ErrDeadlineExceeded) || request == slow && time.Since(began) < time.Second {
				t.Errorf("%s answered %q with %q after %v, want %q", name, request, got, time.Since(began), want)
			}
		}
		stats, err := admin.Open(at.Admin)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := stats.Read(t.Context()); err != nil || now.Engine != name || now.RequestsReceived != 2 || now.ConnectionsAccepted != 4 {
			t.Errorf("%s counted %+v, %v", name, now, err)
		}
		stats.Close()
		end.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := Run(t.Context(), "steam", nil, nil); err == nil {
		t.Error("a server that does not exist has run")
	}
}
