package websocket

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The headers of the handshake, as package http spells them.
const (
	keyHeader        = "Sec-Websocket-Key"
	acceptHeader     = "Sec-Websocket-Accept"
	versionHeader    = "Sec-Websocket-Version"
	protocolHeader   = "Sec-Websocket-Protocol"
	extensionsHeader = "Sec-Websocket-Extensions"
)

// version is the only protocol version, RFC 6455 §4.1.
const version = "13"

// handshake is what client and server have negotiated.
type handshake struct {
	accept     string // for Sec-WebSocket-Accept
	protocol   string // the subprotocol; "": none
	extensions string // for Sec-WebSocket-Extensions; "": none
	window     uint8  // permessage-deflate: the window for sending; 0: not negotiated
}

// refusal is the response to a handshake that fails.
type refusal struct {
	status int
	text   string // for people
}

// Error makes a refusal an error.
func (r refusal) Error() string { return "websocket: refused: " + r.text }

// write sends the refusal, with the fields that RFC 9110 requires for its status.
func (r refusal) write(w http.ResponseWriter) {
	h := w.Header()
	switch r.status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	case http.StatusUpgradeRequired:
		h.Set("Upgrade", "websocket")
		h.Set("Connection", "Upgrade")
		h.Set("Sec-WebSocket-Version", version)
	}
	http.Error(w, r.text, r.status)
}

// readHandshake checks a client's request. protocols are the server's subprotocols in order of
// preference. compress allows permessage-deflate. origin decides about the Origin, if there is one;
// nil is sameHost. A refusal with status 0 means that the handshake is accepted.
func readHandshake(r *http.Request, protocols []string, compress bool, origin func(*http.Request) bool) (h handshake, no refusal) {
	if no := requestRefusal(r); no.status != 0 {
		return h, no
	}
	switch origins := r.Header["Origin"]; {
	case len(origins) == 0: // clients other than browsers send none, and could forge it anyway
	case origin == nil && !sameHost(r):
		return h, refusal{http.StatusForbidden, fmt.Sprintf("the page's origin, %s, is not the host of this request, %s; "+
			"a proxy must pass the Host header on with its port, and Upgrader.Origins can allow other origins", quoted(origins...), quoted(r.Host))}
	case origin != nil && !origin(r):
		return h, refusal{http.StatusForbidden, fmt.Sprintf("Upgrader.Origins does not allow the page's origin, %s, on the host %s",
			quoted(origins...), quoted(r.Host))}
	}
	asked, ok := tokens(r.Header[protocolHeader])
	if !ok {
		return h, refusal{http.StatusBadRequest, "Sec-WebSocket-Protocol is malformed or lists a subprotocol twice"}
	}
	offers, ok := parseExtensions(r.Header[extensionsHeader])
	if !ok {
		return h, refusal{http.StatusBadRequest, "Sec-WebSocket-Extensions is malformed"}
	}
	h.accept = acceptFor(r.Header[keyHeader][0])
	for _, p := range protocols {
		if slices.Contains(asked, p) {
			h.protocol = p
			break
		}
	}
	if compress {
		h.window, h.extensions = chooseDeflate(offers)
	}
	return h, refusal{}
}

// requestRefusal checks a request against RFC 6455 §4.2.1.
func requestRefusal(r *http.Request) refusal {
	key, asked := r.Header[keyHeader], r.Header[versionHeader]
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor < 1:
		return refusal{http.StatusBadRequest, "the WebSocket handshake must be an HTTP/1.1 request"}
	case r.Method != http.MethodGet:
		return refusal{http.StatusMethodNotAllowed, "the WebSocket handshake must be a GET request"}
	case !hasToken(r.Header["Upgrade"], "websocket"):
		return refusal{http.StatusUpgradeRequired, "this is a WebSocket endpoint: send Upgrade: websocket"}
	case !hasToken(r.Header["Connection"], "upgrade"):
		return refusal{http.StatusBadRequest, "Upgrade needs Connection: Upgrade"}
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return refusal{http.StatusBadRequest, "the WebSocket handshake must not have a body"}
	case len(asked) != 1:
		return refusal{http.StatusBadRequest, "Sec-WebSocket-Version must occur exactly once"}
	case asked[0] != version:
		return refusal{http.StatusUpgradeRequired, "the only supported Sec-WebSocket-Version is " + version}
	case len(key) != 1 || !validKey(key[0]):
		return refusal{http.StatusBadRequest, "Sec-WebSocket-Key must occur exactly once and be 16 bytes in base64"}
	}
	return refusal{}
}

// appendSwitching appends the response that accepts the handshake. extra are the caller's own
// header fields, such as cookies; those of the handshake are left out of them.
func appendSwitching(dst []byte, h handshake, extra http.Header) []byte {
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = append(dst, h.accept...)
	if h.protocol != "" {
		dst = append(append(dst, "\r\nSec-WebSocket-Protocol: "...), h.protocol...)
	}
	if h.extensions != "" {
		dst = append(append(dst, "\r\nSec-WebSocket-Extensions: "...), h.extensions...)
	}
	dst = append(dst, "\r\n"...)
	if len(extra) > 0 {
		var text strings.Builder
		_ = extra.WriteSubset(&text, map[string]bool{ // writing to a Builder cannot fail
			"Upgrade": true, "Connection": true, "Content-Length": true, "Transfer-Encoding": true,
			acceptHeader: true, protocolHeader: true, extensionsHeader: true,
		})
		dst = append(dst, text.String()...)
	}
	return append(dst, "\r\n"...)
}

// readSwitching checks a server's response to a request with this key that asked for these
// subprotocols and, with compress, offered deflateOffer.
func readSwitching(r *http.Response, key string, protocols []string, compress bool) (h handshake, no refusal) {
	refuse := func(text string) (handshake, refusal) { return handshake{}, refusal{r.StatusCode, text} }
	accept, protocol := r.Header[acceptHeader], r.Header[protocolHeader]
	switch {
	case r.StatusCode != http.StatusSwitchingProtocols:
		return refuse("the server answered " + r.Status)
	case !hasToken(r.Header["Upgrade"], "websocket") || !hasToken(r.Header["Connection"], "upgrade"):
		return refuse("the server switched to a protocol other than WebSocket")
	case len(accept) != 1 || accept[0] != acceptFor(key):
		return refuse("Sec-WebSocket-Accept does not match this request")
	case len(protocol) > 1 || len(protocol) == 1 && !slices.Contains(protocols, protocol[0]):
		return refuse("the server chose a subprotocol that was not offered")
	}
	if len(protocol) == 1 {
		h.protocol = protocol[0]
	}
	answers, ok := parseExtensions(r.Header[extensionsHeader])
	if !ok {
		return refuse("Sec-WebSocket-Extensions is malformed")
	}
	if len(answers) == 0 {
		return h, refusal{}
	}
	window, ok := acceptsDeflate(answers[0])
	if !compress || len(answers) > 1 || !ok {
		return refuse("the server chose an extension that was not offered")
	}
	h.window = window
	return h, refusal{}
}

// newKey returns a random Sec-WebSocket-Key.
func newKey() string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // cannot fail
	return base64.StdEncoding.EncodeToString(nonce[:])
}

// validKey reports whether key is 16 bytes in base64.
func validKey(key string) bool {
	if len(key) != 24 {
		return false
	}
	var nonce [18]byte
	n, err := base64.StdEncoding.Decode(nonce[:], []byte(key))
	return err == nil && n == 16
}

// acceptFor returns the Sec-WebSocket-Accept that proves that the server has read key.
func acceptFor(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// sameHost reports whether the Origin is the request's own host.
func sameHost(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return false
	}
	origin, err := url.Parse(origins[0])
	if err != nil || origin.Host == "" {
		return false // including "null"
	}
	port := ":80"
	if strings.EqualFold(origin.Scheme, "https") {
		port = ":443"
	}
	return strings.EqualFold(strings.TrimSuffix(origin.Host, port), strings.TrimSuffix(r.Host, port))
}

// quoted quotes a client's values for people, not in full if they are long.
func quoted(values ...string) string {
	const most = 200
	all := strings.Join(values, ", ")
	if len(all) > most {
		return fmt.Sprintf("%+q…", all[:most])
	}
	return fmt.Sprintf("%+q", all)
}

// hasToken reports whether a list header contains this lower-case token.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// tokens are the elements of a list header whose tokens must differ. It drops empty elements,
// as RFC 9110 §5.6.1 requires of a recipient.
func tokens(values []string) (list []string, ok bool) {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			t = strings.Trim(t, " \t")
			switch {
			case t == "":
			case !isToken(t) || slices.Contains(list, t):
				return nil, false
			default:
				list = append(list, t)
			}
		}
	}
	return list, true
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}
