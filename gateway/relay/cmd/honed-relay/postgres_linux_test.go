package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/internal/testrun"
)

// database is a PostgreSQL server of a test.
type database struct {
	t    testing.TB
	bin  string
	dir  string
	port string
	as   *syscall.SysProcAttr // PostgreSQL does not run as root
	run  *child
}

// newDatabase makes and starts a server.
func newDatabase(t testing.TB) *database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		testrun.Lacks(t, "NOT TESTED HERE: PostgreSQL is not installed; run make deps")
	}
	_, port, _ := net.SplitHostPort(testrun.FreeAddr(t))
	parent := t.TempDir()
	d := &database{t: t, bin: filepath.Dir(found[len(found)-1]), dir: filepath.Join(parent, "data"), port: port}
	if os.Getuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			testrun.Lacks(t, "NOT TESTED HERE: "+err.Error())
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		d.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		for dir := parent; dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && info.Mode()&1 == 0 {
				os.Chmod(dir, 0o755)
			}
		}
		os.Chown(parent, uid, gid)
	}
	empty.Do(func() { // it takes a second of CPU
		made := filepath.Join(parent, "made")
		out, err := d.command("initdb", "-D", made, "-U", "hone", "-A", "trust", "--no-sync").CombinedOutput()
		if empty.folder, empty.err = os.MkdirTemp("", "hone-postgres"); err != nil {
			empty.err = fmt.Errorf("%w\n%s", err, out)
		}
		empty.err = errors.Join(empty.err, exec.Command("cp", "-a", made, empty.folder).Run())
	})
	must(t, errors.Join(empty.err, exec.Command("cp", "-a", filepath.Join(empty.folder, "made"), d.dir).Run()))
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *database) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir = d.as, "/"
	return cmd
}

// start starts the server, again when it ends at once: after kill -9, its memory may not be free yet.
func (d *database) start() {
	d.t.Helper()
	for range 20 {
		// kill -9 loses nothing that was written; with fsync a start after it takes over a minute on a busy disk.
		cmd := d.command("postgres", "-D", d.dir, "-p", d.port, "-k", d.dir, "-h", "127.0.0.1", "-c", "fsync=off")
		cmd.WaitDelay = 5 * time.Second
		d.run = launch(d.t, io.Discard, cmd)
		ready := false
		eventually(d.t, "PostgreSQL's start", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, d.url())
			if ready = err == nil; ready {
				conn.Close(ctx)
			}
			return ready || d.run.isEnded()
		})
		if ready && !d.run.isEnded() {
			return
		}
		<-time.After(500 * time.Millisecond)
	}
	d.t.Fatal("PostgreSQL does not start: ", d.run.text())
}

// kill ends the server with kill -9, and the processes that it has started.
func (d *database) kill() {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.run.cmd.Process.Pid), "task", strconv.Itoa(d.run.cmd.Process.Pid), "children"))
	d.run.cmd.Process.Kill()
	for child := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(child); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	d.run.kill()
	eventually(d.t, "the end of PostgreSQL", func() bool {
		for child := range strings.FieldsSeq(string(text)) {
			if _, err := os.Stat("/proc/" + child + "/exe"); err == nil {
				return false
			}
		}
		return true
	})
	os.Remove(filepath.Join(d.dir, "postmaster.pid"))
}

func (d *database) url() string { return "postgres://hone@127.0.0.1:" + d.port + "/postgres" }

// ask returns a query's only value.
func (d *database) ask(query string, args ...any) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return err.Error()
	}
	defer conn.Close(ctx)
	var value string
	if err := conn.QueryRow(ctx, query, args...).Scan(&value); err != nil {
		return err.Error()
	}
	return value
}

func (d *database) must(statement string) {
	d.t.Helper()
	conn, err := pgx.Connect(soon(d.t), d.url())
	must(d.t, err)
	defer conn.Close(context.Background())
	works(d.t)(conn.Exec(soon(d.t), statement))
}

func (d *database) relay(addr, data string, more ...string) *child {
	d.t.Helper()
	return startRelay(d.t, io.Discard, addr, data, d.url(), append([]string{"--create-table", "--retry-time", "1s"}, more...)...)
}

// once checks that the table has a client's messages from 1 to n once each.
func (d *database) once(client string, n int) {
	d.t.Helper()
	got := d.ask(`select count(*) || ' ' || count(distinct seq) || ' ' || min(seq) || ' ' || max(seq) || ' ' || bool_and(data = convert_to('{"n":' || seq || '}', 'UTF8'))
		from hone_messages where client = $1`, client)
	if want := fmt.Sprintf("%d %d 1 %d true", n, n, n); got != want {
		d.t.Errorf("%s: the table has %s; want %s", client, got, want)
	}
}

// TestPostgresKills kills honed, the relay and PostgreSQL: each message is in the table once.
func TestPostgresKills(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	honed, addr, log, data := binary(t), testrun.FreeAddr(t), filepath.Join(t.TempDir(), "log"), t.TempDir()
	gw := startHoned(t, honed, addr, log)
	stop := steady(t, addr, "a")
	count := func() string { return d.ask("select count(*)::text from hone_messages") }
	for kill := range testrun.Sized(4, 30) {
		before := count()
		r := d.relay(addr, data, "--batch-messages", "200")
		eventually(t, "progress", func() bool { return count() != before })
		switch kill % 3 {
		case 0:
			gw.kill()
			gw = startHoned(t, honed, addr, log)
		case 1:
			d.kill()
			d.start()
		}
		r.kill()
	}
	n := stop()
	r := d.relay(addr, data)
	eventually(t, "the last message", func() bool { return count() == strconv.Itoa(n) })
	d.once("a", n)
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
}

// TestPostgresRestored: a database restored to a state before what honed's log still has is told the gap, and the
// relay stops. One that the log has everything for gets it again.
func TestPostgresRestored(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	up := newServer(t, time.Nanosecond)
	data := t.TempDir()
	submit(t, up.addr, "a", 100, numbered)
	r := d.relay(up.addr, data)
	count := func() string { return d.ask("select count(*)::text from hone_messages") }
	eventually(t, "100 messages", func() bool { return count() == "100" })
	r.stop()
	d.must("create table backup as table hone_messages; create table backup_positions as table hone_positions")
	restore := func() {
		d.must("truncate hone_messages, hone_positions; insert into hone_messages table backup; insert into hone_positions table backup_positions")
	}
	submit(t, up.addr, "b", 100, numbered)
	r = d.relay(up.addr, data)
	eventually(t, "200 messages", func() bool { return count() == "200" })
	r.stop()
	restore()
	r = d.relay(up.addr, data)
	eventually(t, "200 messages again", func() bool { return count() == "200" })
	r.stop()
	d.once("b", 100)

	restore()
	var p gateway.Position
	must(t, p.UnmarshalText([]byte(d.ask("select position from hone_positions"))))
	submit(t, up.addr, "large", 10, numbered)
	up.trimPast(p.Number >> 16)
	submit(t, up.addr, "c", 1, numbered)
	r = d.relay(up.addr, data)
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "missing: trimmed") || !strings.Contains(r.text(), "--accept-gaps") || count() != "100" {
		t.Errorf("%d, %s messages, %s", code, count(), r.text())
	}
	r = d.relay(up.addr, data, "--accept-gaps")
	eventually(t, "what is behind the gap", func() bool {
		return r.stats().Gaps == 1 && d.ask("select count(*)::text from hone_messages where client = 'c'") == "1"
	})
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
	// A gateway that was restored too does not have what the table has.
	other := newServer(t, 0)
	submit(t, other.addr, "a", 1, numbered)
	r = d.relay(other.addr, data)
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "start once with --anew") {
		t.Errorf("%d %s", code, r.text())
	}
	r = d.relay(other.addr, data, "--anew")
	eventually(t, "the other gateway's message", func() bool { return d.ask("select count(distinct log)::text from hone_messages") == "2" })
}

// TestPostgresPoison: what the table refuses goes to the dead-letter log, and comes into the table once it is retried.
func TestPostgresPoison(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	addr, data := newGateway(t), t.TempDir()
	bad := func(i int) string {
		if i == 50 || i == 51 {
			return "no JSON"
		}
		return numbered(i)
	}
	r := d.relay(addr, data, "--data-type", "jsonb")
	eventually(t, "the table", func() bool { return d.ask("select to_regclass('hone_messages')::text") == "hone_messages" })
	d.must(`alter table hone_messages add constraint rule check (client <> 'ruled' or seq <> 1);
		create function late() returns trigger language plpgsql as $$ begin raise exception 'too late'; end $$;
		create constraint trigger late after insert on hone_messages deferrable initially deferred for each row when (new.client = 'late')
			execute function late()`)
	submit(t, addr, "a", 100, bad)
	submit(t, addr, "ruled", 10, numbered)
	submit(t, addr, "late", 1, numbered)
	submit(t, addr, "b", 100, numbered)
	count := func(client string) string {
		return d.ask("select count(*)::text from hone_messages where client = $1", client)
	}
	eventually(t, "what is good", func() bool {
		return count("b") == "100" && count("a") == "49" && r.stats().Dead == 3 && r.stats().Waiting == 50+9
	})
	if dead := deadLines(t, data); !strings.Contains(dead[0].Reason, "invalid input syntax for type json") || !strings.Contains(dead[51].Reason, "23514") || !strings.Contains(dead[61].Reason, "too late") {
		t.Errorf("%+v, %+v", dead[0], dead[51])
	}
	d.must("alter table hone_messages alter column data type text")
	verb(t, data, "retry", "--client", "a")
	eventually(t, "the retried ones", func() bool { return count("a") == "100" })
	// The relay was killed after it had brought a letter into the table and before it had marked it: it comes once.
	l := deadLines(t, data)[0]
	at, err := number.Parse(l.Number)
	must(t, err)
	d.must(fmt.Sprintf(`alter table hone_messages drop constraint rule;
		insert into hone_messages (log, number, client, epoch, seq, time, data) select log, %d, 'ruled', 1, 1, now(), '{"n":1}' from hone_messages limit 1`, at))
	verb(t, data, "retry", l.Number)
	eventually(t, "the other letters", func() bool { return count("ruled") == "10" && r.stats().Dead == 1 && r.stats().Waiting == 0 })
	if code := r.stop(); code != commandline.OK {
		t.Error(r.text())
	}
}

// TestPostgresOvertaken: of two relays on one table, one stops.
func TestPostgresOvertaken(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	addr := newGateway(t)
	submit(t, addr, "a", 10, numbered)
	r := d.relay(addr, t.TempDir())
	count := func() string { return d.ask("select count(*)::text from hone_messages") }
	eventually(t, "10 messages", func() bool { return count() == "10" })
	var p gateway.Position
	must(t, p.UnmarshalText([]byte(d.ask("select position from hone_positions"))))
	p.Number++
	d.must("update hone_positions set position = '" + p.String() + "'")
	submit(t, addr, "a", 10, numbered)
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "another relay writes to it") || count() != "10" {
		t.Errorf("%d, %s messages, %s", code, count(), r.text())
	}
	r = startRelay(t, nil, addr, t.TempDir(), d.url(), "--table", "nowhere.messages")
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "--create-table") {
		t.Errorf("%d %s", code, r.text())
	}
	for to, says := range map[string]string{
		d.url() + "_none": `FATAL: database "postgres_none" does not exist (SQLSTATE 3D000)`,
		strings.Replace(d.url(), "hone@", "nobody@", 1): `FATAL: role "nobody" does not exist (SQLSTATE 28000)`,
	} {
		r := startRelay(t, nil, addr, t.TempDir(), to)
		if code := r.exit(); code != commandline.Failed || !strings.HasSuffix(r.text(), "\nhoned-relay: PostgreSQL: "+says+"\n") {
			t.Errorf("%d %s; want %s", code, r.text(), says)
		}
	}
}

// TestPostgresUnknownCommit: the connection is lost after a commit and before its answer. The next attempt finds out.
func TestPostgresUnknownCommit(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config, err := pgx.ParseConfig(d.url())
	must(t, err)
	p := &postgres{config: config, table: pgx.Identifier{"hone_messages"}, create: true, dataType: "bytea", reader: "r", shares: 1}
	defer func() { p.close() }()
	if own, err := p.open(soon(t)); err != nil || own != nil {
		t.Fatal(own, err)
	}
	for number := uint64(1); number < 4; number++ {
		b := &batch{messages: []message{letterOf(number, pending, []byte("x"))}, position: gateway.Position{Number: number}}
		must(t, p.write(soon(t), b, b.pending()))
		if before := p.stored; number == 2 {
			must(t, p.commit(soon(t), b))
			p.close()
			p.stored, b.messages[0].state = before, pending
			must(t, p.write(soon(t), b, b.pending()))
		}
		if err := p.commit(soon(t), b); err != nil || len(b.pending()) > 0 {
			t.Fatal(err, b.pending())
		}
	}
	if got := d.ask("select string_agg(number::text, ' ' order by number) from hone_messages"); got != "1 2 3" {
		t.Error(got)
	}
}
