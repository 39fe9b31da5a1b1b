package gateway

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// connectReader handles a Conn packet of a reader: first an open, later heartbeats.
func (s *Server) connectReader(c framed.Call, conn frames, linked bool, dst, content []byte) ([]byte, error) {
	if linked {
		if len(content) > 0 {
			return s.refuse(conn, dst, fmt.Errorf("%w: this connection reads already", ErrHandshake))
		}
		return dst, nil
	}
	h, err := s.admit(conn, content)
	if err != nil {
		return s.refuse(conn, dst, err)
	}
	conn.SetValue(h)
	h.reply.frames, h.client = c.Later(), c.Context()
	if err := s.open(h); err != nil {
		return s.refuse(conn, dst, err)
	}
	return dst, nil
}

// readerMessage handles a message of a reader's WebSocket; h is nil before the open.
func (s *Server) readerMessage(c websocket.Call, conn socket, h *holder, p wire.Packet, dst []byte) ([]byte, error) {
	ack, err := wire.ConnAck, error(nil)
	switch {
	case p.Command == wire.Submit:
		ack, err = wire.SubmitAck, s.acknowledge(h, p.Content)
	case p.Command != wire.Conn:
		return nil, websocket.ProtocolError
	case h != nil && len(p.Content) > 0:
		err = fmt.Errorf("%w: this connection reads already", ErrHandshake)
	case h == nil:
		if h, err = s.admit(conn, p.Content); err == nil {
			conn.SetValue(h)
			h.reply.socket, h.client = &socketReply{c.Later(), ack, p.ID}, c.Context()
			if err = s.open(h); err == nil {
				return nil, nil
			}
		}
	}
	if err != nil {
		return s.refuseSocket(conn, ack, p.ID, err)
	}
	return append(dst, payload(ack, p.ID, wire.OK, nil)...), nil
}

// certScheme begins the URI in a certificate that lets its owner read: hone-reader:PREFIX.
const certScheme = "hone-reader"

// mayRead checks a reader's certificate and token, and returns the prefix of the clients that it may read.
func (s *Server) mayRead(conn caller, name, token string) (shown proof, prefix string, err error) {
	if s.Certificates {
		state := conn.TLS()
		if state == nil || len(state.PeerCertificates) == 0 {
			return shown, "", fmt.Errorf("%w: the connection has no client certificate", ErrUnauthorised)
		}
		leaf, found := state.PeerCertificates[0], false
		for _, uri := range leaf.URIs {
			if uri.Scheme == certScheme && !found {
				prefix, found = uri.Opaque, true
			}
		}
		if !found || leaf.Subject.CommonName != name && !slices.Contains(leaf.DNSNames, name) {
			return shown, "", fmt.Errorf("%w: the certificate does not name this reader", ErrUnauthorised)
		}
	}
	if s.Tokens != nil {
		shown = sha256.Sum256([]byte(token))
		allowed, ok := s.Tokens.reads(name, shown)
		if !ok || !strings.HasPrefix(allowed, prefix) && !strings.HasPrefix(prefix, allowed) {
			return shown, "", ErrUnauthorised
		}
		if len(allowed) > len(prefix) {
			prefix = allowed
		}
	}
	return shown, prefix, nil
}

// allows reports whether a reader's token still permits what it reads.
func (t *Tokens) allows(h *holder) bool {
	prefix, ok := t.reads(h.opening.name, h.proof)
	return ok && h.opening.permitted(prefix)
}
