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
	"time"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/gateway/journal"
)

// entryLine and lostLine are the lines documented in docs/log-format.md, besides commandline.RecordLine. entryLine is any
// entry but a record.
type entryLine struct {
	Pos uint64 `json:"pos"`

	// A session state has a client, a forgetting the name of another one.
	Client      string    `json:"client,omitempty"`
	Forgotten   string    `json:"forgotten,omitempty"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Last        *uint64   `json:"last,omitempty"`
	RecordsLost bool      `json:"records_lost,omitempty"`
	Claimed     time.Time `json:"claimed,omitzero"`
	Seen        time.Time `json:"seen,omitzero"`
	Sum         *uint32   `json:"sum,omitempty"`
	Instance    uint64    `json:"instance,omitempty"`

	Producer string  `json:"producer,omitempty"` // of a client, at an epoch
	Seq      *uint64 `json:"seq,omitempty"`      // of its newest post

	Packets  []uint16 `json:"packets,omitempty"` // ids of messages of a client
	Released bool     `json:"released,omitempty"`

	Tombstone uint64    `json:"tombstone,omitempty"`
	Trimmed   uint64    `json:"trimmed,omitempty"`
	Clock     time.Time `json:"clock,omitzero"`
	Highest   uint64    `json:"highest_epoch,omitempty"`
	Running   int64     `json:"running_ms,omitempty"`
	Since     uint64    `json:"since,omitempty"` // position at which time started again

	Reader     string `json:"reader,omitempty"`
	Share      uint16 `json:"share,omitempty"`
	Shares     uint16 `json:"shares,omitempty"`
	Number     string `json:"number,omitempty"` // that the reader has acknowledged
	Generation uint64 `json:"generation,omitempty"`
	Removed    bool   `json:"removed,omitempty"`
	Log        string `json:"log,omitempty"` // its identity
}

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
			line.Pos = pos
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
func entriesOf(e journal.Envelope) (all []entryLine) {
	for s := range e.States() {
		line := entryLine{Client: s.Client, Epoch: s.Epoch, Last: &s.Last, RecordsLost: s.RecordsLost, Instance: s.Instance}
		if s.Claim {
			line.Claimed = commandline.JSONTime(s.Seen)
		} else {
			line.Seen = commandline.JSONTime(s.Seen)
		}
		if s.Summed {
			line.Sum = &s.Sum
		}
		all = append(all, line)
	}
	for p := range e.Producers() {
		all = append(all, entryLine{Client: p.Client, Producer: p.ID, Epoch: p.Epoch, Seq: &p.Seq, Seen: commandline.JSONTime(p.Seen)})
	}
	e.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		all = append(all, entryLine{Client: client, Epoch: epoch, Packets: slices.Sorted(maps.Keys(seqs)), Released: released})
	})
	for f := range e.Forgettings() {
		all = append(all, entryLine{Forgotten: f.Client, Epoch: f.Epoch})
	}
	for lost := range e.Tombstones() {
		all = append(all, entryLine{Tombstone: lost})
	}
	if to := e.Trimmed(); to > 0 {
		all = append(all, entryLine{Trimmed: to})
	}
	for c := range e.Clocks() {
		all = append(all, entryLine{Clock: commandline.JSONTime(c.Time), Highest: c.Highest, Running: c.Running, Since: c.Since})
	}
	for p := range e.Positions() {
		at := number.Format(p.Number)
		all = append(all, entryLine{Reader: p.Name, Share: p.Share, Shares: p.Of, Number: at, Generation: p.Generation, Removed: p.Removed})
	}
	if id, ok := e.Identity(); ok {
		all = append(all, entryLine{Log: hex.EncodeToString(id[:])})
	}
	return all
}
