package journal

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// insideVariable marks a test that runs in a user and mount namespace of its own.
const insideVariable = "HONED_PROVE_INSIDE"

// inNamespace runs the test again where it may mount file systems, which needs no root, and
// reports whether this is already there. The caller returns when it is not.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=30m"}
	if *full {
		args = append(args, "-full")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "    ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		t.Fatalf("%v\n%s", err, out)
	case err != nil:
		lacks(t, "user namespaces", err)
	case strings.Contains(string(out), "--- SKIP"):
		lacks(t, "/dev/fuse", errors.New("see above"))
	}
	return false
}

// lacks skips a test for want of something, which is a failure in CI.
func lacks(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("HONE_TEST_ALL") != "" {
		t.Fatalf("this proof needs %s: %v", what, err)
	}
	t.Skipf("NOT PROVEN HERE: this proof needs %s: %v", what, err)
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
func powerCuts(t *testing.T, what task, n, most int, torn bool) *proof {
	p := newProof(t, what)
	d := newDisk()
	for range n {
		dir, remove := inserted(t, d)
		p.task.Dir = filepath.Join(dir, "data")
		if p.task.Kind == "file" {
			p.task.Dir = dir
		}
		c := p.start()
		if p.lost > 0 {
			c.kill()
			remove()
			return p
		}
		switch p.rng.IntN(8) {
		case 0: // right after recovery: what a recovery finds has to be durable
			c.p.acked = c.newest
		case 1: // a kill before the cut: what was written and not synced is found, then lost
			c.acks(1 + p.rng.IntN(most))
			c.kill()
			c = p.start()
			c.p.acked = c.newest
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
	dir, remove := inserted(t, d)
	p.task.Dir = filepath.Join(dir, "data")
	if p.task.Kind == "file" {
		p.task.Dir = dir
	}
	p.check()
	remove()
	return p
}

// TestProvePowerCuts: no acknowledged record is lost or doubled by a power cut, be the last
// writes whole, torn or absent. The controls do not fsync, and lose.
func TestProvePowerCuts(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		t.Parallel()
	}
	if !inNamespace(t) {
		return
	}
	cuts, most := 3, 60
	if *full {
		cuts, most = 30, 300
	}
	for _, kind := range []string{"embedded", "file"} {
		for _, torn := range []bool{false, true} {
			p := powerCuts(t, task{Kind: kind}, cuts, most, torn)
			t.Logf("%s, torn writes %v: %d power cuts, %d records acknowledged, %d lost", kind, torn, cuts, p.total, p.lost)
			if p.lost > 0 {
				t.Errorf("%s: acknowledged records are lost", kind)
			}
		}
	}
}

// TestProvePowerControl: the same without fsync has to lose, or the proof shows nothing.
func TestProvePowerControl(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newProof(t, task{Kind: "file", Unsynced: true})
	d := newDisk()
	dir, remove := inserted(t, d)
	p.task.Dir = dir
	c := p.start()
	c.acks(40)
	after := d.cut(nil)
	c.kill()
	remove()
	dir, remove = inserted(t, after)
	defer remove()
	p.task.Dir = dir
	p.check()
	t.Logf("without fsync: %d of %d acknowledged records are lost", p.lost, p.total)
	if p.lost == 0 {
		t.Error("the control loses nothing, so the proof shows nothing")
	}
}

var _ = time.Now
