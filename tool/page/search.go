package page

import (
	"encoding/json"

	"github.com/hone-go/hone/tool/record"
)

// Knee is a search for the most load under which goals are met, until now.
type Knee struct {
	Goals  string      `json:"goals"` // as they were given
	Unit   string      `json:"unit"`  // of the loads
	Drawn  string      `json:"drawn"` // the time that Trials have
	Goal   *float64    `json:"goal"`  // of that, in µs; nil: there is none
	Met    *float64    `json:"met"`   // the highest load that meets the goals; nil: not known
	Missed *float64    `json:"missed"`
	Trials []KneeTrial `json:"trials"` // in the order in which they were made
}

// KneeTrial is one load that was tried.
type KneeTrial struct {
	Load  float64  `json:"load"`
	Value *float64 `json:"value"` // in µs; nil: not known
	Full  bool     `json:"full"`
	Valid bool     `json:"valid"`
	Met   bool     `json:"met"`
	Why   string   `json:"why"` // it missed, or is not valid
}

// Search shows how the search for a knee goes. k takes the place of the one before.
func (p *Page) Search(k Knee) {
	p.ready()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Knee = &k
	p.tellLocked()
}

// kneeKind is the kind of the artefact that a search is kept in.
const kneeKind = "knee"

// Artefact is the search as it is kept with a sample of a run, where Report finds it.
func (k Knee) Artefact() record.Artefact {
	data, _ := json.Marshal(k) // without NaN, which no trial has, it always can be
	return record.Artefact{Kind: kneeKind, Name: "knee.json", Data: data}
}

// kneeOf is the search that a run was kept from; nil: it was made otherwise.
func kneeOf(run *record.Run) *Knee {
	for _, s := range run.Samples {
		for _, a := range s.Artefacts {
			k := new(Knee)
			if a.Kind == kneeKind && json.Unmarshal(a.Data, k) == nil {
				return k
			}
		}
	}
	return nil
}
