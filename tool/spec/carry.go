package spec

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/load"
)

// files are what the flags of a load read. Every flag that names a file reads it here: so
// what was read can be sent to other machines, and what was sent can name no file there.
type files struct {
	seen map[string][]byte // what was read from this machine
	sent map[string][]byte // all that there is, when the load has come from elsewhere
}

var errNotSent = errors.New("the file was not sent with the load")

func (f *files) read(name string) ([]byte, error) {
	if f.sent != nil {
		text, ok := f.sent[name]
		if !ok {
			return nil, errNotSent
		}
		return text, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if f.seen == nil {
		f.seen = make(map[string][]byte)
	}
	f.seen[name] = text
	return text, nil
}

// pair reads a certificate and its key.
func (f *files) pair(cert, key string) (tls.Certificate, error) {
	certificate, err := f.read(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := f.read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, private)
}

// sentLoad is a load on its way to other machines.
type sentLoad struct {
	Target   string
	Requests int64
	Flags    []sentFlag // those that were given
	Files    map[string][]byte
}

type sentFlag struct {
	Name   string
	Values []string
}

// Carry is the load, with the content of its files, for FromCarried. Flags that were not
// given have the same values everywhere.
func (f *Load) Carry(cmd *cobra.Command, target string) ([]byte, error) {
	sent := sentLoad{Target: target, Requests: f.Plan.Requests, Files: f.files.seen}
	plain := &cobra.Command{}
	new(Load).Define(plain)
	plain.Flags().VisitAll(func(known *pflag.Flag) {
		flag := cmd.Flags().Lookup(known.Name)
		if !flag.Changed {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
			values = list.GetSlice()
		}
		sent.Flags = append(sent.Flags, sentFlag{flag.Name, values})
	})
	return json.Marshal(sent)
}

// FromCarried is the plan that Carry was called for. No file of this machine is read.
func FromCarried(text []byte) (load.Plan, error) {
	var sent sentLoad
	if err := json.Unmarshal(text, &sent); err != nil {
		return load.Plan{}, fmt.Errorf("no load: %w", err)
	}
	if sent.Files == nil {
		sent.Files = map[string][]byte{}
	}
	f := &Load{files: &files{sent: sent.Files}}
	cmd := &cobra.Command{Use: "load"}
	cmd.SetOut(io.Discard)
	f.Define(cmd)
	for _, flag := range sent.Flags {
		for _, value := range flag.Values {
			if err := cmd.Flags().Set(flag.Name, value); err != nil {
				return load.Plan{}, err
			}
		}
	}
	f.Plan.Requests = sent.Requests
	err := f.Complete(cmd, sent.Target)
	return f.Plan, err
}

// OverUnixSocket reports whether a plan's target is a socket of the machine that loads it.
func OverUnixSocket(p load.Plan) bool {
	return slices.ContainsFunc([]string{"unix:", "http://unix:", "https://unix:", "ws://unix:", "wss://unix:"},
		func(prefix string) bool { return strings.HasPrefix(strings.ToLower(p.Target.String()), prefix) })
}
