package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// recordLine, stateLine, otherLine and envelopeLine are the lines documented in docs/envelope.md.
type recordLine struct {
	Pos    uint64    `json:"pos"`
	Client string    `json:"client"`
	Epoch  uint64    `json:"epoch"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`

	Attributes []Attribute `json:"attributes,omitempty"`
}

type stateLine struct {
	Pos     uint64    `json:"pos"`
	Client  string    `json:"client"`
	Epoch   uint64    `json:"epoch"`
	Last    uint64    `json:"last"`
	Expiry  time.Time `json:"expiry,omitzero"`
	Claimed time.Time `json:"claimed,omitzero"`
	Seen    time.Time `json:"seen,omitzero"`

	Sum      *uint32 `json:"sum,omitempty"`
	Instance uint64  `json:"instance,omitempty"`
}

// otherLine is one of the entries that only format 2 has.
type otherLine struct {
	Pos       uint64    `json:"pos"`
	Client    string    `json:"forgotten,omitempty"`
	Epoch     uint64    `json:"epoch,omitempty"`
	Tombstone uint64    `json:"tombstone,omitempty"`
	Clock     time.Time `json:"clock,omitzero"`
	Highest   uint64    `json:"highest_epoch,omitempty"`
	Skipped   int64     `json:"skipped_ms,omitempty"`
}

type envelopeLine struct {
	Pos   uint64 `json:"pos"`
	Kind  string `json:"kind"`
	Part  Part   `json:"part,omitempty"`
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`
	Base  uint64 `json:"base"`
}

// Export writes every entry from position from as JSON lines.
func Export(ctx context.Context, log Log, from uint64, w io.Writer) error {
	return lines(ctx, log, from, w, func(out *json.Encoder, pos uint64, _ []byte, e Envelope) error {
		for r := range e.Records() {
			if err := out.Encode(recordLine{pos, r.Client, r.Epoch, r.Seq, jsonTime(r.Time), r.Data, r.Attributes}); err != nil {
				return err
			}
		}
		for s := range e.States() {
			line := stateLine{Pos: pos, Client: s.Client, Epoch: s.Epoch, Last: s.Last, Instance: s.Instance}
			switch {
			case s.Claim:
				line.Claimed = jsonTime(s.Expiry + s.Seen)
			case e.Format == 1:
				line.Expiry = jsonTime(s.Expiry)
			default:
				line.Seen = jsonTime(s.Seen)
			}
			if s.Summed {
				line.Sum = &s.Sum
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		var others []otherLine
		for f := range e.Forgettings() {
			others = append(others, otherLine{Pos: pos, Client: f.Client, Epoch: f.Epoch})
		}
		for lost := range e.Tombstones() {
			others = append(others, otherLine{Pos: pos, Tombstone: lost})
		}
		for c := range e.Clocks() {
			others = append(others, otherLine{Pos: pos, Clock: jsonTime(c.Time), Highest: c.Highest, Skipped: c.Skipped})
		}
		for _, line := range others {
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// Inspect writes the header of each envelope from position from as JSON lines.
func Inspect(ctx context.Context, log Log, from uint64, w io.Writer) error {
	return lines(ctx, log, from, w, func(out *json.Encoder, pos uint64, b []byte, e Envelope) error {
		return out.Encode(envelopeLine{pos, e.Kind.String(), e.Part, e.Count, len(b), e.Base})
	})
}

func lines(ctx context.Context, log Log, from uint64, w io.Writer,
	each func(out *json.Encoder, pos uint64, b []byte, e Envelope) error,
) error {
	buffered := bufio.NewWriter(w)
	out := json.NewEncoder(buffered)
	err := log.Read(ctx, from, func(pos uint64, b []byte) error {
		e, err := Decode(b)
		if err != nil {
			return fmt.Errorf("position %d: %w", pos, err)
		}
		return each(out, pos, b, e)
	})
	if flushed := buffered.Flush(); err == nil {
		err = flushed
	}
	return err
}

// jsonTime converts Unix milliseconds and clamps them to the years that JSON allows.
func jsonTime(ms int64) time.Time {
	const last = 253402300799999 // the end of the year 9999
	return time.UnixMilli(min(max(ms, 0), last)).UTC()
}
