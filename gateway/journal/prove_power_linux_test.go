//go:build amd64 || arm64

package journal

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/internal/testrun"
)

// inNamespace is testrun.InNamespace with this package's flag.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if *full {
		return testrun.InNamespace(t, "-full")
	}
	return testrun.InNamespace(t)
}

// inserted mounts a disk and returns the folder.
func inserted(t *testing.T, d *disk) (dir string, remove func()) {
	t.Helper()
	dir = t.TempDir()
	unmount, err := d.mount(dir)
	if err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir, unmount
}

// powerCuts cuts the power n times under load, each time after at most most envelopes, and
// checks what is there. It stops at the first loss.
func powerCuts(t *testing.T, n, most int, torn bool) *proof {
	p := newProof(t, task{})
	d := newDisk()
	for range n {
		c, remove := p.onDisk(d)
		if p.lost > 0 {
			c.kill()
			remove()
			return p
		}
		switch p.rng.IntN(8) {
		case 0: // right after recovery: what a recovery finds has to be durable
			p.acked = c.newest
		case 1: // a kill before the cut: what was written and not synced is found, then lost
			c.acks(1 + p.rng.IntN(most))
			c.kill()
			c = p.start()
			p.acked = c.newest
		default:
			c.acks(1 + p.rng.IntN(most))
		}
		var rng *rand.Rand
		if torn {
			rng = p.rng
		}
		after := d.cut(rng)
		c.kill()
		remove()
		d = after
	}
	p.after(d)
	return p
}

// TestProvePowerCuts: no acknowledged record is lost or doubled by a power cut, be the last
// writes whole, torn or absent. The controls do not fsync, and lose.
func TestProvePowerCuts(t *testing.T) {
	if os.Getenv(testrun.Namespace) == "" {
		t.Parallel()
	}
	if !inNamespace(t) {
		return
	}
	cuts, most := 3, 60
	if *full {
		cuts, most = 30, 300
	}
	for _, torn := range []bool{false, true} {
		p := powerCuts(t, cuts, most, torn)
		t.Logf("torn writes %v: %d power cuts, %d records acknowledged, %d lost", torn, cuts, p.total, p.lost)
		if p.lost > 0 {
			t.Error("acknowledged records are lost")
		}
	}
}

// onDisk starts a child on a disk.
func (p *proof) onDisk(d *disk) (c *child, remove func()) {
	p.t.Helper()
	remove = p.insert(d)
	return p.start(), remove
}

// insert makes a disk the one of the next child.
func (p *proof) insert(d *disk) (remove func()) {
	p.t.Helper()
	dir, remove := inserted(p.t, d)
	p.task.Dir = filepath.Join(dir, "data")
	return remove
}

// after checks what is left once the power was cut. The log must open.
func (p *proof) after(d *disk) {
	p.t.Helper()
	if !p.opens(d) {
		p.t.Fatalf("the log does not open: %s", p.failed)
	}
}

// opens is after for a log that may not open, and reports whether it does.
func (p *proof) opens(d *disk) bool {
	p.t.Helper()
	total := p.total
	remove := p.insert(d)
	c, opened := p.try()
	c.kill()
	remove()
	p.total = total
	return opened
}

// TestProvePowerControls: the same with one guard switched off has to lose, or the proof shows
// nothing.
func TestProvePowerControls(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	for _, off := range []string{"fsync", "folders", ""} {
		p := newProof(t, task{Off: off})
		d := newDisk()
		c, remove := p.onDisk(d)
		c.acks(130) // more than one segment
		after := d.cut(nil)
		c.kill()
		remove()
		if !p.opens(after) { // the mark has noticed the loss, or reading has
			t.Logf("without %q: %s", off, p.failed)
			named := strings.Contains(p.failed, "acknowledged messages are missing") || strings.Contains(p.failed, " are lost, ")
			if off == "" || !named {
				t.Errorf("without %q: the log does not open", off)
			}
			continue
		}
		t.Logf("without %q: %d of %d acknowledged records are lost", off, p.lost, p.total)
		if off == "" != (p.lost == 0) {
			t.Errorf("without %q: %d records lost", off, p.lost)
		}
	}
}

// TestProveFirstStart cuts the power after each call to the disk of a first start, up to the
// first acknowledgements. The next start makes the log, or finds what was acknowledged.
func TestProveFirstStart(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	cuts, step := 0, 11
	if *full {
		step = 2
	}
	for n := 1; ; n += step {
		p := newProof(t, task{Appends: 3})
		d := newDisk()
		d.left = n
		remove := p.insert(d)
		c, opened := p.try()
		if opened {
			c.acks(-1)
		}
		c.kill()
		d.mu.Lock()
		left := d.left
		d.mu.Unlock()
		after := d.cut(p.rng)
		remove()
		c, remove = p.onDisk(after)
		c.acks(3)
		c.kill()
		remove()
		if p.lost > 0 {
			t.Fatalf("cut after %d calls: %d of %d acknowledged records are lost", n, p.lost, p.total)
		}
		if left > 0 {
			break // it needed fewer calls
		}
		cuts++
	}
	t.Logf("%d power cuts during a first start, 0 records lost", cuts)
}

// TestProveRecoveredIsDurable: a killed process has written what it did not sync. The next one
// finds it, tells the clients, and the power is cut.
func TestProveRecoveredIsDurable(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	lost := func(off string) uint64 {
		p := newProof(t, task{Off: "fsync", Each: 1}) // in one segment: a process syncs it before it begins the next
		d := newDisk()
		c, remove := p.onDisk(d)
		c.acks(20)
		c.kill()
		p.task.Off, p.task.Idle = off, true // an append would sync what was found
		c = p.start()
		p.acked = c.newest // as the resuming clients are told
		after := d.cut(nil)
		c.kill()
		remove()
		p.task.Off, p.task.Idle = "mark", false // which would refuse the log
		p.after(after)
		t.Logf("without %q: %d of %d records that clients were told of are lost", off, p.lost, p.total)
		return p.lost
	}
	if n := lost(""); n > 0 {
		t.Errorf("%d records lost", n)
	}
	for range 5 { // the killed process may have synced everything by chance
		if lost("resync") > 0 {
			return
		}
	}
	t.Error("nothing is lost without the sync of what was found: the test proves nothing")
}

// TestProveFailedSyncThenStart: an fsync fails, a supervisor starts the process again in the same kernel, which tells
// clients what is in the page cache, and then the power is cut. The kernel had called those pages clean.
func TestProveFailedSyncThenStart(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	for _, each := range []int{1, 53} { // in one segment, and in several
		p := newProof(t, task{Each: each})
		d := newDisk()
		c, remove := p.onDisk(d)
		c.acks(20)
		d.mu.Lock()
		d.failSync = true
		d.mu.Unlock()
		c.acks(-1) // ends by itself
		c.kill()
		d.mu.Lock()
		d.failSync = false
		d.mu.Unlock()
		p.task.Idle = true // an append would sync what was found
		c = p.start()
		if each == 1 && c.newest == p.acked {
			t.Error("nothing was written that was not synced: the test proves nothing")
		}
		p.acked = c.newest // so the clients are told
		after := d.cut(nil)
		c.kill()
		remove()
		p.task.Idle = false
		p.after(after)
		if p.lost > 0 {
			t.Errorf("%d of the records that clients were told of are lost", p.lost)
		}
	}
}

// TestProveEveryCall cuts the power, or lets one write or fsync fail, at a random call to the disk of a
// process that appends, seals, trims and makes backups. Nothing that was acknowledged is lost, and the
// backup is whole.
func TestProveEveryCall(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	rounds, appends, calls := testrun.Sized(6, 10), testrun.Sized(60, 150), testrun.Sized(600, 1500)
	if *full {
		rounds, appends, calls = 250, 150, 1500
	}
	for _, harm := range []string{"power cut", "torn writes", "EIO"} {
		p := newProof(t, task{Tends: true, Appends: uint64(appends)})
		d, quiet, n := newDisk(), 0, 0
		for ; n < rounds || quiet == n && n < 5*rounds; n++ { // until one had an effect
			remove := p.insert(d)
			at := 1 + p.rng.IntN(calls)
			if n%4 == 0 {
				at = 1 + p.rng.IntN(60) // within the start
			}
			d.mu.Lock()
			if harm == "EIO" {
				d.failAt = at
			} else {
				d.left = at
			}
			d.mu.Unlock()
			if c, opened := p.try(); opened {
				c.acks(-1)
				c.kill()
			}
			if p.failed == "" { // it needed fewer calls, or the failure was harmless
				quiet++
			}
			var rng *rand.Rand
			if harm == "torn writes" {
				rng = p.rng
			}
			after := d.cut(rng)
			remove()
			if d = after; p.lost > 0 {
				t.Fatalf("%s %d: %d of %d acknowledged records are lost", harm, n, p.lost, p.total)
			}
			p.backupIsWhole(after)
		}
		p.task.Tends, p.task.Appends = false, 0
		p.after(d)
		t.Logf("%d times %s, %d of them without effect: %d records acknowledged, %d lost", n, harm, quiet, p.total, p.lost)
		if p.lost > 0 || quiet == n || *full && quiet > n*4/5 {
			t.Errorf("%s: %d lost, %d of %d without effect", harm, p.lost, quiet, n)
		}
	}
}

// backupIsWhole verifies the backup on a disk, if there is one.
func (p *proof) backupIsWhole(d *disk) {
	p.t.Helper()
	remove := p.insert(d)
	defer remove()
	dir := backupOf(p.task.Dir)
	if !exists(dir, writer.MarkName) {
		return
	}
	log, err := openSegments(dir, SegmentsOptions{}, true)
	if exists(dir, copyingName) && says(err, "unfinished") {
		return
	}
	if err != nil {
		p.t.Fatalf("the backup: %v", err)
	}
	defer log.Close()
	if err := log.Verify(p.t.Context(), 0, nil); err != nil {
		p.t.Fatalf("the backup: %v", err)
	}
}
