package commandline

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// RecordLine is a record as a line of JSON, as docs/log-format.md and docs/relay.md describe it.
type RecordLine struct {
	Key        string              `json:"key,omitempty"`    // of a relay: the same whenever this message is sent
	Pos        uint64              `json:"pos,omitempty"`    // of its envelope, in an export
	Number     string              `json:"number,omitempty"` // that a reader gets
	Client     string              `json:"client"`
	Epoch      uint64              `json:"epoch"`
	Seq        uint64              `json:"seq"`
	Time       time.Time           `json:"time"`
	Data       []byte              `json:"data"`
	Topic      string              `json:"topic,omitempty"`
	Type       string              `json:"content_type,omitempty"`
	Attributes []journal.Attribute `json:"attributes,omitempty"`
}

// Line returns what a record's line has of the record itself.
func Line(r *journal.Record) RecordLine {
	line := RecordLine{
		Client: r.Client, Epoch: r.Epoch, Seq: r.Seq, Time: JSONTime(r.Time), Data: r.Data,
		Topic: r.Text(journal.Topic), Type: r.Text(journal.ContentType),
	}
	for _, a := range r.Attributes {
		if a.Kind != journal.Topic && a.Kind != journal.ContentType {
			line.Attributes = append(line.Attributes, a)
		}
	}
	return line
}

// PrintList prints a table, or a line of JSON for each item.
func PrintList[T any](out io.Writer, asJSON bool, items []T, head string, line func(T) string) error {
	if asJSON {
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		for _, item := range items {
			if err := lines.Encode(item); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, head)
	for _, item := range items {
		fmt.Fprintln(table, line(item))
	}
	return table.Flush()
}
