package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

func openTestDead(t *testing.T, dir string) *deadLog {
	t.Helper()
	d, err := openDead(t.Context(), dir, 100, 0, nil)
	must(t, err)
	return d
}

// letterOf makes a message of client c with data, as the sink has left it.
func letterOf(number uint64, s state, data []byte) message {
	m := message{state: s, reason: "why"}
	m.Number = number
	m.Record = journal.Record{Client: "c", Epoch: 1, Seq: number, Time: 5, Data: data, Attributes: []journal.Attribute{{Kind: journal.Topic, Value: []byte("topic")}}}
	return m
}

// TestDeadLog: what was kept is there after the log is opened again, the largest message too.
func TestDeadLog(t *testing.T) {
	dir := t.TempDir()
	d := openTestDead(t, dir)
	large := bytes.Repeat([]byte("x"), journal.MaxEnvelope-1024-13) // the largest that a gateway takes
	b := &batch{messages: []message{letterOf(1, refused, []byte("a")), letterOf(2, done, nil), letterOf(3, waiting, large), letterOf(4, waiting, []byte("b"))}}
	b.messages[2].reason = strings.Repeat("€", longestReason) // which is cut off in the middle of one
	for range 2 {                                             // the second time, all are known
		works(t)(d.keep(t.Context(), b))
	}
	check := func(want int) {
		t.Helper()
		if refused, queued, _ := d.counts(); refused != 1 || queued != 2 {
			t.Fatal(refused, queued)
		}
		loaded, err := load(t.Context(), d.log, d.index.sorted())
		if err != nil || len(loaded) != want {
			t.Fatal(len(loaded), err)
		}
		for i, data := range [][]byte{[]byte("a"), large, []byte("b")} {
			if m := loaded[i]; !bytes.Equal(m.Data, data) || m.Client != "c" || string(m.Attributes[0].Value) != "topic" || m.Time != 5 {
				t.Errorf("%d: %d bytes of %s", i, len(m.Data), m.Client)
			}
		}
	}
	check(3)
	full := &batch{messages: []message{letterOf(5, refused, nil)}}
	d.most = 3
	if _, err := d.keep(t.Context(), full); !strings.Contains(fmt.Sprint(err), "has 3 messages, which is its limit") {
		t.Errorf("one letter too many: %v", err)
	}
	if due := d.due(10, false); len(due) != 0 {
		t.Errorf("%d letters go past a refused one", len(due))
	}
	if due := d.due(10, true); len(due) != 2 {
		t.Errorf("%d letters go past a refused one that does not hold them up", len(due))
	}
	if due := d.due(1, true); len(due) != 1 || due[0].number != 3 {
		t.Errorf("%d letters are the next one", len(due))
	}
	d.close()
	d = openTestDead(t, dir)
	check(3)
	d.close()
}

// TestDeadLogOrder: the letters that are delivered next are the first ones of the log, whosever they are.
func TestDeadLogOrder(t *testing.T) {
	d := openTestDead(t, t.TempDir())
	defer d.close()
	for number := range uint64(60) {
		m := letterOf(number, waiting, nil)
		m.Client = string(rune('a' + number%20))
		works(t)(d.keep(t.Context(), &batch{messages: []message{m}}))
	}
	for next := uint64(0); next < 60; {
		due := d.due(25, false)
		if cap(due) > 2*25 {
			t.Fatalf("room for %d letters was needed to find 25", cap(due))
		}
		b := &batch{redelivers: true}
		for _, l := range due {
			if l.number != next {
				t.Fatalf("%d is due instead of %d", l.number, next)
			}
			m := letterOf(l.number, done, nil)
			b.messages = append(b.messages, m)
			next++
		}
		if _, err := d.keep(t.Context(), b); err != nil || len(due) == 0 {
			t.Fatal(len(due), err)
		}
	}
	if _, queued, _ := d.counts(); queued != 0 || len(d.index.clients) != 0 {
		t.Errorf("%d letters are left", queued)
	}
}

// TestDeadLogTrim: the log does not grow for ever, and keeps what is needed.
func TestDeadLogTrim(t *testing.T) {
	dir := t.TempDir()
	d := openTestDead(t, dir)
	defer d.close()
	drop := func(numbers ...uint64) {
		t.Helper()
		works(t)(d.carryOut(t.Context(), decision{State: "dropped", Numbers: numbers}))
	}
	for number := range uint64(200) { // three segments
		b := &batch{messages: []message{letterOf(number, refused, make([]byte, 1<<20-5000))}}
		works(t)(d.keep(t.Context(), b))
		switch number {
		case 0, 100: // they stay
			continue
		case 101: // honed-relay dead list reads while the first segment is deleted
			log, err := journal.OpenReader(dir, nil)
			must(t, err)
			defer log.Close()
			index, err := readDead(t.Context(), log, nil)
			if err != nil || len(index.letters) != 3 {
				t.Fatal(len(index.letters), err)
			}
			drop(0, 101)
			for range 2 {
				if loaded, err := load(t.Context(), log, index.sorted()); err != nil || len(loaded) == 0 || loaded[0].Number != 100 {
					t.Errorf("%d letters are left for a reader: %v", len(loaded), err)
				}
				if index, err = readDead(t.Context(), log, nil); err != nil {
					t.Error(err)
				}
			}
		default:
			drop(number)
		}
	}
	first, _, _ := d.log.Bounds()
	if loaded, err := load(t.Context(), d.log, d.index.sorted()); err != nil || len(loaded) != 1 || loaded[0].Number != 100 || first == 1 {
		t.Errorf("%d letters are left, the log begins at %d, %v", len(loaded), first, err)
	}
}

// TestDeadLogAtItsLimit: letters can be dropped when the log has reached its size limit, and then there is room for
// others after the next start.
func TestDeadLogAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	open := func() *deadLog {
		d, err := openDead(t.Context(), dir, 100_000, 1<<20, nil)
		must(t, err)
		return d
	}
	number := uint64(0)
	fill := func(d *deadLog) (letters int) {
		for size := 10_000; size > 0; {
			number++
			_, err := d.keep(t.Context(), &batch{messages: []message{letterOf(number, refused, make([]byte, size))}})
			switch {
			case err == nil:
				letters++
			case errors.Is(err, journal.ErrNoSpace):
				size /= 2
			default:
				t.Fatal(err)
			}
		}
		return letters
	}
	for range 3 {
		d := open()
		want := fill(d)
		if o, err := d.carryOut(t.Context(), decision{State: "dropped", All: true}); err != nil || o.Changed != want || want < 50 {
			t.Errorf("%+v, %v; want %d", o, err, want)
		}
		must(t, d.close())
	}
}

// TestSplit finds exactly what is refused.
func TestSplit(t *testing.T) {
	for _, passOn := range []bool{true, false} {
		b := &batch{passOn: passOn}
		for i := range uint64(100) {
			m := letterOf(i, pending, nil)
			m.Client = string(rune('a' + i%5))
			b.messages = append(b.messages, m)
		}
		tries := 0
		err := b.split(b.pending(), func(at []int) error {
			tries++
			for _, i := range at {
				if i == 12 || i == 57 || i == 62 { // all of client c
					return refusal{"no"}
				}
			}
			b.done(at...)
			return nil
		})
		if err != nil || len(b.pending()) > 0 || tries > 40 {
			t.Fatal(err, b.pending(), tries)
		}
		for i, m := range b.messages {
			want := done
			switch {
			case i == 12 || passOn && (i == 57 || i == 62):
				want = refused
			case !passOn && i > 12 && i%5 == 2:
				want = waiting
			}
			if m.state != want {
				t.Errorf("pass on %v, message %d is %v; want %v", passOn, i, m.state, want)
			}
		}
	}
}

// unsteady is a sink that fails for a while.
type unsteady struct {
	printer
	fails int
}

func (u *unsteady) write(ctx context.Context, b *batch, at []int) error {
	if u.fails--; u.fails >= 0 {
		return context.DeadlineExceeded
	}
	return u.printer.write(ctx, b, at)
}

// TestFarTime: a message from a time that JSON cannot express is written like any other, and not left out.
func TestFarTime(t *testing.T) {
	m := letterOf(1, pending, []byte("abc"))
	m.Time = 1 << 60
	var out bytes.Buffer
	if err := (&printer{to: &out}).write(t.Context(), &batch{messages: []message{m}}, []int{0}); err != nil || !strings.Contains(out.String(), `"data":"YWJj"`) {
		t.Errorf("%v, and the line is %q", err, out.String())
	}
}

// TestStats: what fails is counted, and how long.
func TestStats(t *testing.T) {
	var out bytes.Buffer
	r := &relay{sink: &unsteady{printer{to: &out}, 2}, parts: whole(time.Minute), longest: time.Second, reader: &gateway.Reader{Name: "copy"}, dead: openTestDead(t, t.TempDir())}
	defer r.dead.close()
	must(t, r.deliver(t.Context(), &batch{messages: []message{letterOf(1, pending, []byte("abc"))}}))
	r.counts.oldest.Store(1000)
	r.counts.trying.Store(2000)
	s := r.stats(time.UnixMilli(3000))
	if s.Records != 1 || s.Bytes != 3 || s.Retries != 2 || s.Lag != 2 || s.Failing != 1 || s.LastSuccess == 0 {
		t.Errorf("%+v", s)
	}
	var text bytes.Buffer
	s.writeMetrics(&text, "copy")
	for _, want := range []string{"honed_relay_records_total{reader=\"copy\"} 1\n", "honed_relay_lag_seconds{reader=\"copy\"} 2\n", "# TYPE honed_relay_dead_letters gauge"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the metrics lack %s:\n%s", want, &text)
		}
	}
}

// kept stores messages as refused (upper case) or waiting ones, by the letters of their clients, and returns the log.
func kept(t *testing.T, dir, clients string) *deadLog {
	t.Helper()
	d := openTestDead(t, dir)
	for i, client := range clients {
		m := letterOf(uint64(i+1), waiting, bytes.Repeat([]byte{byte('1' + i)}, 100))
		if m.Client = strings.ToLower(string(client)); m.Client != string(client) {
			m.state = refused
		}
		works(t)(d.keep(t.Context(), &batch{messages: []message{m}}))
	}
	return d
}

// numbers are those of letters.
func numbers(letters []*letter) (all string) {
	for _, l := range letters {
		all += fmt.Sprint(l.number, " ")
	}
	return strings.TrimSpace(all)
}

// TestDeadDrop: what waits behind a refused message is given up only if that is said; otherwise it is delivered.
func TestDeadDrop(t *testing.T) {
	const letters = "AabBaA" // 1 and 4 are refused first; 2, 5 and 3 wait, 6 was passed on
	for _, c := range []struct {
		what      decision
		left, due string
		says      string
	}{
		{decision{All: true}, "2 3 5", "2 3 5", ""},
		{decision{Client: "a"}, "2 3 4 5", "2 3 5", ""},
		{decision{Client: "a", Waiting: true}, "3 4", "3", ""},
		{decision{All: true, Waiting: true}, "", "", ""},
		{decision{Numbers: []uint64{1, 4}}, "2 3 5 6", "2 3 5", ""},
		{decision{Numbers: []uint64{2}, Waiting: true}, "1 3 4 5 6", "3", ""},
		{decision{Numbers: []uint64{1, 2}}, "1 2 3 4 5 6", "3", "no refused message 0.2; nothing was changed"},
		{decision{State: "buried", All: true}, "1 2 3 4 5 6", "3", "no decision"},
	} {
		dir := t.TempDir()
		d := kept(t, dir, letters)
		c.what.State = cmp.Or(c.what.State, "dropped")
		o, err := d.carryOut(t.Context(), c.what)
		d.close()
		d = openTestDead(t, dir) // as after a restart
		left := d.index.sorted()
		if numbers(left) != c.left || numbers(d.due(10, false)) != c.due || (err != nil) != (c.says != "") || !strings.Contains(fmt.Sprint(err), c.says) || o.Changed != len(letters)-len(left) {
			t.Errorf("%+v: %+v; left %s, due %s; want %s and %s", c.what, o, numbers(left), numbers(d.due(10, false)), c.left, c.due)
		}
		d.close()
	}
}

// TestDropWaiting: what waits is given up only with --yes.
func TestDropWaiting(t *testing.T) {
	for _, c := range []struct {
		flags string
		code  int
		says  string
		left  int
	}{
		{"--all --waiting", commandline.Usage, "dead list --all, and add --yes", 4},
		{"--client a --waiting --json", commandline.Usage, "add --yes", 4},
		{"--client a --waiting --yes", commandline.OK, "dropped: 3\n", 1},
		{"--client a --waiting --yes --json", commandline.OK, `{"changed":3}`, 1},
	} {
		dir := t.TempDir()
		kept(t, dir, "AabA").close()
		var said bytes.Buffer
		if code := run(soon(t), append([]string{"dead", "drop", "--data", dir}, strings.Fields(c.flags)...), &said, &said); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: %d\n%s", c.flags, code, &said)
		}
		d := openTestDead(t, dir)
		if left := len(d.index.letters); left != c.left {
			t.Errorf("%s: %d letters are left, not %d\n%s", c.flags, left, c.left, &said)
		}
		d.close()
	}
}

// flip damages the first occurrence of text in the files of a folder; with cut, the file ends there.
func flip(t *testing.T, dir, text string, cut bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // a socket
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		if at := bytes.Index(data, []byte(text)); err == nil && at >= 0 {
			if _, err = f.WriteAt([]byte{data[at] ^ 1}, int64(at)); cut {
				err = f.Truncate(int64(at))
			}
			must(t, err)
			return
		}
	}
	t.Fatalf("no file has %q", text)
}

// copied copies the files of a dead-letter log, as they are after a kill while it is open.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestDeadLogDamaged: damage costs the letters that it hits, also at the end, which the log is known to have reached. It
// is named, and everything else goes on.
func TestDeadLogDamaged(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for number, left := range []string{"2 3 4", "1 3 4", "1 2 4", "1 2 3"} {
			t.Run(fmt.Sprint("killed ", killed, " ", number+1), func(t *testing.T) {
				dir := t.TempDir()
				d := kept(t, dir, "AaBb")
				damaged := copied(t, dir)
				d.close()
				if d = openTestDead(t, damaged); !killed {
					d.close()
				}
				damaged = copied(t, damaged)
				if killed {
					d.close()
				}
				flip(t, damaged, strings.Repeat(fmt.Sprint(number+1), 100), killed && number == 3)
				var logged bytes.Buffer
				d, err := openDead(t.Context(), damaged, 100, 0, slog.New(slog.NewTextHandler(&logged, nil)))
				must(t, err)
				defer d.close()
				if got := numbers(d.index.sorted()); got != left {
					t.Errorf("%s are left; want %s", got, left)
				}
				var out, errs bytes.Buffer
				code := run(soon(t), []string{"dead", "list", "--all", "--json", "--data", damaged}, &out, &errs)
				says := fmt.Sprintf("messages in it are lost: journal: the envelope at position %d is lost", number+1)
				if code != 0 || strings.Count(out.String(), "\n") != 3 || !strings.Contains(errs.String(), says) {
					t.Errorf("%d %s%s", code, &out, &errs)
				}
				if _, _, n := d.counts(); n != 1 || !strings.Contains(logged.String(), "messages in it are lost") {
					t.Errorf("%d places; %s", n, &logged)
				}
				works(t)(d.carryOut(t.Context(), decision{State: "retried", All: true}))
				if o, err := d.carryOut(t.Context(), decision{State: "dropped", All: true, Waiting: true}); err != nil || o.Changed != 3 {
					t.Error(o, err)
				}
			})
		}
	}
}

// TestDeadLetterLost: a letter whose message is damaged while the relay runs does not hold up the others.
func TestDeadLetterLost(t *testing.T) {
	dir := t.TempDir()
	d := kept(t, dir, "abca")
	defer d.close()
	flip(t, dir, "1111", false)
	var out bytes.Buffer
	r := &relay{sink: &printer{to: &out}, parts: whole(time.Minute), longest: time.Second, dead: d, messages: 1}
	must(t, r.release(t.Context()))
	if refused, queued, damaged := d.counts(); strings.Count(out.String(), "\n") != 3 || refused+queued != 0 || damaged != 1 {
		t.Errorf("%d left, %d damaged:\n%s", refused+queued, damaged, &out)
	}
}
