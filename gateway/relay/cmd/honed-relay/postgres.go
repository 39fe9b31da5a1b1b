package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
)

// postgres writes messages and the relay's position in one transaction. Each message is in the table once,
// whatever is killed when.
type postgres struct {
	config   *pgx.ConnConfig
	table    pgx.Identifier
	create   bool
	dataType string
	reader   string
	share    int
	shares   int
	anew     bool // begin at --start, whatever the table of positions has

	conn     *pgx.Conn // nil: connect first
	tx       pgx.Tx    // from write to commit; nil: there is nothing to commit
	verified bool      // the tables are as needed
	stored   string    // the position in the table, as text; empty: there is none
}

const pgUndefinedTable = "42P01"

// columns are those that the relay fills. docs/relay.md describes the table.
func columns() []string {
	return []string{"log", "number", "client", "epoch", "seq", "time", "topic", "content_type", "attributes", "data"}
}

func (p *postgres) tables() (messages, positions string) {
	at := append(append(pgx.Identifier{}, p.table[:len(p.table)-1]...), "hone_positions")
	return p.table.Sanitize(), at.Sanitize()
}

// open connects and returns the position in the table.
func (p *postgres) open(ctx context.Context) (own *gateway.Position, err error) {
	if err := p.connect(ctx); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && strings.Contains("3D 3F 28 42", pg.Code[:2]) { // no such database, schema, user or table
			hint := ""
			if pg.Code == pgUndefinedTable {
				hint = "; --create-table creates the tables, and docs/relay.md describes them"
			}
			err = finalError{fmt.Errorf("PostgreSQL: %w%s", pg, hint)} // err has a line for each attempt, with and without TLS
		}
		return nil, err
	}
	if p.stored == "" || p.anew {
		return nil, nil
	}
	own = new(gateway.Position)
	if err := own.UnmarshalText([]byte(p.stored)); err != nil {
		return nil, finalError{err}
	}
	return own, nil
}

func (p *postgres) connect(ctx context.Context) (err error) {
	if p.conn, err = pgx.ConnectConfig(ctx, p.config); err != nil {
		p.conn = nil
		return err
	}
	if err = p.prepare(ctx); err != nil {
		p.close()
	}
	return err
}

func (p *postgres) prepare(ctx context.Context) error {
	messages, positions := p.tables()
	if p.create && !p.verified {
		_, err := p.conn.Exec(ctx, fmt.Sprintf(`
			create table if not exists %s (log uuid not null, number bigint not null, client text not null, epoch bigint not null,
				seq bigint not null, time timestamptz not null, topic text, content_type text, attributes jsonb, data %s not null, primary key (log, number));
			create table if not exists %s (reader text not null, share int not null, shares int not null, position text not null,
				changed timestamptz not null default now(), primary key (reader, share, shares))`, messages, p.dataType, positions))
		if err != nil {
			return err
		}
	}
	if _, err := p.conn.Prepare(ctx, "message", fmt.Sprintf("insert into %s (%s) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (log, number) do nothing",
		messages, strings.Join(columns(), ", "))); err != nil {
		return err
	}
	p.verified, p.stored = true, ""
	err := p.conn.QueryRow(ctx, "select position from "+positions+" where reader = $1 and share = $2 and shares = $3",
		p.reader, p.share, p.shares).Scan(&p.stored)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return err
}

// begin begins the transaction of a batch, unless it has begun, and moves the position in it. It reports whether the table has the batch: the outcome of its
// commit was unknown.
func (p *postgres) begin(ctx context.Context, b *batch) (committed bool, err error) {
	if p.tx != nil {
		return false, nil
	}
	if before := p.stored; p.conn == nil {
		if err := p.connect(ctx); err != nil {
			return false, err
		}
		switch {
		case !b.redelivers && p.stored == b.position.String():
			b.done(b.pending()...)
			return true, nil
		case p.stored != before:
			return false, p.overtaken(before)
		}
	}
	if p.tx, err = p.conn.Begin(ctx); err != nil {
		return false, err
	}
	if _, err = p.tx.Exec(ctx, "set constraints all immediate"); err == nil && !b.redelivers {
		err = p.move(ctx, b.position.String())
	}
	return false, err
}

// move changes the position, if the table has the one that it should have.
func (p *postgres) move(ctx context.Context, to string) error {
	_, positions := p.tables()
	text, args := "update "+positions+" set position = $4, changed = now() where reader = $1 and share = $2 and shares = $3 and position = $5",
		[]any{p.reader, p.share, p.shares, to, p.stored}
	if p.stored == "" {
		text, args = "insert into "+positions+" (reader, share, shares, position) values ($1, $2, $3, $4) on conflict do nothing", args[:4]
	}
	changed, err := p.tx.Exec(ctx, text, args...)
	if err == nil && changed.RowsAffected() != 1 {
		err = p.overtaken(p.stored)
	}
	return err
}

func (p *postgres) overtaken(before string) error {
	_, positions := p.tables()
	return finalError{fmt.Errorf("%s no longer has the position %q of reader %s: another relay writes to it, or it was restored; start again "+
		"when no other relay runs", positions, before, p.reader)}
}

// write inserts some messages, all or none, and leaves the transaction open for commit.
func (p *postgres) write(ctx context.Context, b *batch, at []int) error {
	for _, i := range at {
		if m := &b.messages[i]; int64(m.Epoch|m.Seq|m.Number) < 0 {
			return refusal{"its epoch, sequence number or number does not fit into a bigint"}
		}
	}
	if committed, err := p.begin(ctx, b); err != nil || committed {
		return err
	}
	savepoint, err := p.tx.Begin(ctx)
	if err != nil {
		return err
	}
	if len(at) == 1 { // also one that is there already, which COPY does not take
		_, err = savepoint.Exec(ctx, "message", b.messages[at[0]].row()...)
	} else {
		rows := pgx.CopyFromSlice(len(at), func(i int) ([]any, error) { return b.messages[at[i]].row(), nil })
		_, err = savepoint.CopyFrom(ctx, p.table, columns(), rows)
	}
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return savepoint.Commit(ctx)
	case errors.As(err, &pg) && strings.Contains("22 23 54 P0", pg.Code[:2]): // wrong data, a constraint, a limit, a trigger's exception
		return errors.Join(refusal{err.Error()}, savepoint.Rollback(ctx))
	}
	return err
}

func (m *message) row() []any {
	line, attributes := commandline.Line(&m.Record), []byte(nil)
	if len(line.Attributes) > 0 {
		attributes, _ = json.Marshal(line.Attributes) // numbers and bytes
	}
	return []any{
		[16]byte(m.log), int64(m.Number), m.Client, int64(m.Epoch), int64(m.Seq), line.Time,
		orNull(line.Topic), orNull(line.Type), attributes, m.Data,
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (p *postgres) commit(ctx context.Context, b *batch) error {
	if committed, err := p.begin(ctx, b); err != nil || committed {
		return err
	}
	if err := p.tx.Commit(ctx); err != nil {
		return err
	}
	if p.tx = nil; !b.redelivers {
		p.stored = b.position.String()
	}
	b.done(b.pending()...)
	return nil
}

// close closes the connection, which rolls back.
func (p *postgres) close() {
	if p.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.conn.Close(ctx)
	}
	p.conn, p.tx = nil, nil
}
