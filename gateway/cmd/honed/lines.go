package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// recordLine, stateLine, otherLine and envelopeLine are the lines documented in docs/envelope.md.
type recordLine struct {
	Pos    uint64    `json:"pos"`
	Client string    `json:"client"`
	Epoch  uint64    `json:"epoch"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`

	Attributes []journal.Attribute `json:"attributes,omitempty"`
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
	Trimmed   uint64    `json:"trimmed,omitempty"`
	Clock     time.Time `json:"clock,omitzero"`
	Highest   uint64    `json:"highest_epoch,omitempty"`
	Skipped   int64     `json:"skipped_ms,omitempty"`

	Reader     string `json:"reader,omitempty"`
	Share      uint16 `json:"share,omitempty"`
	Shares     uint16 `json:"shares,omitempty"`
	Number     string `json:"number,omitempty"` // that the reader has acknowledged
	Generation uint64 `json:"generation,omitempty"`
	Removed    bool   `json:"removed,omitempty"`
	Log        string `json:"log,omitempty"` // its identity
}

// lostLine is a line for envelopes that cannot be read.
type lostLine struct {
	Lost    uint64   `json:"lost"`
	Last    uint64   `json:"last"`
	File    string   `json:"file,omitempty"`
	Offset  int64    `json:"offset,omitempty"`
	Clients []string `json:"clients,omitempty"`
	Error   string   `json:"error,omitempty"`
}

type envelopeLine struct {
	Pos   uint64       `json:"pos"`
	Kind  string       `json:"kind"`
	Part  journal.Part `json:"part,omitempty"`
	Count int          `json:"count"`
	Bytes int          `json:"bytes"`
	Base  uint64       `json:"base"`
}

// errLost is wrapped by the error of a verb after it has written everything that can be
// read, and a line for each envelope that is lost.
var errLost = errors.New("envelopes of the log are lost")

// exportLines writes every entry from position from as JSON lines.
func exportLines(ctx context.Context, log journal.Reader, from uint64, w io.Writer) error {
	return eachLine(ctx, log, from, w, func(out *json.Encoder, pos uint64, _ []byte, e journal.Envelope) error {
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
		if to := e.Trimmed(); to > 0 {
			others = append(others, otherLine{Pos: pos, Trimmed: to})
		}
		for c := range e.Clocks() {
			others = append(others, otherLine{Pos: pos, Clock: jsonTime(c.Time), Highest: c.Highest, Skipped: c.Skipped})
		}
		for p := range e.Positions() {
			others = append(others, otherLine{
				Pos: pos, Reader: p.Name, Share: p.Share, Shares: p.Of, Number: commandline.FormatNumber(p.Number), Generation: p.Generation, Removed: p.Removed,
			})
		}
		if id, ok := e.Identity(); ok {
			others = append(others, otherLine{Pos: pos, Log: hex.EncodeToString(id[:])})
		}
		for _, line := range others {
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// inspectLines writes the header of each envelope from position from as JSON lines.
func inspectLines(ctx context.Context, log journal.Reader, from uint64, w io.Writer) error {
	return eachLine(ctx, log, from, w, func(out *json.Encoder, pos uint64, b []byte, e journal.Envelope) error {
		return out.Encode(envelopeLine{pos, e.Kind.String(), e.Part, e.Count, len(b), e.Base})
	})
}

func eachLine(ctx context.Context, log journal.Reader, from uint64, w io.Writer,
	each func(out *json.Encoder, pos uint64, b []byte, e journal.Envelope) error,
) error {
	buffered := bufio.NewWriter(w)
	out := json.NewEncoder(buffered)
	all := uint64(0)
	lost := func(d *journal.Damage) error {
		all += d.Last + 1 - d.First
		line := lostLine{Lost: d.First, Last: d.Last, File: d.File, Offset: d.Offset, Clients: d.Clients}
		if d.Err != nil {
			line.Error = d.Err.Error()
		}
		return out.Encode(line)
	}
	err := journal.ReadPast(ctx, log, from, func(pos uint64, b []byte) error {
		e, err := journal.Decode(b)
		if err != nil {
			return lost(&journal.Damage{First: pos, Last: pos, Err: err})
		}
		return each(out, pos, b, e)
	}, lost)
	if err == nil && all > 0 {
		err = fmt.Errorf("%w: %d of them; the lines with \"lost\" name them", errLost, all)
	}
	if flushed := buffered.Flush(); flushed != nil {
		err = flushed
	}
	return err
}

// jsonTime converts Unix milliseconds and clamps them to the years that JSON allows.
func jsonTime(ms int64) time.Time {
	const last = 253402300799999 // the end of the year 9999
	return time.UnixMilli(min(max(ms, 0), last)).UTC()
}
