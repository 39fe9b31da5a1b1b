package commandline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/number"
)

// Reading are the flags of a command that reads from a honed.
type Reading struct {
	Reader        gateway.Reader
	addrs         List
	tokenFile     string
	ca, cert, key string
}

// Add adds the flags. start names the one that says where a reader begins.
func (f *Reading) Add(flags *flag.FlagSet, start, otherwise string) {
	f.addrs.Values = []string{"127.0.0.1:7100"}
	flags.Var(&f.addrs, "addr", "read from the honed on `HOST:PORT` or unix:PATH; repeat for more of one cluster")
	flags.StringVar(&f.Reader.Client, "client", "", "only the records of this `CLIENT`")
	flags.StringVar(&f.Reader.Prefix, "prefix", "", "only the records of clients whose names begin with this `TEXT`")
	flags.StringVar(&f.Reader.Topic, "topic", "", "only the records whose topic begins with this `TEXT`")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the reader's token")
	flags.StringVar(&f.ca, "ca", "", "connect with TLS, and trust the certificate authorities in this PEM `FILE`")
	flags.StringVar(&f.cert, "cert", "", "client certificate, a PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "key of --cert, a PEM `FILE`")
	flags.Func(start, fmt.Sprintf("`WHERE` a new reader begins: first, next, a time such as 2026-11-22T21:00:00Z, or a number such as 12.0; default: %s", otherwise), f.start)
}

// start sets where a reader begins.
func (f *Reading) start(text string) error {
	start, at, err := ParseStart(text)
	f.Reader.Start, f.Reader.At, f.Reader.Number = start, time.UnixMilli(int64(at)), at // Start says which one counts
	return err
}

// ParseStart reads where a reader begins: first, next, a time or a number. At is the time in milliseconds,
// or the number.
func ParseStart(text string) (start gateway.Start, at uint64, err error) {
	switch text {
	case "first":
		return gateway.FromFirst, 0, nil
	case "next":
		return gateway.FromNext, 0, nil
	}
	if number, err := number.Parse(text); err == nil {
		return gateway.FromNumber, number, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return gateway.FromTime, uint64(at.UnixMilli()), nil
	}
	return 0, 0, fmt.Errorf("%q is not first, next, a time such as 2026-11-22T21:00:00Z, or a number such as 12.0", text)
}

// JSONTime converts Unix milliseconds and clamps them to the years that JSON allows.
func JSONTime(ms int64) time.Time {
	const last = 253402300799999 // the end of the year 9999
	return time.UnixMilli(min(max(ms, 0), last)).UTC()
}

// Prepare checks the name and sets up the Reader, once the flags are parsed. name is the flag for the Reader's name.
func (f *Reading) Prepare(name string) (err error) {
	if !regexp.MustCompile(`^[!-~]{1,64}$`).MatchString(f.Reader.Name) { // the Reader would panic
		return UsageError{fmt.Errorf("%s: a name has 1 to 64 characters, printable ASCII without spaces, not %q", name, f.Reader.Name)}
	}
	f.Reader.Addrs = f.addrs.Values
	if f.tokenFile != "" {
		if f.Reader.Token, err = ReadSecret("--token-file", f.tokenFile); err != nil {
			return err
		}
	}
	switch {
	case (f.cert == "") != (f.key == ""), f.cert != "" && f.ca == "":
		return UsageError{errors.New("--cert and --key must be given together, and with --ca")}
	case f.ca == "":
		return nil
	}
	text, err := os.ReadFile(f.ca)
	if err != nil {
		return err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate", f.ca)
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	f.Reader.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	return nil
}

// ReadSecret reads a flag's file, which has one secret and which others may not read. No path: no secret.
func ReadSecret(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s: others can read %s; type: chmod 600 %s", flag, path, path)
	}
	return ReadToken(flag, path)
}

// ReadToken is ReadSecret for a file that others may read.
func ReadToken(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = UsageError{err}
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", UsageError{fmt.Errorf("%s: %s is empty", flag, path)}
	}
	return secret, nil
}
