package spec

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
)

// target is the protocol and its requests.
type target struct {
	framed                bool // messages, and not hone's own frames
	framing               codec.Framing
	match                 codec.Match
	method                string
	header                http.Header
	body                  []byte
	statuses              []int
	length                int64 // as in codec.HTTP: 0 is any
	limit, size           Size
	sizes                 offer.Sizes
	insecure              bool
	cacert                string
	cert, key             string
	content, expect       []byte
	hello                 []byte // of attacks
	credentialsFile       string
	echo                  bool
	basicFile, bearerFile string
	files                 files
}

// kinds is a set of kinds of target.
type kinds uint8

const (
	kindFrames kinds = 1 << iota
	kindMessages
	kindHTTP
	kindHTTPS
	kindWS
	kindWSS

	framed  = kindFrames | kindMessages
	web     = kindHTTP | kindHTTPS
	sockets = kindWS | kindWSS
	secured = kindHTTPS | kindWSS
)

// String returns the name of one kind.
func (k kinds) String() string {
	return map[kinds]string{
		kindFrames: "hone's frames", kindMessages: "messages", kindHTTP: "HTTP", kindHTTPS: "HTTPS",
		kindWS: "WebSocket", kindWSS: "WebSocket over TLS",
	}[k]
}

// kindOf returns the kind of target of a scheme; 0 for messages.
func kindOf(scheme string) kinds {
	return map[string]kinds{"http": kindHTTP, "https": kindHTTPS, "ws": kindWS, "wss": kindWSS}[scheme]
}

// settings returns those of the target.
func (f *target) settings() []setting {
	f.size, f.limit, f.echo = load.DefaultSize, codec.MostAnswer, true
	const target, url = "use tcp:// or unix: for messages", "use http:// for a web service"
	const body, https, message = "use --body for what a request carries", "use https:// or wss://", "use --expect-content for what to expect"
	return []setting{
		{name: "size", value: f.contentSize(), kinds: framed | sockets, instead: body,
			usage: "content size in bytes, or a distribution: uniform:LOW..HIGH, lognormal:MEDIAN,SIGMA, file:@FILE"},
		{name: "request", value: f.files.into(&f.content), secrecy: content, kinds: framed | sockets, instead: body,
			usage: "the content itself, instead of --size: TEXT, hex:BYTES or @FILE"},
		{name: "expect-content", value: f.files.into(&f.expect), secrecy: content, kinds: framed | sockets, instead: "use --status for what to expect",
			usage: "the content that every answer must have: TEXT, hex:BYTES or @FILE"},
		{name: "echo", value: &f.echo, kinds: sockets, instead: "use --expect-content for what to expect, or --check for HTTP",
			usage: "require WebSocket answers to echo their requests, unless --expect-content is given; --echo=false accepts any answer"},
		{name: "frame", value: &value{kind: "KIND", set: f.setFraming, text: f.framingText}, kinds: framed, instead: target,
			usage: "framing of messages: hone, line, resp (Redis), len16be, len32be, len16le, len32le (with +incl the length includes itself), fixed:N"},
		{name: "match", value: &value{kind: "HOW", set: f.setMatch, text: func() string { return f.match.String() }}, kinds: kindMessages, instead: "use --frame as well, to say how the messages are cut",
			usage: "how answers are matched to requests: order, or a number in both at id@OFFSET:LEN of the content"},
		{name: "credentials-file", value: &f.credentialsFile, secrecy: file, kinds: framed, instead: "use --basic-file or --bearer-file",
			usage: "log in on every connection with the credentials in this `FILE`: of hone's frames in a Conn, else in a first message"},
		{name: "method", short: "X", value: &f.method, usage: "the `METHOD` (GET, with --body POST)", kinds: web, instead: url},
		{name: "header", short: "H", value: &value{kind: "HEADER", set: f.addHeader, between: ", "}, secrecy: private, kinds: web | sockets, instead: url,
			usage: "a header, 'Name: value'; repeat for more"},
		{name: "body", value: f.files.into(&f.body), usage: "request body: TEXT, hex:BYTES or @FILE", secrecy: content, kinds: web, instead: "use --request for what a message carries"},
		{name: "status", value: &value{kind: "LIST", set: f.accept}, usage: "status codes that count as success, as in 200,404 or 2xx (2xx,3xx)", kinds: web, instead: message},
		{name: "expect-length", value: &value{kind: "SIZE", set: f.expectLength}, usage: "body length of every successful answer, in bytes (any)", kinds: web, instead: message},
		{name: "insecure", value: &f.insecure, usage: "do not verify the server's certificate", kinds: secured, instead: https},
		{name: "cacert", value: &f.cacert, usage: "trust the certificate authorities in this PEM `FILE` instead of the system's", kinds: secured, instead: https},
		{name: "cert", value: &f.cert, usage: "client certificate, a PEM `FILE`", secrecy: file, kinds: secured, instead: https},
		{name: "key", value: &f.key, usage: "key of the client certificate, a PEM `FILE`", secrecy: file, kinds: secured, instead: https},
		{name: "basic-file", value: &f.basicFile, usage: "log in with the user:password in this `FILE`", secrecy: file, kinds: web | sockets, instead: url},
		{name: "bearer-file", value: &f.bearerFile, usage: "log in with the token in this `FILE`", secrecy: file, kinds: web | sockets, instead: url},
		{name: "answer-limit", value: &f.limit, usage: "the longest answer to accept"},
	}
}

// Size is a number of bytes.
type Size int

// Set parses the size.
func (f *Size) Set(text string) error {
	n, err := figure.ParseSize(text)
	*f = Size(n)
	return err
}

// String formats the size.
func (f *Size) String() string { return figure.Size(int(*f)) }

// Type returns the value's name in help texts.
func (f *Size) Type() string { return "SIZE" }

// contentSize is a size, or a distribution of sizes.
func (f *target) contentSize() *value {
	return &value{
		kind: f.size.Type(),
		set: func(text string) error {
			if strings.Contains(text, ":") {
				return withoutValue("not sizes", f.sizes.Read(text, f.files.read))
			}
			f.sizes = offer.Sizes{}
			return f.size.Set(text)
		},
		text: func() string { return cmp.Or(f.sizes.String(), f.size.String()) },
	}
}

// withoutValue replaces the beginning of an error with what, because the flag's own error already
// has the value.
func withoutValue(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s; %w", what, errors.Unwrap(err))
}

// parse parses the target of a command, with its settings.
func (f *target) parse(command, text string, given *settings) (codec.Target, error) {
	scheme, _, _ := strings.Cut(text, "://")
	kind := kindOf(scheme)
	switch {
	case kind == 0 && f.framed:
		kind = kindMessages
	case kind == 0:
		kind = kindFrames
	}
	if err := given.suits(command, kind); err != nil {
		return nil, err
	}
	if kind&framed == 0 {
		return f.web(command, text, kind)
	}
	if scheme == text && !strings.HasPrefix(text, "unix:") {
		text = "tcp://" + text
	} else if scheme != "tcp" && scheme != "unix" && scheme != text {
		return nil, exit.Usagef("%s: target %q: unknown scheme %q; use tcp://HOST:PORT, unix:PATH, http://, https://, ws:// or wss://", command, text, scheme)
	}
	if err := dialable(command, text); err != nil {
		return nil, err
	}
	frames, err := codec.ParseTarget(text)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: err}
	}
	if err := f.credentials(command); err != nil {
		return nil, err
	}
	if kind == kindMessages {
		return codec.Messages{
			Network: frames.Network, Address: frames.Address, AnswerLimit: int(f.limit),
			Framing: f.framing, Match: f.match, Hello: string(f.hello),
		}, nil
	}
	frames.FrameSize, frames.Hello = int(f.limit), string(f.hello)
	return frames, nil
}

// credentials takes the hello of --credentials-file. Errors never say what is in the file.
func (f *target) credentials(command string) error {
	if f.credentialsFile == "" {
		return nil
	}
	if len(f.hello) > 0 {
		return exit.Usagef("%s: --hello and --credentials-file both begin a connection; give one of them", command)
	}
	text, err := f.files.read(f.credentialsFile)
	if f.hello = bytes.TrimRight(text, "\r\n"); err == nil && len(f.hello) == 0 {
		err = fmt.Errorf("%s is empty", f.credentialsFile)
	}
	if err != nil {
		return exit.Failedf("%s: --credentials-file: %w; name a file with what the server expects in it", command, err)
	}
	return nil
}

// dialable refuses a TCP address that cannot be one.
func dialable(command, text string) error {
	address, tcp := strings.CutPrefix(text, "tcp://")
	if !tcp {
		return nil
	}
	if strings.Contains(address, "/") {
		return exit.Usagef("%s: target %q has a path; for a web service, use http://%s", command, address, address)
	}
	if _, port, err := net.SplitHostPort(address); err == nil && port != "" {
		if _, err := net.LookupPort("tcp", port); err != nil {
			return exit.Usagef("%s: target %q: there is no port %s; use 1 to 65535", command, address, port)
		}
	}
	return nil
}

// web returns a target of HTTP or WebSocket.
func (f *target) web(command, url string, kind kinds) (codec.Target, error) {
	config, err := f.tls(command)
	if err != nil {
		return nil, err
	}
	header, err := f.login(command)
	if err != nil {
		return nil, err
	}
	if kind&sockets != 0 {
		return codec.WebSocket{URL: url, Header: header, AnswerLimit: int(f.limit), TLS: config}, nil
	}
	return codec.HTTP{
		URL: url, Method: f.method, Header: header, Body: f.body,
		Statuses: f.statuses, Length: f.length, AnswerLimit: int64(f.limit), TLS: config,
	}, nil
}

// tls returns the TLS configuration.
func (f *target) tls(command string) (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: f.insecure}
	if f.cacert != "" {
		certificates, err := f.files.read(f.cacert)
		if err != nil {
			return nil, exit.Failedf("%s: --cacert: %w; name a PEM file", command, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(certificates) {
			return nil, exit.Failedf("%s: --cacert %s: no certificate in it; name a PEM file", command, f.cacert)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Usagef("%s: --cert and --key belong together; give both, or neither", command)
	}
	if f.cert != "" {
		pair, err := f.files.pair(f.cert, f.key)
		if err != nil {
			return nil, exit.Failedf("%s: --cert %s --key %s: %w; give a certificate and its key, both PEM", command, f.cert, f.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// fill sets the content of the plan's requests and the expected content of answers.
func (f *target) fill(p *load.Plan) {
	if _, ok := p.Target.(codec.HTTP); ok {
		return // the target has the request
	}
	p.Expect = f.expect
	if _, ok := p.Target.(codec.WebSocket); ok {
		p.Echo = f.echo && p.Expect == nil
	}
	if p.Content = f.content; p.Content == nil {
		if p.Size, p.Sizes = int(f.size), f.sizes; p.Size == 0 && p.Sizes.None() {
			p.Content = []byte{}
		}
	}
}

// setFraming parses hone or a framing.
func (f *target) setFraming(text string) error {
	f.framed = text != "hone"
	if f.framed && f.framing.UnmarshalText([]byte(text)) != nil {
		return errors.New("not a framing; use hone, line, resp, len16be, len32be, len16le or len32le, one of these with +incl, or fixed:N as in fixed:64")
	}
	return nil
}

func (f *target) framingText() string {
	if !f.framed {
		return "hone"
	}
	return f.framing.String()
}

// setMatch parses order or id@OFFSET:LEN.
func (f *target) setMatch(text string) error {
	if f.match.UnmarshalText([]byte(text)) != nil {
		return errors.New("not a match; use order, or id@OFFSET:LEN as in id@4:8")
	}
	return nil
}

// addHeader keeps a header.
func (f *target) addHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok || name == "" {
		return errors.New("not a header; write it as in 'Accept: text/html'")
	}
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Add(name, strings.TrimSpace(value))
	return nil
}

// expectLength keeps the length of a body.
func (f *target) expectLength(text string) error {
	n, err := figure.ParseSize(text)
	if f.length = int64(n); n == 0 {
		f.length = -1 // no body
	}
	return err
}

// accept keeps status codes, and classes of them, that count as success.
func (f *target) accept(text string) error {
	statuses, err := parseStatuses(text)
	f.statuses = append(f.statuses, statuses...)
	return err
}

// parseStatuses parses a list such as 200,404 or 2xx,404.
func parseStatuses(text string) (statuses []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		digits, class := strings.CutSuffix(word, "xx")
		first, err := strconv.Atoi(digits)
		number := 1
		if class {
			first, number = 100*first, 100
		}
		if err != nil || first < 100 || first > 999 {
			return nil, fmt.Errorf("%q is not a status code; write it as in 200,404 or 2xx", word)
		}
		for status := first; status < first+number; status++ {
			statuses = append(statuses, status)
		}
	}
	return statuses, nil
}
