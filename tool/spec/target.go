package spec

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// targetFlags choose the protocol and its requests.
type targetFlags struct {
	dialect         *Choice
	frame           frameFlag
	match           matchFlag
	method          string
	header          http.Header
	body            []byte
	statuses        []int
	length          int64 // as in load.HTTP: 0 is any
	limit           Size
	insecure        bool
	cacert          string
	cert, key       string
	content, expect []byte
	hello           []byte // of attacks
	credentialsFile string
	size            contentSizeFlag
	echo            bool
	webFlags
	files *files
}

const (
	usualContent = 32
	usualLimit   = 16 << 20
)

func (f *targetFlags) define(cmd *cobra.Command, from *files) {
	flags := cmd.Flags()
	f.files, f.size.files = from, from
	f.size.bytes, f.limit = usualContent, usualLimit
	flags.Var(&f.size, "size", "content size in bytes, or a distribution: uniform:LOW..HIGH, lognormal:MEDIAN,SIGMA, file:@FILE")
	flags.Var(from.into(&f.content), "request", "the content itself, instead of --size: TEXT, hex:BYTES or @FILE")
	flags.Var(from.into(&f.expect), "expect-content", "the content that every answer must have: TEXT, hex:BYTES or @FILE")
	flags.BoolVar(&f.echo, "echo", true, "require WebSocket answers to echo their requests, unless --expect-content is given; --echo=false accepts any answer")
	f.dialect = AddChoice(cmd, "dialect", "standard", "dialect of hone's frames", "standard", "demo")
	flags.Var(&f.frame, "frame", "framing of messages: hone, line, resp (Redis), len16be, len32be, len16le, len32le (with +incl the length includes itself), fixed:N")
	flags.Var(&f.match, "match", "how answers are matched to requests: order, or a number in both at id@OFFSET:LEN[:be|le] of the content")
	flags.StringVar(&f.credentialsFile, "credentials-file", "", "log in on every connection with the credentials in this `FILE`: of hone's frames in a Conn, else in a first message")
	flags.StringVarP(&f.method, "method", "X", "", "the `METHOD` (GET, with --body POST)")
	flags.VarP(&parsed{kind: "HEADER", keep: f.addHeader, between: ", "}, "header", "H", "a header, 'Name: value'; repeat for more")
	flags.Var(from.into(&f.body), "body", "request body: TEXT, hex:BYTES or @FILE")
	flags.Var(&parsed{kind: "LIST", keep: f.accept}, "status", "status codes that count as success, as in 200,404 or 2xx (2xx,3xx)")
	flags.Var(&parsed{kind: "SIZE", keep: f.expectLength}, "expect-length", "body length of every successful answer, in bytes (any)")
	flags.BoolVar(&f.insecure, "insecure", false, "do not verify the server's certificate")
	flags.StringVar(&f.cacert, "cacert", "", "trust the certificate authorities in this PEM `FILE` instead of the system's")
	flags.StringVar(&f.cert, "cert", "", "client certificate, a PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "key of the client certificate, a PEM `FILE`")
	f.webFlags.define(cmd)
	flags.Var(&f.limit, "answer-limit", "the longest answer to accept")
}

// The kinds of target.
const (
	kindFrames   = "hone's frames"
	kindMessages = "messages"
	kindHTTP     = "HTTP"
	kindHTTPS    = "HTTPS"
	kindWS       = "WebSocket"
	kindWSS      = "WebSocket over TLS"
)

// kindOf returns the kind of target of a scheme; empty for messages.
func kindOf(scheme string) string {
	return map[string]string{"http": kindHTTP, "https": kindHTTPS, "ws": kindWS, "wss": kindWSS}[scheme]
}

// onlyFor is a flag, the kinds of target that have it, and what to use for others.
type onlyFor struct {
	flag    string
	kinds   []string
	instead string
}

// particular lists the flags that not every kind of target has.
func particular() []onlyFor {
	frames, messages := []string{kindFrames}, []string{kindMessages}
	framed, web, secured := []string{kindFrames, kindMessages}, []string{kindHTTP, kindHTTPS}, []string{kindHTTPS, kindWSS}
	sockets := []string{kindWS, kindWSS}
	content, urls := slices.Concat(framed, sockets), slices.Concat(web, sockets)
	const target, url = "use tcp:// or unix: for messages", "use http:// for a web service"
	const body, https = "use --body for what a request carries", "use https:// or wss://"
	return []onlyFor{
		{"dialect", frames, "leave it out: a dialect is one of hone's frames"},
		{"frame", framed, target}, {"hello", framed, target}, {"credentials-file", framed, "use --basic-file or --bearer-file"}, {"match", messages, "use --frame as well, to say how the messages are cut"},
		{"size", content, body}, {"request", content, body}, {"expect-content", content, "use --status for what to expect"},
		{"echo", sockets, "use --expect-content for what to expect, or --check for HTTP"},
		{"method", web, url}, {"header", urls, url}, {"body", web, "use --request for what a message carries"},
		{"status", web, "use --expect-content for what to expect"}, {"expect-length", web, "use --expect-content for what to expect"},
		{"path", web, url}, {"cookies", web, url}, {"redirects", web, url},
		{"basic-file", urls, url}, {"bearer-file", urls, url}, {"resolve", urls, url},
		{"tls-min", secured, https}, {"tls-max", secured, https}, {"tls-resume", secured, https}, {"insecure", secured, https}, {"cacert", secured, https}, {"cert", secured, https}, {"key", secured, https},
	}
}

// target parses text, with the flags that cmd was given.
func (f *targetFlags) target(cmd *cobra.Command, text string) (load.Target, error) {
	scheme, _, _ := strings.Cut(text, "://")
	kind := kindOf(scheme)
	switch {
	case kind == "" && f.frame.other:
		kind = kindMessages
	case kind == "":
		kind = kindFrames
	}
	if err := suits(kind, cmd); err != nil {
		return nil, err
	}
	if kindOf(scheme) != "" {
		return f.web(cmd.Name(), text, kind)
	}
	var dialect wire.Dialect
	if err := dialect.UnmarshalText([]byte(f.dialect.Value)); err != nil {
		return nil, exit.Usagef("%s: --dialect: %w", cmd.Name(), err)
	}
	if scheme == text && !strings.HasPrefix(text, "unix:") {
		text = "tcp://" + text
	} else if scheme != "tcp" && scheme != "unix" && scheme != text {
		return nil, exit.Usagef("%s: target %q: unknown scheme %q; use tcp://HOST:PORT, unix:PATH, http://, https://, ws:// or wss://", cmd.Name(), text, scheme)
	}
	if err := dialable(cmd.Name(), text); err != nil {
		return nil, err
	}
	frames, err := load.ParseTarget(text, dialect)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: err}
	}
	if err := f.credentials(cmd.Name()); err != nil {
		return nil, err
	}
	if kind == kindMessages {
		return load.Messages{
			Network: frames.Network, Address: frames.Address, AnswerLimit: int(f.limit),
			Framing: f.frame.framing, Match: f.match.Match, Hello: string(f.hello),
		}, nil
	}
	frames.FrameSize, frames.Hello = int(f.limit), string(f.hello)
	return frames, nil
}

// credentials takes the hello of --credentials-file. Errors never say what is in the file.
func (f *targetFlags) credentials(command string) error {
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

// suits refuses flags that do not apply to the target.
func suits(kind string, cmd *cobra.Command) error {
	for _, o := range particular() {
		if !slices.Contains(o.kinds, kind) && cmd.Flags().Changed(o.flag) {
			return exit.Usagef("%s: --%s does not apply to a target of %s; %s", cmd.Name(), o.flag, kind, o.instead)
		}
	}
	return nil
}

// web returns a target of HTTP or WebSocket.
func (f *targetFlags) web(command, url, kind string) (load.Target, error) {
	config, err := f.tls(command)
	if err != nil {
		return nil, err
	}
	header, err := f.login(command, f.header, f.files)
	if err != nil {
		return nil, err
	}
	address, err := f.address(command, url)
	if err != nil {
		return nil, err
	}
	if kind == kindWS || kind == kindWSS {
		return load.WebSocket{URL: url, Address: address, Header: header, AnswerLimit: int(f.limit), TLS: config}, nil
	}
	return load.HTTP{
		URL: url, Address: address, Method: f.method, Header: header, Body: f.body,
		Statuses: f.statuses, Length: f.length, AnswerLimit: int64(f.limit), TLS: config,
	}, nil
}

// tls returns the TLS configuration.
func (f *targetFlags) tls(command string) (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: f.insecure}
	if err := f.versions(command, config); err != nil {
		return nil, err
	}
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
func (f *targetFlags) fill(p *load.Plan) {
	if _, ok := p.Target.(load.HTTP); ok {
		return // the target has the request
	}
	p.Expect = f.expect
	if _, ok := p.Target.(load.WebSocket); ok {
		p.Echo = f.echo && p.Expect == nil
	}
	if p.Content = f.content; p.Content == nil {
		if p.Size, p.Sizes = int(f.size.bytes), f.size.sizes; p.Size == 0 && p.Sizes.None() {
			p.Content = []byte{}
		}
	}
}

// frameFlag is the framing of messages.
type frameFlag struct {
	other   bool // not hone's own frames
	framing load.Framing
}

// Set parses hone or a framing.
func (f *frameFlag) Set(text string) error {
	f.other = text != "hone"
	if f.other && f.framing.UnmarshalText([]byte(text)) != nil {
		return errors.New("not a framing; use hone, line, resp, len16be, len32be, len16le or len32le, one of these with +incl, or fixed:N as in fixed:64")
	}
	return nil
}

// String returns the framing.
func (f *frameFlag) String() string {
	if !f.other {
		return "hone"
	}
	return f.framing.String()
}

// Type returns the value's name in help texts.
func (f *frameFlag) Type() string { return "KIND" }

// matchFlag is how answers are matched to requests.
type matchFlag struct{ load.Match }

// Set parses order or id@OFFSET:LEN.
func (f *matchFlag) Set(text string) error {
	if f.UnmarshalText([]byte(text)) != nil {
		return errors.New("not a match; use order, or id@OFFSET:LEN as in id@4:8")
	}
	return nil
}

// Type returns the value's name in help texts.
func (f *matchFlag) Type() string { return "HOW" }

// addHeader keeps a header.
func (f *targetFlags) addHeader(text string) error {
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
func (f *targetFlags) expectLength(text string) error {
	n, err := figure.ParseSize(text)
	if f.length = int64(n); n == 0 {
		f.length = -1 // no body
	}
	return err
}

// accept keeps status codes, and classes of them, that count as success.
func (f *targetFlags) accept(text string) error {
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
