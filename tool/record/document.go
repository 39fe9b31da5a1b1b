package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

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

// seal copies a run into canonical form.
func seal(r *Run) (*sealed, error) {
	return sealWithin(r, mostBytes)
}

func sealWithin(r *Run, most int) (*sealed, error) {
	c, err := clean(r)
	if err != nil {
		return nil, err
	}
	s := &sealed{Run: c, blobs: map[string][]byte{}}
	d := document{Schema: figure.SchemaStored, Run: *c, Samples: make([]sampleDocument, len(c.Samples))}
	d.PairedWith = ""
	size := 0
	for i, m := range c.Samples {
		one := sampleDocument{Sample: m, Histograms: m.Histograms, Series: m.Series, Artefacts: []artefactDocument{}}
		for _, h := range m.Histograms {
			size += len(h.Data)
		}
		for _, a := range m.Artefacts {
			hash := digest(a.Data)
			if s.blobs[hash] == nil {
				s.blobs[hash] = a.Data
				size += len(a.Data)
			}
			one.Artefacts = append(one.Artefacts, artefactDocument{a.Kind, a.Name, hash})
		}
		d.Samples[i] = one
	}
	if size > most {
		return nil, fmt.Errorf("a run with %d MiB of histograms, profiles and logs is too large (at most %d MiB); keep fewer or shorter ones", size>>20, most>>20)
	}
	if s.text, err = encode(d); err != nil {
		return nil, err
	}
	c.ID = digest(s.text)[:idDigits]
	return s, nil
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

// clean copies a run except its blobs' bytes: times in UTC, no list or map nil, valid
// UTF-8, nothing infinite.
func clean(r *Run) (*Run, error) {
	c := *r
	var err error
	if c.At, err = cleanTime(r.At); err != nil {
		return nil, err
	}
	c.Name, c.Made, c.PairedWith = cleanText(r.Name), cleanText(r.Made), cleanText(r.PairedWith)
	c.Scenario = Scenario{cleanText(r.Scenario.Name), cleanMap(r.Scenario.Settings), cleanMap(r.Scenario.Load), cleanText(r.Scenario.Primary)}
	c.Environment = Environment{cleanMap(r.Environment.Strict), cleanMap(r.Environment.Soft)}
	c.Samples = make([]Sample, len(r.Samples))
	for i, s := range r.Samples {
		if s.At, err = cleanTime(s.At); err != nil {
			return nil, err
		}
		c.Samples[i] = cleanSample(s)
	}
	return &c, nil
}

func cleanSample(s Sample) Sample {
	s.Unfit, s.Reasons = Unfit(cleanText(string(s.Unfit))), cleanList(s.Reasons, cleanText)
	if s.Rate != nil && cleanValue(*s.Rate) != *s.Rate {
		s.Rate = nil
	}
	s.Metrics = cleanList(s.Metrics, func(m Metric) Metric {
		return Metric{cleanText(m.Name), cleanText(m.Unit), cleanText(m.Better), cleanValue(m.Value)}
	})
	s.Histograms = cleanList(s.Histograms, func(h Histogram) Histogram {
		h.Name, h.Data = cleanText(h.Name), notNil(h.Data)
		return h
	})
	s.Series = cleanList(s.Series, func(e Series) Series {
		e.Name, e.Unit, e.Values = cleanText(e.Name), cleanText(e.Unit), cleanList(e.Values, cleanValue)
		return e
	})
	s.Artefacts = cleanList(s.Artefacts, func(a Artefact) Artefact {
		return Artefact{cleanText(a.Kind), cleanText(a.Name), notNil(a.Data)}
	})
	return s
}

func cleanList[T any](all []T, one func(T) T) []T {
	out := make([]T, len(all))
	for i, v := range all {
		out[i] = one(v)
	}
	return out
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

// cleanValue makes values that are not finite NaN: no figure.
func cleanValue(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

func cleanTime(t time.Time) (time.Time, error) {
	t = t.UTC().Round(0)
	if y := t.Year(); y < 0 || y > 9999 {
		return t, fmt.Errorf("the year %d cannot be written; set At to when the sample began", y)
	}
	return t, nil
}

func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
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
