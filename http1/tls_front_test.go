package http1

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/tlsfront"
)

// secured returns a listener for a server over TLS, whose clients do not know that.
func secured(t *testing.T, ln net.Listener) net.Listener {
	return tlsfront.Listen(t, ln, &tls.Config{Certificates: []tls.Certificate{tlsfront.Certificate()}})
}

// onTLS returns the listener for a test: ln, or one over TLS for the variant events-tls.
func onTLS(t *testing.T, ln net.Listener) net.Listener {
	if slices.Contains(strings.Split(t.Name(), "/"), "events-tls") {
		return secured(t, ln)
	}
	return ln
}

// overTLS runs a test over TLS on event loops.
func overTLS(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	switch t.Name() { // those who see the front: its address, refusals without words, its allocations; and short limits, which bound the handshake too
	case "TestContextHooks", "TestAddresses", "TestTooManyConns", "TestBareGetAllocations", "TestHTTP2WithoutTLS", "TestHTTP2PrefaceInPieces",
		"TestBodiesHaveTheirOwnTime", "TestShutdownDoesNotAwaitABodyForEver":
		return
	}
	if slices.Contains(engine.All(), engine.Events(engine.Auto)) {
		t.Run("events-tls", func(t *testing.T) {
			t.Parallel()
			test(t, engine.Events(engine.Auto))
		})
	}
}
