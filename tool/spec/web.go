package spec

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/hone-go/hone/tool/exit"
)

// login returns the headers, with the Authorization of a file. Errors never say what is in the files.
func (f *target) login(command string) (http.Header, error) {
	if f.basicFile == "" && f.bearerFile == "" {
		return f.header, nil
	}
	if f.basicFile != "" && f.bearerFile != "" || f.header.Get("Authorization") != "" {
		return nil, exit.Usagef("%s: a request has one Authorization; give one of --basic-file, --bearer-file and -H Authorization", command)
	}
	name, flag, example := f.bearerFile, "bearer-file", "a token"
	if f.basicFile != "" {
		name, flag, example = f.basicFile, "basic-file", "user:password"
	}
	text, err := f.files.read(name)
	if err != nil {
		return nil, exit.Failedf("%s: --%s: %w; name a file with %s in it", command, flag, err, example)
	}
	secret := strings.TrimSpace(string(text))
	odd := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case secret == "":
		err = errors.New("is empty")
	case strings.ContainsFunc(secret, odd):
		err = errors.New("has more than one line, or a letter that no header has")
	case f.basicFile != "" && !strings.Contains(secret, ":"):
		err = errors.New("has no colon")
	}
	if err != nil {
		return nil, exit.Failedf("%s: --%s %s %w; write %s into it", command, flag, name, err, example)
	}
	header := f.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if f.basicFile != "" {
		secret = "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	} else {
		secret = "Bearer " + secret
	}
	header.Set("Authorization", secret)
	return header, nil
}

// versions sets what --tls-min, --tls-max and --tls-resume say.
func (f *target) versions(command string, config *tls.Config) error {
	numbers := map[string]uint16{"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	config.MinVersion, config.MaxVersion = numbers[f.tlsMin.Value], numbers[f.tlsMax.Value]
	if config.MinVersion > config.MaxVersion {
		return exit.Usagef("%s: --tls-min %s is above --tls-max %s; give a lower one", command, f.tlsMin.Value, f.tlsMax.Value)
	}
	if f.tlsResume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1) // there is one server
	}
	return nil
}

// resolves keeps where a host is, HOST:PORT:ADDRESS, as curl's --resolve does.
func (f *target) resolves(text string) error {
	wrong := errors.New("it is not HOST:PORT:ADDRESS; write it as in example.com:443:127.0.0.1")
	end := strings.IndexByte(text, ':')
	if strings.HasPrefix(text, "[") { // the host is an address of IPv6
		end = strings.IndexByte(text, ']') + 1
	}
	if end <= 0 || end >= len(text) || text[end] != ':' {
		return wrong
	}
	host := strings.Trim(text[:end], "[]")
	port, address, _ := strings.Cut(text[end+1:], ":")
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(address, "["), "]"))
	if err != nil || host == "" {
		return wrong
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 || port == "" {
		return fmt.Errorf("%q is no port; write it as in example.com:443:127.0.0.1", port)
	}
	if f.at == nil {
		f.at = map[string]string{}
	}
	f.at[strings.ToLower(net.JoinHostPort(host, port))] = net.JoinHostPort(ip.String(), port)
	return nil
}

// address is where a URL's host is; empty: where its name resolves to.
func (f *target) address(command, text string) (string, error) {
	u, err := url.Parse(text)
	if len(f.at) == 0 || err != nil || u.Hostname() == "" { // what is wrong with the URL is said later
		return "", nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
	}
	where := strings.ToLower(net.JoinHostPort(u.Hostname(), port))
	if f.at[where] == "" {
		return "", exit.Usagef("%s: --resolve %s is not about the target, which is at %s; name that", command, &f.resolved, where)
	}
	return f.at[where], nil
}
