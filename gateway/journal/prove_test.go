package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// The proofs kill processes, cut the power and compare what was acknowledged with what is
// stored. A short form runs with the other tests; make prove runs all.
var full = flag.Bool("full", false, "run the proofs in full: 100 kills, 50 power cuts, 20 M acknowledged records")

// childVariable holds the task of a process that a proof has started.
const childVariable = "HONED_PROVE_CHILD"

// Main runs the tests, or what a process does that a proof has started.
func Main(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		if err := runChild(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.SideBySide(8)
	os.Exit(m.Run())
}

// Every envelope of a proof holds as many records of each client, so that one number says
// what is in the log: the newest sequence of all clients.
const (
	proofClients = 10
	proofData    = 128
)

// task is what a child does.
type task struct {
	Dir     string
	Off     string // the guard that is switched off, in the controls
	Acked   uint64 // what the clients know, and need not send again
	Each    int    // records of each client in an envelope
	Appends uint64 // ends after so many; 0: goes on until it is killed
	Tends   bool   // trims and backs up now and then
	Idle    bool   // appends nothing, and is killed
}

func (t task) open() (Log, error) {
	off := segmentGuards{fsync: t.Off == "fsync", resync: t.Off == "resync", folders: t.Off == "folders", mark: t.Off == "mark"}
	return OpenSegments(t.Dir, SegmentsOptions{Reserve: 1, size: 1 << 20, off: off})
}

// ledger checks that a log holds each client's records once, in order and unchanged.
type ledger struct {
	last [proofClients]uint64
}

func (l *ledger) read(ctx context.Context, log Log, from uint64) error {
	var want []byte
	first, _, err := log.Bounds()
	if err != nil {
		return err
	}
	return log.Read(ctx, from, func(pos uint64, b []byte) error {
		e, err := Decode(b)
		if err != nil {
			return err
		}
		for r := range e.Records() {
			c := int(r.Client[len(r.Client)-1] - '0')
			if l.last[c] == 0 && pos == first {
				l.last[c] = r.Seq - 1 // what was before it is trimmed
			}
			if r.Seq != l.last[c]+1 {
				return fmt.Errorf("position %d: client %s goes from sequence %d to %d", pos, r.Client, l.last[c], r.Seq)
			}
			l.last[c] = r.Seq
			if want = payload(want[:0], c, r.Seq); !bytes.Equal(r.Data, want) {
				return fmt.Errorf("position %d: client %s, sequence %d has other data", pos, r.Client, r.Seq)
			}
		}
		return nil
	})
}

// newest is the sequence that all clients have reached.
func (l *ledger) newest() (uint64, error) {
	for _, last := range l.last {
		if last != l.last[0] {
			return 0, fmt.Errorf("an envelope is there in part: %v", l.last)
		}
	}
	return l.last[0], nil
}

// payload is the data of a record.
func payload(b []byte, client int, seq uint64) []byte {
	for i := range uint64(proofData / 8) {
		b = binary.BigEndian.AppendUint64(b, seq*proofClients+uint64(client)+i<<48)
	}
	return b
}

// reportSize is the size of what a child writes at the start, and after each acknowledgement:
// the newest sequence and the position. It fits into one write to a pipe.
const reportSize = 16

func report(w io.Writer, newest, pos uint64) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, reportSize), newest)
	_, err := w.Write(binary.BigEndian.AppendUint64(b, pos))
	return err
}

// runChild opens a log, reports what is in it, and appends until it is killed.
func runChild(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	log, err := t.open()
	if err != nil {
		return err
	}
	var l ledger
	if err := l.read(ctx, log, 0); err != nil {
		return err
	}
	newest, err := l.newest()
	if err != nil {
		return err
	}
	if err := report(os.Stdout, newest, 0); err != nil {
		return err
	}
	if t.Idle {
		<-ctx.Done()
		return ctx.Err()
	}
	var e Encoder
	var data []byte
	for seq, n := t.Acked+1, uint64(0); t.Appends == 0 || n < t.Appends; seq, n = seq+uint64(t.Each), n+1 {
		e.Begin(0)
		for c := range proofClients {
			for s := seq; s < seq+uint64(t.Each); s++ {
				if s <= l.last[c] {
					continue // a duplicate: the client did not get the acknowledgement
				}
				data = payload(data[:0], c, s)
				r := Record{Client: fmt.Sprintf("client-%d", c), Epoch: 1, Seq: s, Time: 1, Data: data}
				if err := e.Record(&r); err != nil {
					return err
				}
			}
		}
		pos, err := log.Append(ctx, e.Bytes())
		if err != nil {
			return err
		}
		for c := range l.last {
			l.last[c] = max(l.last[c], seq+uint64(t.Each)-1)
		}
		if err := report(os.Stdout, seq+uint64(t.Each)-1, pos); err != nil {
			return err
		}
		if t.Tends && pos%7 == 0 {
			if err := t.tend(ctx, log, pos); err != nil {
				return err
			}
		}
	}
	return log.Close()
}

// backupOf is where the backup of a proof's log is.
func backupOf(dir string) string { return dir + "-backup" }

// tend does what happens beside appends.
func (t task) tend(ctx context.Context, log Log, pos uint64) error {
	if pos%21 == 0 && pos > 40 {
		if err := log.Trim(ctx, pos-40); err != nil {
			return err
		}
	}
	_, err := Backup(ctx, t.Dir, backupOf(t.Dir), BackupOptions{})
	return err
}

// proof is the clients' side: what they were told, over many processes that die.
type proof struct {
	t      *testing.T
	task   task
	rng    *rand.Rand
	acked  uint64 // newest sequence that was acknowledged
	total  uint64 // records acknowledged
	lost   uint64 // records acknowledged and not found
	failed string // what it wrote as it ended
}

func newProof(t *testing.T, task task) *proof {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if task.Each == 0 {
		task.Each = 53
	}
	return &proof{t: t, task: task, rng: rand.New(rand.NewPCG(seed, 0))}
}

// child is a process that appends.
type child struct {
	p      *proof
	cmd    *exec.Cmd
	out    *os.File
	errs   bytes.Buffer
	once   sync.Once
	newest uint64 // in the log when it was opened
}

// start starts a child and waits until it has recovered.
func (p *proof) start() *child {
	p.t.Helper()
	c, opened := p.try()
	if !opened {
		p.t.Fatalf("the log does not open: %s", p.failed)
	}
	return c
}

// try is start for a log that may not open.
func (p *proof) try() (c *child, opened bool) {
	p.t.Helper()
	p.task.Acked = p.acked
	text, err := json.Marshal(p.task)
	must(p.t, err)
	c = &child{p: p, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	r, w, err := os.Pipe()
	must(p.t, err)
	c.out, c.cmd.Stdout, c.cmd.Stderr = r, w, &c.errs
	must(p.t, c.cmd.Start())
	w.Close()
	p.t.Cleanup(c.kill)
	newest, _, err := c.next()
	if err != nil {
		c.kill()
		return c, false
	}
	c.newest = newest
	if newest < p.acked {
		p.lost += (p.acked - newest) * proofClients
		p.acked = newest
	}
	return c, true
}

// next reads one report.
func (c *child) next() (newest, pos uint64, err error) {
	var b [reportSize]byte
	if _, err := io.ReadFull(c.out, b[:]); err != nil {
		return 0, 0, err
	}
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:]), nil
}

// acks reads n acknowledgements, or all until the child ends when n < 0. It returns how many.
func (c *child) acks(n int) (got int) {
	for n < 0 || got < n {
		newest, _, err := c.next()
		if err != nil {
			return got
		}
		got++
		c.p.total += (newest - c.p.acked) * proofClients
		c.p.acked = newest
	}
	return got
}

// kill kills the child with signal 9 and counts what it still acknowledged.
func (c *child) kill() {
	c.once.Do(func() {
		c.cmd.Process.Kill()
		c.acks(-1)
		c.cmd.Wait()
		c.out.Close()
		c.p.failed = c.errs.String()
	})
}

// check opens the log a last time: everything acknowledged is there, once and in order.
func (p *proof) check() {
	p.t.Helper()
	total := p.total
	p.start().kill()
	p.total = total
}

// TestProveKills: no acknowledged record is lost or doubled by kill -9.
func TestProveKills(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	rounds, kills, most := 1, 3, 150
	if *full {
		rounds, kills, most = 10, 10, 800
	}
	var total uint64
	for range rounds {
		p := newProof(t, task{Dir: filepath.Join(t.TempDir(), "data")})
		for range kills {
			c := p.start()
			c.acks(1 + p.rng.IntN(most))
			c.kill()
		}
		p.check()
		if p.lost > 0 {
			t.Fatalf("%d of %d acknowledged records are lost", p.lost, p.total)
		}
		total += p.total
		os.RemoveAll(p.task.Dir)
	}
	t.Logf("%d kills, %d records acknowledged, 0 lost, 0 stored twice, 0 out of order", rounds*kills, total)
}
