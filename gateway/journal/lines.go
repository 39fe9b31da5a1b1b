package journal

import "time"

// RecordLine is a record as a line of JSON, as docs/log-format.md and docs/relay.md describe it.
type RecordLine struct {
	Key        string      `json:"key,omitempty"`    // of a relay: the same whenever this message is sent
	Pos        uint64      `json:"pos,omitempty"`    // of its envelope, in an export
	Number     string      `json:"number,omitempty"` // that a reader gets
	Client     string      `json:"client"`
	Epoch      uint64      `json:"epoch"`
	Seq        uint64      `json:"seq"`
	Time       time.Time   `json:"time"`
	Data       []byte      `json:"data"`
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Line returns what a record's line has of the record itself, with its time as JSON allows it.
func (r *Record) Line(at time.Time) RecordLine {
	return RecordLine{Client: r.Client, Epoch: r.Epoch, Seq: r.Seq, Time: at, Data: r.Data, Attributes: r.Attributes}
}
