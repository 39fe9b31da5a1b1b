package framed_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// TestForeignProtocols: what speaks another protocol at a port of frames is refused, and the log says once what it is.
func TestForeignProtocols(t *testing.T) {
	var log bytes.Buffer
	srv := &framed.Server{Handler: framed.HandlerFunc(echo), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	addr := serve(t, srv)
	for _, hello := range []string{
		"\x10\x14\x00\x04MQTT\x04\x02\x00\x3c\x00\x08meter-07", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", "\xff\xff\xff\xff\x00\x00\x00\x00",
	} {
		for range 3 {
			p := dial(t, addr)
			p.send([]byte(hello))
			p.wantRefusal(wire.TooLarge)
		}
	}
	srv.Close()
	for _, name := range []string{"MQTT", "HTTP", "TLS"} {
		if n := strings.Count(log.String(), "a client speaks "+name+"; this port speaks frames"); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", name, n, &log)
		}
	}
	if n := strings.Count(log.String(), "speaks"); n != 6 {
		t.Errorf("other lines:\n%s", &log)
	}
}
