package spec

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/traffic"
)

// files reads the files that flags name. All flags read files through it: so the coordinator can
// send their content to agents, and a load that was sent cannot read an agent's files.
type files struct {
	seen  map[string][]byte // files read from this machine
	large []string          // files that were opened and are not kept in memory
	sent  map[string][]byte // all available files, when the load was received
}

// open opens a file that may be large.
func (f *files) open(name string) (io.ReadCloser, error) {
	if f.sent != nil {
		text, err := f.read(name)
		return io.NopCloser(bytes.NewReader(text)), err
	}
	file, err := os.Open(name)
	if err == nil && !slices.Contains(f.large, name) {
		f.large = append(f.large, name)
	}
	return file, err
}

// contents returns all files that were read or opened.
func (f *files) contents() (map[string][]byte, error) {
	for _, name := range f.large {
		if _, err := f.read(name); err != nil {
			return nil, err
		}
	}
	return f.seen, nil
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

// content parses TEXT, hex:BYTES or @FILE.
func (f *files) content(text string) (content []byte, err error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if content, err = f.read(name); err != nil {
			return nil, fmt.Errorf("cannot be read: %w; name a file after @", err)
		}
		return content, nil
	}
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		if content, err = hex.DecodeString(digits); err != nil {
			return nil, errors.New("not hexadecimal; write two digits for each byte, as in hex:0a0d")
		}
		return content, nil
	}
	return []byte(text), nil
}

// into returns a flag for the content of a request or an answer.
func (f *files) into(content *[]byte) *parsed {
	return &parsed{kind: "CONTENT", keep: func(text string) (err error) {
		*content, err = f.content(text)
		return err
	}}
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

// sentLoad is a load in the form that is sent to agents.
type sentLoad struct {
	Target   string
	Requests int64
	Flags    []sentFlag // flags that were set
	Flows    []traffic.Flow
	Bodies   [][]byte // of the flows' steps, in order: any bytes, of which JSON would keep the text only
	Data     []traffic.Data
	Files    map[string][]byte
}

type sentFlag struct {
	Name   string
	Values []string
}

// mostCarried is how many bytes the files of a carried load have together, at most.
const mostCarried = 35 << 20

// Carry encodes the load, with the content of its files, for FromCarried. It omits flags that were
// not set: their defaults are the same everywhere.
func (f *Load) Carry(cmd *cobra.Command, target string) ([]byte, error) {
	contents, err := f.files.contents()
	if err != nil {
		return nil, exit.Failedf("load: %w", err)
	}
	size := 0
	for _, content := range contents {
		size += len(content)
	}
	if size > mostCarried {
		return nil, exit.Usagef("load: the files of the load have %d bytes together, and agents take %d (%d MiB) at most; use smaller files", size, mostCarried, mostCarried>>20)
	}
	sent := sentLoad{Target: target, Requests: f.Plan.Requests, Data: f.traffic.data.data, Files: contents}
	for _, flow := range f.traffic.flows.flows {
		flow.Steps = slices.Clone(flow.Steps)
		for i := range flow.Steps {
			sent.Bodies = append(sent.Bodies, []byte(flow.Steps[i].Body))
			flow.Steps[i].Body = ""
		}
		sent.Flows = append(sent.Flows, flow)
	}
	plain := &cobra.Command{}
	new(Load).Define(plain)
	plain.Flags().VisitAll(func(known *pflag.Flag) {
		flag := cmd.Flags().Lookup(known.Name)
		if !flag.Changed || flag.Value == &f.traffic.flows || flag.Value == &f.traffic.data {
			return // tables of a file have no text form
		}
		sent.Flags = append(sent.Flags, sentFlag{flag.Name, valuesOf(flag)})
	})
	return json.Marshal(sent)
}

// valuesOf returns what was given as a flag.
func valuesOf(flag *pflag.Flag) []string {
	if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

// FromCarried decodes the plan that Carry encoded. It reads no file of this machine.
func FromCarried(text []byte) (load.Plan, error) {
	var sent sentLoad
	if err := json.Unmarshal(text, &sent); err != nil {
		return load.Plan{}, fmt.Errorf("not a load: %w", err)
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
	for _, flow := range sent.Flows {
		for i := range flow.Steps[:min(len(flow.Steps), len(sent.Bodies))] {
			flow.Steps[i].Body, sent.Bodies = string(sent.Bodies[0]), sent.Bodies[1:]
		}
	}
	f.traffic.flows.flows = sent.Flows
	for _, d := range sent.Data {
		if err := f.traffic.data.add(d); err != nil {
			return load.Plan{}, err
		}
	}
	err := f.Complete(cmd, sent.Target)
	return f.Plan, err
}

// OverUnixSocket reports whether a plan's target is a unix socket of the machine that loads it.
func OverUnixSocket(p load.Plan) bool {
	return slices.ContainsFunc([]string{"unix:", "http://unix:", "https://unix:", "ws://unix:", "wss://unix:"},
		func(prefix string) bool { return strings.HasPrefix(strings.ToLower(p.Target.String()), prefix) })
}
