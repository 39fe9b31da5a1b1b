package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

// messageLine is the line that honed tail prints for a record.
type messageLine struct {
	Number string    `json:"number"`
	Client string    `json:"client"`
	Epoch  uint64    `json:"epoch"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`

	Attributes []journal.Attribute `json:"attributes,omitempty"`
}

// gapLine is the line for records that are missing.
type gapLine struct {
	Gap  string `json:"gap"` // why
	From string `json:"from"`
	To   string `json:"to"`
}

// tailing are the flags of honed tail.
type tailing struct {
	reader        gateway.Reader
	addrs         list
	from          string
	tokenFile     string
	ca, cert, key string
	follow        bool
}

// tail prints the records of a running honed.
func tail(ctx context.Context, args []string, stdout, _ io.Writer) error {
	f := tailing{addrs: list{values: []string{"127.0.0.1:7100"}}}
	flags, config := newFlags("honed tail")
	flags.Var(&f.addrs, "addr", "read from the honed on `HOST:PORT` or unix:PATH; repeat for more of one cluster")
	flags.StringVar(&f.reader.Name, "name", "tail", "`NAME` of the reader, for its token or certificate. Nothing is stored under it")
	flags.StringVar(&f.from, "from", "first", "where to begin: first, next, a `TIME` such as 2026-11-22T21:00:00Z, or the number of a line")
	flags.StringVar(&f.reader.Client, "client", "", "only the records of this `CLIENT`")
	flags.StringVar(&f.reader.Prefix, "prefix", "", "only the records of clients whose names begin with this `TEXT`")
	flags.BoolVar(&f.follow, "follow", false, "go on with what is stored from now on; without it, honed tail ends where the log ends now")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the reader's token")
	flags.StringVar(&f.ca, "ca", "", "connect with TLS, and trust the certificate authorities in this PEM `FILE`")
	flags.StringVar(&f.cert, "cert", "", "client certificate, a PEM `FILE`")
	flags.StringVar(&f.key, "key", "", "key of --cert, a PEM `FILE`")
	if err := parse(flags, config, args, stdout); err != nil {
		return err
	}
	if err := f.prepare(); err != nil {
		return err
	}
	defer f.reader.Close()
	out := bufio.NewWriter(stdout)
	err := f.print(ctx, out)
	return errors.Join(interrupted(ctx, err), out.Flush())
}

// prepare sets up the reader.
func (f *tailing) prepare() (err error) {
	r := &f.reader
	r.Addrs, r.Passing, r.Eager = f.addrs.values, true, true
	if r.Start, r.At, r.Number, err = parseStart(f.from); err != nil {
		return err
	}
	if r.Start == gateway.Stored {
		return usageError{errors.New("--from is empty")}
	}
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return err
		}
		r.Token = strings.TrimSpace(string(text))
	}
	switch {
	case (f.cert == "") != (f.key == ""), f.cert != "" && f.ca == "":
		return usageError{errors.New("--cert and --key must be given together, and with --ca")}
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
	r.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	return nil
}

// print prints until the log's end, or for ever.
func (f *tailing) print(ctx context.Context, out *bufio.Writer) error {
	lines := json.NewEncoder(out)
	for {
		b, err := f.reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range b.Messages {
			line := messageLine{formatNumber(m.Number), m.Client, m.Epoch, m.Seq, jsonTime(m.Time), m.Data, m.Attributes}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		if b.Gap != nil {
			if err := lines.Encode(gapLine{b.Gap.Reason.String(), formatNumber(b.Gap.From), formatNumber(b.Gap.To)}); err != nil {
				return err
			}
		}
		if len(b.Messages) == 0 && b.Gap == nil {
			if !f.follow {
				return nil
			}
			if err := out.Flush(); err != nil { // it has everything for now
				return err
			}
		}
	}
}

// formatNumber writes a record's number as POSITION.INDEX, and parseNumber reads that; without an index, 0.
func formatNumber(number uint64) string { return fmt.Sprintf("%d.%d", number>>16, number&0xffff) }

func parseNumber(text string) (uint64, error) {
	before, after, _ := strings.Cut(text, ".")
	pos, err := strconv.ParseUint(before, 10, 48)
	index := uint64(0)
	if err == nil && after != "" {
		index, err = strconv.ParseUint(after, 10, 16)
	}
	return pos<<16 | index, err
}
