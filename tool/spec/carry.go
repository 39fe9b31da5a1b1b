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

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
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

// into returns a setting for the content of a request or an answer.
func (f *files) into(content *[]byte) *value {
	return &value{kind: "CONTENT", set: func(text string) (err error) {
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
	Settings []sentSetting // those that were given
	Files    map[string][]byte
}

// sentSetting is a setting as it was given: by texts, or by a table of a file.
type sentSetting struct {
	Name   string
	Values []string        `json:",omitempty"`
	Table  json.RawMessage `json:",omitempty"`
	File   string          `json:",omitempty"`
}

// mostCarried is how many bytes the files of a carried load have together, at most.
const mostCarried = 35 << 20

// Carry encodes the load, with the content of its files, for FromCarried. It omits settings that were
// not given: their defaults are the same everywhere.
func (f *Load) Carry(target string) ([]byte, error) {
	contents, err := f.target.files.contents()
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
	sent := sentLoad{Target: target, Requests: f.Plan.Requests, Files: contents}
	for _, one := range f.settings.list {
		if !f.settings.given(one.name) {
			continue
		}
		as := sentSetting{Name: one.name}
		if v, ok := one.value.(*value); ok && v.given != nil {
			as.File = v.file
			if as.Table, err = json.Marshal(v.given); err != nil {
				return nil, exit.Failedf("load: %w", err)
			}
		} else {
			as.Values = textsOf(f.settings.flags.Lookup(one.name))
		}
		sent.Settings = append(sent.Settings, as)
	}
	return json.Marshal(sent)
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
	f := &Load{target: target{files: files{sent: sent.Files}}}
	f.Define(nil)
	for _, one := range sent.Settings {
		if err := f.take(one); err != nil {
			return load.Plan{}, err
		}
	}
	f.Plan.Requests = sent.Requests
	err := f.Complete("load", sent.Target)
	return f.Plan, err
}

// take sets what was sent.
func (f *Load) take(one sentSetting) error {
	for _, text := range one.Values {
		if err := f.settings.flags.Set(one.Name, text); err != nil {
			return err
		}
	}
	if one.Table == nil {
		return nil
	}
	at := slices.IndexFunc(f.settings.list, func(s setting) bool { return s.name == one.Name })
	if at < 0 {
		return fmt.Errorf("there is no setting %q", one.Name)
	}
	v, ok := f.settings.list[at].value.(*value)
	if !ok || v.table == nil {
		return fmt.Errorf("the setting %q has no table", one.Name)
	}
	_, values, err := keysOf("sent.json", slices.Concat([]byte(`{"table":`), one.Table, []byte("}")))
	if err != nil {
		return err
	}
	f.settings.flags.Lookup(one.Name).Changed = true
	return v.setTable(values["table"], one.File)
}
