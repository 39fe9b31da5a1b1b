package websocket

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options configure Dial and the Client it returns. The zero value works.
type Options struct {
	// Header holds further fields of the request: cookies, credentials, Host. Zero: none.
	Header http.Header
	// Subprotocols are offered to the server, in order of preference. Zero: none.
	Subprotocols []string
	// TLS is for wss. Dial copies it. Zero: the system's roots, and the URL's host.
	TLS *tls.Config
	// Compression is offered to the server (permessage-deflate). Zero: no compression.
	Compression *Compression
	// MessageSize is the longest message accepted, in bytes, 1 GiB at most. Zero: 16 MiB.
	// Negative: a panic. Memory grows with the bytes received, never with the length that a
	// frame claims.
	MessageSize int
	// Dial opens the connection that carries TLS and WebSocket. Zero: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// defaultClientSize is the default limit of a message from a server.
const defaultClientSize = 16 << 20

// Dial connects to a ws:// or wss:// URL. ctx limits only the dialling. If the server answers
// with anything other than a WebSocket, the error is or wraps a *Refusal. Dial starts no
// goroutine and uses no proxy.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	o.MessageSize = messageSize("Options", o.MessageSize, defaultClientSize)
	c, err := dial(ctx, address, &o)
	if err != nil {
		return nil, fmt.Errorf("websocket: dial %s: %w", address, err)
	}
	return c, nil
}

func dial(ctx context.Context, address string, o *Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "wss"
	if !secure && u.Scheme != "ws" || u.Host == "" || u.Fragment != "" {
		return nil, errors.New("not of the form ws://HOST/PATH or wss://HOST/PATH")
	}
	nc, err := connect(ctx, u, secure, o)
	if err != nil {
		return nil, err
	}
	ended := whenDone(ctx, func() { nc.SetDeadline(past()) })
	c, err := shakeHands(nc, u, o)
	if ended() {
		err = context.Cause(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// connect opens the connection for the handshake.
func connect(ctx context.Context, u *url.URL, secure bool, o *Options) (net.Conn, error) {
	port := "80"
	if secure {
		port = "443"
	}
	connect := o.Dial
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	nc, err := connect(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if err != nil || !secure {
		return nc, err
	}
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, u.Hostname())
	config.NextProtos = []string{"http/1.1"}
	over := tls.Client(nc, config)
	if err := over.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return over, nil
}

// shakeHands performs the opening handshake.
func shakeHands(nc net.Conn, u *url.URL, o *Options) (*Client, error) {
	key := newKey()
	r := &http.Request{Method: http.MethodGet, URL: u, Host: o.Header.Get("Host"), Header: http.Header{}}
	maps.Copy(r.Header, o.Header)
	r.Header["Upgrade"] = []string{"websocket"}
	r.Header["Connection"] = []string{"Upgrade"}
	r.Header[versionHeader] = []string{version}
	r.Header[keyHeader] = []string{key}
	if u.User != nil && r.Header.Get("Authorization") == "" {
		word, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), word)
	}
	if len(o.Subprotocols) > 0 {
		r.Header[protocolHeader] = []string{strings.Join(o.Subprotocols, ", ")}
	}
	if o.Compression != nil {
		r.Header[extensionsHeader] = []string{deflateOffer}
	}
	if err := r.Write(nc); err != nil {
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(nc, mostAnswer))
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, mostRefusal))
		return nil, &Refusal{Status: resp.StatusCode, Text: strings.TrimSpace(string(text)), Header: resp.Header}
	}
	h, no := readSwitching(resp, key, o.Subprotocols, o.Compression != nil)
	if no.status != 0 {
		return nil, &Refusal{Status: no.status, Text: no.text, Header: resp.Header}
	}
	rest, _ := in.Peek(in.Buffered())
	return newClient(nc, rest, h, o), nil
}

const (
	mostAnswer  = 1 << 20 // bytes of a server's response to the handshake
	mostRefusal = 1 << 10 // bytes that are kept of the body of a refusal
)

// past is a deadline that has already passed.
func past() time.Time { return time.Unix(1, 0) }

// whenDone calls do when ctx ends. The returned function stops that, waits for a call of do
// that has begun, and reports whether there was one.
func whenDone(ctx context.Context, do func()) (ended func() bool) {
	called := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		do()
		close(called)
	})
	return func() bool {
		if stop() {
			return false
		}
		<-called
		return true
	}
}
