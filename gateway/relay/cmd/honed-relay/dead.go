package main

import (
	"cmp"
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// deadLog is the dead-letter log: the messages that the destination refused, with the reason, and those that
// wait behind them. It is a journal of its own. What an append has stored is on the disk.
type deadLog struct {
	most   int // letters
	logger *slog.Logger

	mu      sync.Mutex
	log     *journal.Segments
	index   deadIndex
	damaged int       // places
	changed func()    // an operator has decided something; nil: nobody is told
	trimmed time.Time // when
}

// letterKey identifies a letter.
type letterKey struct {
	log    [16]byte
	number uint64
}

// letter is a message in the log that is neither delivered nor dropped.
type letter struct {
	letterKey
	client string
	state  state
	since  time.Time // of the state
	reason string    // why it was refused
	pos    uint64    // of its message in the dead-letter log
}

// The data of every record in the log begins with what happened to a message: the state, the log and the number of the message,
// the time, the length of the reason, the reason. A record of the message itself has the message's data behind that; one that
// only changes the state of a letter has epoch 0.
const (
	entryHead     = 1 + 16 + 8 + 8 + 2
	longestReason = 800 // so that the largest message of a gateway fits
)

// entry returns what the data of a record about the letter begins with.
func (l *letter) entry() []byte {
	reason := strings.ToValidUTF8(l.reason[:min(len(l.reason), longestReason)], "?")
	b := append([]byte{byte(l.state)}, l.log[:]...)
	b = endian.BigEndian.AppendUint64(endian.BigEndian.AppendUint64(b, l.number), uint64(l.since.UnixMilli()))
	return append(endian.BigEndian.AppendUint16(b, uint16(len(reason))), reason...)
}

// letterIn returns the letter that a record is about, and takes what says so from the record's data.
func letterIn(pos uint64, r *journal.Record) (*letter, error) {
	b := r.Data
	if len(b) < entryHead || len(b) < entryHead+int(endian.BigEndian.Uint16(b[33:])) || b[0] < byte(done) || b[0] > byte(dropped) {
		return nil, fmt.Errorf("the dead-letter log has a record at position %d that this version does not know", pos)
	}
	end := entryHead + int(endian.BigEndian.Uint16(b[33:]))
	r.Data = b[end:]
	return &letter{
		letterKey: letterKey{[16]byte(b[1:]), endian.BigEndian.Uint64(b[17:])}, client: r.Client, state: state(b[0]),
		since: time.UnixMilli(int64(endian.BigEndian.Uint64(b[25:]))), reason: string(b[entryHead:end]), pos: pos,
	}, nil
}

// deadIndex is what the log contains: the letters by key, all and those of each client in their order.
type deadIndex struct {
	letters map[letterKey]*letter
	clients map[string][]*letter
	order   []*letter // and up to as many again that are delivered or dropped
	refused int       // how many of the letters are refused
	queued  int       // and how many are retried or waiting
}

// openDead opens the dead-letter log of a folder, for this process alone. What is damaged is named and read past: to
// stop would not bring it back, and would keep everything else.
func openDead(ctx context.Context, folder string, most int, bytes int64, logger *slog.Logger) (*deadLog, error) {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	whatever := journal.Range{First: 1, Last: math.MaxUint64}
	log, err := journal.OpenSegments(folder, journal.SegmentsOptions{MaxBytes: bytes, AcceptLoss: whatever, Logger: logger})
	if err != nil {
		return nil, err
	}
	d := &deadLog{most: most, log: log, logger: logger}
	err = d.read(ctx)
	if err == nil && d.damaged > 0 { // others cannot read past damage at the end, so an entry that says nothing follows it
		w := deadWriter{d: d, ctx: ctx, now: time.Now(), store: log.AppendReserved}
		err = w.mark(&letter{client: "-"}, done, "")
		if full := w.flush(); !errors.Is(full, journal.ErrNoSpace) {
			err = errors.Join(err, full)
		}
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return d, nil
}

// read makes the index, without what is damaged.
func (d *deadLog) read(ctx context.Context) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.damaged = 0
	d.index, err = readDead(ctx, d.log, func(err error) {
		d.damaged++
		d.logger.Error("the dead-letter log is damaged; messages in it are lost", "err", err)
	})
	return err
}

// readDead reads a dead-letter log. It calls lost for what is damaged.
func readDead(ctx context.Context, log journal.Reader, lost func(error)) (deadIndex, error) {
	var x deadIndex
	begin := func() { x = deadIndex{letters: map[letterKey]*letter{}, clients: map[string][]*letter{}} }
	err := walk(ctx, log, 0, begin, lost, func(l *letter, r *journal.Record) error {
		if r.Epoch > 0 {
			x.add(l)
		} else {
			x.set(x.letters[l.letterKey], l.state, l.reason, l.since)
		}
		return nil
	})
	return x, err
}

// walk calls begin, and each for the records of a log, and lost for what is damaged. A record is valid until each returns. If
// a relay trims the log meanwhile, walk begins again with what is left: nobody needs what precedes it.
func walk(ctx context.Context, log journal.Reader, from uint64, begin func(), lost func(error), each func(*letter, *journal.Record) error) error {
	begin()
	err := journal.ReadPast(ctx, log, from, func(pos uint64, envelope []byte) error {
		decoded, err := journal.Decode(envelope)
		for r := range decoded.Records() {
			var l *letter
			if l, err = letterIn(pos, &r); err == nil {
				err = each(l, &r)
			}
			if err != nil {
				return err
			}
		}
		return err
	}, func(d *journal.Damage) error { lost(d); return nil })
	if trimmed, is := errors.AsType[*journal.TrimmedError](err); is && trimmed.First > from {
		return walk(ctx, log, trimmed.First, begin, lost, each)
	}
	return err
}

// count adds n to the number of the letters in a letter's state.
func (x *deadIndex) count(l *letter, n int) {
	switch l.state {
	case refused:
		x.refused += n
	case waiting, retried:
		x.queued += n
	}
}

func (x *deadIndex) add(l *letter) {
	x.letters[l.letterKey] = l
	x.clients[l.client] = append(x.clients[l.client], l)
	x.order = append(x.order, l)
	x.count(l, 1)
}

// set changes the state of a letter, if there is one, and forgets it once it is delivered or dropped.
func (x *deadIndex) set(l *letter, s state, reason string, since time.Time) {
	if l == nil || x.letters[l.letterKey] != l {
		return
	}
	x.count(l, -1)
	l.state, l.reason, l.since = s, reason, since
	x.count(l, 1)
	if s != done && s != dropped {
		return
	}
	delete(x.letters, l.letterKey)
	if len(x.order) > 2*len(x.letters) {
		x.order = x.sorted()
	}
	rest := x.clients[l.client]
	if rest[0] == l { // usually: the others need not move
		rest = rest[1:]
	} else {
		rest = slices.DeleteFunc(rest, func(other *letter) bool { return other == l })
	}
	if x.clients[l.client] = rest; len(rest) == 0 {
		delete(x.clients, l.client)
	}
}

// admit says of a message that has come from the gateway whether it is in the log already, or has to wait.
func (d *deadLog) admit(m *message, passOn bool) (known, waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known = d.index.letters[letterKey{m.log, m.Number}]; known {
		return true, false
	}
	letters := d.index.clients[m.Client]
	if len(letters) == 0 || passOn {
		return false, false
	}
	first := letters[0] // what precedes it comes again, after a crash
	return false, first.log != m.log || first.number < m.Number
}

// counts returns how many letters are refused, how many wait or are being retried, and how many damaged places the log
// has.
func (d *deadLog) counts() (refused, queued, damaged int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.index.refused, d.index.queued, d.damaged
}

// keep stores the refused and waiting messages of a batch, and those that a retry has delivered as done.
func (d *deadLog) keep(ctx context.Context, b *batch) (added int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := deadWriter{d: d, ctx: ctx, now: time.Now(), store: d.log.Append}
	if b.redelivers { // it only changes letters: at a limit too, since it makes room, and what is delivered does not come again
		w.store = d.log.AppendReserved
	}
	for i := range b.messages {
		m := &b.messages[i]
		l := d.index.letters[letterKey{m.log, m.Number}]
		switch {
		case b.redelivers && l != nil && (m.state == refused || m.state == done):
			err = w.mark(l, m.state, m.reason)
		case !b.redelivers && l == nil && (m.state == refused || m.state == waiting):
			added++
			err = w.letter(m)
		}
		if err != nil {
			return 0, err
		}
	}
	return added, w.flush()
}

// deadWriter appends records, many in an envelope. The index follows each append. d.mu is held.
type deadWriter struct {
	d     *deadLog
	ctx   context.Context
	now   time.Time
	e     journal.Encoder
	store func(context.Context, []byte) (pos uint64, err error)
	then  []func(pos uint64) // what the envelope changes in the index
}

// usualEnvelope is the size from which on an envelope is stored.
const usualEnvelope = 256 << 10

func (w *deadWriter) letter(m *message) error {
	if len(w.d.index.letters)+len(w.then) >= w.d.most {
		return fmt.Errorf("the dead-letter log has %d messages, which is its limit; type: honed-relay dead list, then retry or drop them, "+
			"or start with a higher --dead-messages", w.d.most)
	}
	l := &letter{letterKey: letterKey{m.log, m.Number}, client: m.Client, state: m.state, reason: m.reason, since: w.now}
	return w.add(l, m.Record, func(pos uint64) {
		l.pos = pos
		w.d.index.add(l)
	})
}

func (w *deadWriter) mark(l *letter, s state, reason string) error {
	now := &letter{letterKey: l.letterKey, state: s, reason: reason, since: w.now}
	return w.add(now, journal.Record{Client: l.client, Time: w.now.UnixMilli()}, func(uint64) { w.d.index.set(l, s, reason, w.now) })
}

// add adds a record about a letter, to the next envelope if this one would be large.
func (w *deadWriter) add(l *letter, r journal.Record, then func(pos uint64)) error {
	r.Data = append(l.entry(), r.Data...)
	if len(w.then) > 0 && w.e.Size()+len(r.Data) > usualEnvelope {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.then) == 0 {
		w.e.Begin(0)
	}
	w.then = append(w.then, then)
	return w.e.Record(&r)
}

// flush stores what was added.
func (w *deadWriter) flush() error {
	if len(w.then) == 0 {
		return nil
	}
	envelope := w.e.Bytes()
	pos, err := w.store(w.ctx, envelope)
	if errors.Is(err, journal.ErrNoSpace) { // what is delivered or dropped makes room
		if err := w.d.shorten(w.ctx); err != nil {
			return err
		}
		pos, err = w.store(w.ctx, envelope)
	}
	if err != nil {
		return fmt.Errorf("the dead-letter log: %w", err)
	}
	for _, then := range w.then {
		then(pos)
	}
	w.then = nil
	return nil
}

// due returns up to most letters that are to be delivered: for each client the oldest ones, up to one
// that is refused. They are the first ones of the log, so that load reads only as far as it must.
func (d *deadLog) due(most int, passOn bool) (all []*letter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.index.queued == 0 {
		return nil
	}
	held := map[string]bool{}
	for l := range d.index.all() {
		switch {
		case len(all) == most:
			return all
		case l.state == refused:
			held[l.client] = !passOn
		case !held[l.client]:
			all = append(all, l)
		}
	}
	return all
}

// load reads letters' messages, in the order of the dead-letter log. Those that were trimmed or lost are left out.
func load(ctx context.Context, log journal.Reader, letters []*letter) ([]message, error) {
	if len(letters) == 0 {
		return nil, nil
	}
	wanted := map[letterKey]bool{}
	first := letters[0].pos
	for _, l := range letters {
		wanted[l.letterKey], first = true, min(first, l.pos)
	}
	all, enough := []message(nil), errors.New("enough")
	err := walk(ctx, log, first, func() {}, func(error) {}, func(l *letter, r *journal.Record) error {
		if r.Epoch == 0 || !wanted[l.letterKey] {
			return nil
		}
		delete(wanted, l.letterKey)
		loaded := message{log: l.log}
		loaded.Number, loaded.Record = l.number, cloned(*r)
		if all = append(all, loaded); len(wanted) == 0 {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, fmt.Errorf("the dead-letter log: %w", err)
	}
	return all, nil
}

func cloned(r journal.Record) journal.Record {
	r.Data = slices.Clone(r.Data)
	for i := range r.Attributes {
		r.Attributes[i].Value = slices.Clone(r.Attributes[i].Value)
	}
	return r
}

// trim calls shorten at most once a minute.
func (d *deadLog) trim(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.trimmed) < time.Minute {
		return nil
	}
	return d.shorten(ctx)
}

// shorten deletes what the log begins with and nobody needs. d.mu is held.
func (d *deadLog) shorten(ctx context.Context) error {
	_, next, err := d.log.Bounds()
	if err != nil {
		return err
	}
	for l := range d.index.all() {
		next = min(next, l.pos)
		break
	}
	d.trimmed = time.Now()
	return d.log.Trim(ctx, next)
}

func (d *deadLog) close() error { return d.log.Close() }

func (x *deadIndex) all() iter.Seq[*letter] {
	return func(yield func(*letter) bool) {
		for _, l := range x.order {
			if l.state != done && l.state != dropped && !yield(l) {
				return
			}
		}
	}
}

func (x *deadIndex) sorted() []*letter { return slices.Collect(x.all()) }
