package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
)

// line is a message as JSON.
type line = commandline.RecordLine

// key identifies a message whichever relay sends it, and however often.
func (m *message) key() string { return fmt.Sprintf("%s/%d/%d", m.Client, m.Epoch, m.Seq) }

func (m *message) line() line {
	l := commandline.Line(&m.Record)
	l.Key, l.Number = m.key(), number.Format(m.Number)
	return l
}

// appendLines writes messages as lines of JSON.
func (b *batch) appendLines(to *bytes.Buffer, at []int) {
	encode := json.NewEncoder(to)
	encode.SetEscapeHTML(false)
	for _, i := range at {
		encode.Encode(b.messages[i].line()) // a line has nothing that cannot be encoded
	}
}

// printer is standard output as a sink. It refuses nothing.
type printer struct {
	to  io.Writer
	buf bytes.Buffer
}

func (p *printer) open(context.Context) (*gateway.Position, error) { return nil, nil }

func (p *printer) write(_ context.Context, b *batch, at []int) error {
	p.buf.Reset()
	b.appendLines(&p.buf, at)
	if _, err := p.to.Write(p.buf.Bytes()); err != nil {
		return finalError{fmt.Errorf("standard output: %w", err)} // part of a line may be out
	}
	b.done(at...)
	return nil
}

func (p *printer) commit(context.Context, *batch) error { return nil }

func (p *printer) close() {}
