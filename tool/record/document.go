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
)

// documentSchema names the format of run.json. IDs are derived from it: a new field must
// be omitted when empty, or the IDs of all existing runs change.
const documentSchema = "hone.run/1"

// document is the content of run.json: a run in which hashes stand for the blobs. Its fields hide
// those of Run and Sample.
type document struct {
	Schema string `json:"schema"`
	ID     string `json:"id,omitempty"`
	Run
	Samples []sampleDocument `json:"samples"`
}

type sampleDocument struct {
	Sample
	Histograms []histogramDocument `json:"histograms"`
	Series     []Series            `json:"series"`
	Artefacts  []artefactDocument  `json:"artefacts"`
}

type blobDocument struct {
	SHA256 string `json:"sha256"`
	Size   int    `json:"size"`
}

type histogramDocument struct {
	Name  string        `json:"name"`
	Start time.Duration `json:"start_ns"`
	End   time.Duration `json:"end_ns"`
	blobDocument
}

type artefactDocument struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	blobDocument
}

// sealed is a run in canonical form, with its ID, and all its blobs by hash.
type sealed struct {
	*Run
	doc   document
	blobs map[string][]byte
}

// seal copies a run, without its blobs' bytes, into canonical form.
func seal(r *Run) (*sealed, error) {
	return sealWithin(r, mostBlobs)
}

func sealWithin(r *Run, most int) (*sealed, error) {
	c, err := clean(r)
	if err != nil {
		return nil, err
	}
	s := &sealed{Run: c, blobs: map[string][]byte{}}
	s.doc = document{Schema: documentSchema, Run: *c, Samples: make([]sampleDocument, len(c.Samples))}
	s.doc.PairedWith = ""
	for i := range c.Samples {
		s.doc.Samples[i] = s.sampleDocument(&c.Samples[i])
	}
	size := 0
	for _, data := range s.blobs {
		size += len(data)
	}
	if size > most {
		return nil, fmt.Errorf("a run with %d MiB of histograms, profiles and logs is too large (at most %d MiB); keep fewer or shorter ones", size>>20, most>>20)
	}
	text, err := s.doc.encode()
	if err != nil {
		return nil, err
	}
	c.ID = digest(text)[:idDigits]
	s.doc.ID, s.doc.PairedWith = c.ID, c.PairedWith
	return s, nil
}

func (s *sealed) sampleDocument(m *Sample) sampleDocument {
	d := sampleDocument{Sample: *m, Series: m.Series, Histograms: make([]histogramDocument, len(m.Histograms)), Artefacts: make([]artefactDocument, len(m.Artefacts))}
	for i, h := range m.Histograms {
		d.Histograms[i] = histogramDocument{h.Name, h.Start, h.End, s.keep(h.Data)}
	}
	for i, a := range m.Artefacts {
		d.Artefacts[i] = artefactDocument{a.Kind, a.Name, s.keep(a.Data)}
	}
	return d
}

func (s *sealed) keep(data []byte) blobDocument {
	hash := digest(data)
	s.blobs[hash] = data
	return blobDocument{hash, len(data)}
}

// encode gives the same bytes for the same run.
func (d *document) encode() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	err := e.Encode(d)
	return text.Bytes(), err
}

// run returns the run that the document describes.
func (d *document) run(blobs map[string][]byte) *Run {
	r := d.Run
	r.ID, r.Samples = d.ID, make([]Sample, len(d.Samples))
	for i, m := range d.Samples {
		s := m.Sample
		s.Series = m.Series
		for _, h := range m.Histograms {
			s.Histograms = append(s.Histograms, Histogram{h.Name, h.Start, h.End, blobs[h.SHA256]})
		}
		for _, a := range m.Artefacts {
			s.Artefacts = append(s.Artefacts, Artefact{a.Kind, a.Name, blobs[a.SHA256]})
		}
		r.Samples[i] = s
	}
	return &r
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
	c.Scenario = Scenario{cleanText(r.Scenario.Name), cleanText(r.Scenario.Text)}
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
	s.Reasons = cleanList(s.Reasons, cleanText)
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

// cleanValue has a single NaN and no negative zero: SQLite cannot store others.
func cleanValue(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return math.NaN()
	}
	return v + 0
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
