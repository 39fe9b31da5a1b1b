package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// recordLine, stateLine and envelopeLine are the lines documented in docs/envelope.md.
type recordLine struct {
	Pos    uint64    `json:"pos"`
	Client string    `json:"client"`
	Epoch  uint64    `json:"epoch"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`
}

type stateLine struct {
	Pos     uint64    `json:"pos"`
	Client  string    `json:"client"`
	Epoch   uint64    `json:"epoch"`
	Last    uint64    `json:"last"`
	Expiry  time.Time `json:"expiry,omitzero"`
	Claimed time.Time `json:"claimed,omitzero"`
}

type envelopeLine struct {
	Pos   uint64 `json:"pos"`
	Kind  string `json:"kind"`
	Part  Part   `json:"part,omitempty"`
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`
	Base  uint64 `json:"base"`
}

// Export writes every record and client state from position from as JSON lines.
func Export(ctx context.Context, log Log, from uint64, w io.Writer) error {
	return lines(ctx, log, from, w, func(out *json.Encoder, pos uint64, _ []byte, e Envelope) error {
		for r := range e.Records() {
			if err := out.Encode(recordLine{pos, r.Client, r.Epoch, r.Seq, jsonTime(r.Time), r.Data}); err != nil {
				return err
			}
		}
		for s := range e.States() {
			line := stateLine{Pos: pos, Client: s.Client, Epoch: s.Epoch, Last: s.Last}
			if s.Expiry < 0 {
				line.Claimed = jsonTime(-s.Expiry)
			} else {
				line.Expiry = jsonTime(s.Expiry)
			}
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
