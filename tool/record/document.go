package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/hone-go/hone/tool/figure"
)

const mostBytes = 1 << 29 // of a run's histograms and artefacts

// document is a run in which hashes stand for the artefacts' bytes, without ID and PairedWith. Its
// fields hide those of Run and Sample. IDs are derived from it: a new field must be omitted when empty, or
// the IDs of all existing runs change.
type document struct {
	Schema string `json:"schema"`
	ID     string `json:"id,omitempty"`
	Run
	Samples []sampleDocument `json:"samples"`
}

type sampleDocument struct {
	Sample
	Histograms []Histogram        `json:"histograms"`
	Series     []Series           `json:"series"`
	Artefacts  []artefactDocument `json:"artefacts"`
}

type artefactDocument struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// sealed is a run in canonical form, with its ID, its document, and its artefacts by hash.
type sealed struct {
	*Run
	text  []byte
	blobs map[string][]byte
}

// seal copies a run into canonical form: what reading it back gives.
func seal(r *Run) (*sealed, error) {
	return sealWithin(r, mostBytes)
}

func sealWithin(r *Run, most int) (*sealed, error) {
	s := &sealed{Run: r, blobs: map[string][]byte{}}
	size := 0
	for _, m := range r.Samples {
		for _, h := range m.Histograms {
			size += len(h.Data)
		}
		for _, a := range m.Artefacts {
			if hash := digest(a.Data); s.blobs[hash] == nil {
				s.blobs[hash] = a.Data
				size += len(a.Data)
			}
		}
	}
	if size > most {
		return nil, fmt.Errorf("a run with %d MiB of histograms, profiles and logs is too large (at most %d MiB); keep fewer or shorter ones", size>>20, most>>20)
	}
	for range 2 { // what was invalid UTF-8 is written in another way once it has been read
		text, err := encode(documentOf(s.Run))
		if err == nil {
			s.text = text
			s.Run, err = unseal(text, func(hash string) ([]byte, error) { return s.blobs[hash], nil })
		}
		if err != nil {
			return nil, err
		}
	}
	s.PairedWith = cleanText(r.PairedWith)
	return s, nil
}

// documentOf returns a run's document: times in UTC, no list or map nil, nothing infinite.
func documentOf(r *Run) document {
	d := document{Schema: figure.SchemaStored, Run: *r, Samples: []sampleDocument{}}
	d.At, d.PairedWith = r.At.UTC(), ""
	d.Scenario.Settings, d.Scenario.Load = cleanMap(r.Scenario.Settings), cleanMap(r.Scenario.Load)
	d.Environment = Environment{cleanMap(r.Environment.Strict), cleanMap(r.Environment.Soft)}
	for _, m := range r.Samples {
		m.At, m.Reasons, m.Metrics = m.At.UTC(), append([]string{}, m.Reasons...), append([]Metric{}, m.Metrics...)
		if m.Rate != nil && (math.IsNaN(*m.Rate) || math.IsInf(*m.Rate, 0)) {
			m.Rate = nil
		}
		one := sampleDocument{Sample: m, Histograms: []Histogram{}, Series: append([]Series{}, m.Series...), Artefacts: []artefactDocument{}}
		for _, h := range m.Histograms {
			h.Data = append([]byte{}, h.Data...)
			one.Histograms = append(one.Histograms, h)
		}
		for _, a := range m.Artefacts {
			one.Artefacts = append(one.Artefacts, artefactDocument{a.Kind, a.Name, digest(a.Data)})
		}
		d.Samples = append(d.Samples, one)
	}
	return d
}

// encode gives the same bytes for the same value.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return text.Bytes(), err
}

// unseal returns the run of a document; blob reads an artefact by its hash.
func unseal(text []byte, blob func(hash string) ([]byte, error)) (*Run, error) {
	var d document
	if err := unmarshalStrictly(text, &d); err != nil {
		return nil, err
	}
	if d.Schema != figure.SchemaStored {
		return nil, fmt.Errorf("its schema is %q, and this hone reads %q", d.Schema, figure.SchemaStored)
	}
	r := d.Run
	r.ID, r.Samples = digest(text)[:idDigits], make([]Sample, len(d.Samples))
	for i, m := range d.Samples {
		s := m.Sample
		s.Histograms, s.Series, s.Artefacts = m.Histograms, m.Series, []Artefact{}
		for _, a := range m.Artefacts {
			data, err := blob(a.SHA256)
			if err != nil {
				return nil, err
			}
			s.Artefacts = append(s.Artefacts, Artefact{a.Kind, a.Name, data})
		}
		r.Samples[i] = s
	}
	return &r, nil
}

func cleanMap(all map[string]string) map[string]string {
	out := make(map[string]string, len(all))
	for k, v := range all {
		out[cleanText(k)] = cleanText(v)
	}
	return out
}

func cleanText(s string) string {
	return strings.ToValidUTF8(s, "\uFFFD")
}

// unmarshalStrictly refuses unknown fields, and a second value.
func unmarshalStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it has more than one value")
	}
	return nil
}
