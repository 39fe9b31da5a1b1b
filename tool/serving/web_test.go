package serving

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hone-go/hone/observe"
)

// Messages are compressed if the flag says so and the client offers it.
func TestCompression(t *testing.T) {
	const offer = "permessage-deflate"
	for _, compress := range []bool{false, true} {
		s := &serving{log: slog.New(slog.DiscardHandler)}
		s.admin = new(observe.Admin)
		web := httptest.NewServer(s.socketHandler(compress, false))
		defer web.Close()
		r := httptest.NewRequest("GET", web.URL+"/echo", nil)
		r.RequestURI = ""
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Extensions": offer,
		} {
			r.Header.Set(name, value)
		}
		resp, err := web.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		agreed := resp.Header.Get("Sec-WebSocket-Extensions")
		if resp.StatusCode != 101 || strings.HasPrefix(agreed, offer) != compress {
			t.Errorf("with compression %v: status %d, extensions %q", compress, resp.StatusCode, agreed)
		}
		resp.Body.(io.Closer).Close()
	}
}
