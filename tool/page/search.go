package page

import (
	"encoding/json"

	"github.com/hone-go/hone/tool/record"
)

// Knee is the state of a search for the highest load at which goals are met.
type Knee struct {
	Valid  bool        `json:"valid"`
	Said   string      `json:"said"`  // the verdict in one line
	Goals  string      `json:"goals"` // as given
	Unit   string      `json:"unit"`  // of the loads
	Drawn  string      `json:"drawn"` // the metric that Trials plot
	Goal   *float64    `json:"goal"`  // for that metric, in µs; nil: none
	Met    *float64    `json:"met"`   // the highest load that meets the goals; nil: not known
	Missed *float64    `json:"missed"`
	Trials []KneeTrial `json:"trials"` // in order of execution
}

// KneeTrial is one tried load.
type KneeTrial struct {
	Load  float64  `json:"load"`
	Value *float64 `json:"value"` // in µs; nil: not known
	Full  bool     `json:"full"`
	Valid bool     `json:"valid"`
	Met   bool     `json:"met"`
	Why   string   `json:"why"` // reason for a miss or an invalid trial
}

// Search shows the progress of the search for a knee. k replaces the previous state.
func (p *Page) Search(k Knee) {
	defer p.change()()
	p.state.Knee = &k
}

// kneeKind is the kind of artefact that stores a search.
const kneeKind = "knee"

// Artefact returns the search as it is stored with a sample, where Report finds it.
func (k Knee) Artefact() record.Artefact {
	data, _ := json.Marshal(k) // cannot fail: trials have no NaN
	return record.Artefact{Kind: kneeKind, Name: "knee.json", Data: data}
}

// KneeOf returns the search of a run that hone knee stored; nil for other runs.
func KneeOf(run *record.Run) *Knee {
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
