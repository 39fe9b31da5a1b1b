package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func platformRoles() map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{"full": fillDisk, "readonly": readOnly}
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

func mount(dir string, flags uintptr, options string) error {
	if err := syscall.Mount("none", dir, "tmpfs", flags, options); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	return nil
}

func TestFullDisk(t *testing.T) { inOwnMounts(t, "full") }

// fillDisk adds runs to a store on a disk of one MiB until it is full.
func fillDisk(ctx context.Context, dir string) error {
	if err := mount(dir, 0, "size=1m"); err != nil {
		return err
	}
	path := filepath.Join(dir, fileName)
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	if err := s.Add(ctx, sampleRun("small")); err != nil {
		return err
	}
	large := sampleRun("large")
	large.Samples[0].Artefacts = append(large.Samples[0].Artefacts, Artefact{"log", "", make([]byte, 2<<20)})
	if err := s.Add(ctx, large); !errors.Is(err, ErrFull) {
		return fmt.Errorf("a run larger than the disk: %v", err)
	}
	if err := holds(ctx, s, 1); err != nil {
		return err
	}
	count := 1
	for ; count < 1000; count++ {
		r := sampleRun(fmt.Sprint(count))
		r.Samples[0].Artefacts = append(r.Samples[0].Artefacts, Artefact{"log", "", []byte(strings.Repeat(r.Name, 5000))})
		if err = s.Add(ctx, r); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("%d runs on a full disk: %v", count, err)
	}
	if err := errors.Join(holds(ctx, s, count), s.Close()); err != nil {
		return err
	}
	for _, open := range []func(context.Context, string) (*Store, error){OpenRead, Open} {
		s, err := open(ctx, path)
		if err != nil {
			return fmt.Errorf("after the disk was full: %w", err)
		}
		if err := errors.Join(holds(ctx, s, count), s.Close()); err != nil {
			return err
		}
	}
	return nil
}

// holds returns an error unless the store has that many runs, all complete.
func holds(ctx context.Context, s *Store, count int) error {
	all, err := s.List(ctx, Filter{})
	if err != nil || len(all) != count {
		return fmt.Errorf("%d runs, want %d: %v", len(all), count, err)
	}
	for _, m := range all {
		if _, err := s.Get(ctx, m.ID); err != nil {
			return err
		}
	}
	var integrity string
	if err := s.db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		return fmt.Errorf("integrity: %s, %v", integrity, err)
	}
	return nil
}

func TestReadOnlyDisk(t *testing.T) { inOwnMounts(t, "readonly") }

// readOnly reads stores on a read-only disk: one that was closed, one that a program has
// open, and a copy of that without its shared memory.
func readOnly(ctx context.Context, dir string) error {
	if err := mount(dir, 0, ""); err != nil {
		return err
	}
	closed, open, torn := filepath.Join(dir, "closed.db"), filepath.Join(dir, "open.db"), filepath.Join(dir, "torn.db")
	for _, path := range []string{closed, open} {
		s, err := Open(ctx, path)
		if err != nil {
			return err
		}
		if err := s.Add(ctx, sampleRun("x")); err != nil {
			return err
		}
		if path == closed {
			if err := s.Close(); err != nil {
				return err
			}
		} // the other one ends with the process
	}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(open + suffix)
		if err != nil {
			return err
		}
		if err := os.WriteFile(torn+suffix, data, 0o644); err != nil {
			return err
		}
	}
	// A file open for writing prevents a read-only remount: bind-mount instead.
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := syscall.Mount("none", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, path := range []string{closed, open} {
		s, err := OpenRead(ctx, path)
		if err != nil {
			return err
		}
		if err := holds(ctx, s, 1); err != nil {
			return err
		}
		if err := s.Add(ctx, sampleRun("y")); !errors.Is(err, ErrReadOnly) {
			return fmt.Errorf("writing: %v", err)
		}
		if err := s.Close(); err != nil {
			return err
		}
		if _, err := Open(ctx, path); !errors.Is(err, ErrReadOnly) {
			return fmt.Errorf("opening %s for writing: %v", path, err)
		}
	}
	// Without the log's index it cannot be read, and without the log it is another store.
	if _, err := OpenRead(ctx, torn); err == nil || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what is torn: %v", err)
	}
	return nil
}
