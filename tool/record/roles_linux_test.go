package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func platformRoles() map[string]func(string) error {
	return map[string]func(string) error{"full": fillDisk, "readonly": readOnly}
}

// inOwnMounts runs a role in a mount namespace, in which it may mount anything unseen by
// others.
func inOwnMounts(t *testing.T, role string) {
	t.Helper()
	cmd := another(t, role, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if errors.Is(err, fs.ErrPermission) {
		need(t, "the kernel must let users have mounts of their own (user.max_user_namespaces, unprivileged_userns_clone)")
	}
	if err != nil {
		t.Errorf("%s: %v", role, err)
	}
}

func mount(dir, options string) error {
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	return nil
}

func TestFullDisk(t *testing.T) { inOwnMounts(t, "full") }

// fillDisk adds runs to a store on a disk of one MiB until it is full.
func fillDisk(dir string) error {
	if err := mount(dir, "size=1m"); err != nil {
		return err
	}
	path := filepath.Join(dir, storeName)
	s, err := Open(path)
	if err != nil {
		return err
	}
	large := sampleRun("large")
	large.Samples[0].Artefacts = append(large.Samples[0].Artefacts, Artefact{"log", "", make([]byte, 2<<20)})
	if err := s.Add(large); !errors.Is(err, ErrFull) || large.ID != "" {
		return fmt.Errorf("a run larger than the disk: %v", err)
	}
	if err := s.AddTogether(sampleRun("one"), large); !errors.Is(err, ErrFull) {
		return fmt.Errorf("a pair of which one fits: %v", err)
	}
	count := 0
	for ; count < 1000; count++ {
		r := sampleRun(fmt.Sprint(count))
		r.Samples[0].Artefacts = append(r.Samples[0].Artefacts, Artefact{"log", "", []byte(strings.Repeat(r.Name, 5000))})
		if err = s.Add(r); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || count == 0 {
		return fmt.Errorf("%d runs on a full disk: %v", count, err)
	}
	if err := holds(path, count); err != nil {
		return err
	}
	if _, err := s.Remove("latest"); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	return s.Add(sampleRun("small"))
}

// holds returns an error unless the store has that many runs, all complete, and nothing else.
func holds(path string, count int) error {
	s, err := OpenRead(path)
	if err != nil {
		return err
	}
	all, err := s.List(Filter{})
	skipped, also := s.Skipped()
	if left, _ := filepath.Glob(filepath.Join(path, newPrefix+"*")); errors.Join(err, also) != nil || len(all) != count || len(skipped)+len(left) > 0 {
		return fmt.Errorf("%d runs, want %d: %v, %v, %v", len(all), count, errors.Join(err, also), skipped, left)
	}
	for _, m := range all {
		if _, err := s.Get(m.ID); err != nil {
			return err
		}
	}
	return nil
}

func TestReadOnlyDisk(t *testing.T) { inOwnMounts(t, "readonly") }

// readOnly reads a store on a read-only disk.
func readOnly(dir string) error {
	if err := mount(dir, ""); err != nil {
		return err
	}
	path := filepath.Join(dir, storeName)
	s, err := Open(path)
	if err == nil {
		err = s.Add(sampleRun("x"))
	}
	if err == nil {
		err = syscall.Mount("none", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	if err == nil {
		err = holds(path, 1)
	}
	if err != nil {
		return err
	}
	if err := s.Add(sampleRun("y")); !errors.Is(err, ErrReadOnly) {
		return fmt.Errorf("writing: %v", err)
	}
	if _, err := Open(path); !errors.Is(err, ErrReadOnly) {
		return fmt.Errorf("opening it for writing: %v", err)
	}
	return nil
}
