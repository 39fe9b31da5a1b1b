package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/gateway/journal"
)

// The lines are documented in docs/log-format.md.

// lostLine is for envelopes that cannot be read.
type lostLine struct {
	Lost    uint64   `json:"lost"`
	Last    uint64   `json:"last"`
	File    string   `json:"file,omitempty"`
	Offset  int64    `json:"offset,omitempty"`
	Clients []string `json:"clients,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// errLost is wrapped by the error of a verb after it has written everything that can be
// read, and a line for each envelope that is lost.
var errLost = errors.New("envelopes of the log are lost")

// exportLines writes every entry from position from as JSON lines.
func exportLines(ctx context.Context, log journal.Reader, from uint64, w io.Writer) error {
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
	first, _, err := log.Bounds()
	if err == nil && from > 0 && from < first {
		err = &journal.TrimmedError{First: first}
	}
	if err != nil {
		return err
	}
	err = journal.ReadKept(ctx, log, from, func(pos uint64, b []byte) error {
		e, err := journal.DecodeAt(pos, b)
		if err != nil {
			return err
		}
		for r := range e.Records() {
			line := commandline.Line(&r)
			line.Pos = pos
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		for _, line := range entriesOf(e) {
			line["pos"] = pos
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}, lost)
	if err == nil && all > 0 {
		err = fmt.Errorf("%w: %d of them; the lines with \"lost\" name them", errLost, all)
	}
	if flushed := buffered.Flush(); flushed != nil {
		err = flushed
	}
	return err
}

// entriesOf returns the lines for an envelope's entries other than records.
func entriesOf(e journal.Envelope) (all []map[string]any) {
	add := func(line map[string]any) { all = append(all, line) }
	for s := range e.States() {
		line := map[string]any{"client": s.Client, "epoch": s.Epoch, "last": s.Last, "records_lost": s.RecordsLost, "instance": s.Instance}
		line[map[bool]string{true: "claimed", false: "seen"}[s.Claim]] = commandline.JSONTime(s.Seen)
		if s.Summed {
			line["sum"] = s.Sum
		}
		add(line)
	}
	for p := range e.Producers() {
		add(map[string]any{"client": p.Client, "producer": p.ID, "epoch": p.Epoch, "seq": p.Seq, "seen": commandline.JSONTime(p.Seen)})
	}
	e.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		add(map[string]any{"client": client, "epoch": epoch, "packets": slices.Sorted(maps.Keys(seqs)), "released": released})
	})
	for f := range e.Forgettings() {
		add(map[string]any{"forgotten": f.Client, "epoch": f.Epoch})
	}
	for lost := range e.Tombstones() {
		add(map[string]any{"tombstone": lost})
	}
	if to := e.Trimmed(); to > 0 {
		add(map[string]any{"trimmed": to})
	}
	for c := range e.Clocks() {
		add(map[string]any{"clock": commandline.JSONTime(c.Time), "highest_epoch": c.Highest, "running_ms": c.Running, "since": c.Since})
	}
	for p := range e.Positions() {
		add(map[string]any{
			"reader": p.Name, "share": p.Share, "shares": p.Of, "number": number.Format(p.Number), "generation": p.Generation, "removed": p.Removed,
		})
	}
	if id, ok := e.Identity(); ok {
		add(map[string]any{"log": hex.EncodeToString(id[:])})
	}
	return all
}
