package trial

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hone-go/hone/tool/child"
)

// Revision is a checked-out git revision, separate from the working folder.
type Revision struct {
	Name   string // as given, with the first digits of its commit
	Commit string
	Dir    string // the same subfolder as the working folder

	clone string
}

// Checkout checks out rev, as git names it, of the repository that contains dir. It makes
// a clone that shares the repository's objects and only reads the repository. Call Remove
// when it is no longer needed.
func Checkout(ctx context.Context, dir, rev string) (*Revision, error) {
	wrong := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("revision %s: %w; name a commit, a branch or a tag of the repository in this folder", rev, err)
	}
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, wrong(err)
	}
	within, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, wrong(err)
	}
	commit, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return nil, wrong(fmt.Errorf("no such commit"))
	}
	clone, err := child.Folder("hone-revision")
	if err != nil {
		return nil, wrong(err)
	}
	r := &Revision{Name: rev, Commit: commit, clone: clone, Dir: filepath.Join(clone, filepath.FromSlash(within))}
	if short := commit[:min(10, len(commit))]; !strings.HasPrefix(commit, rev) {
		r.Name += " " + short
	} else {
		r.Name = short
	}
	if _, err = git(ctx, top, "clone", "--quiet", "--shared", "--no-checkout", "--", top, clone); err == nil {
		_, err = git(ctx, clone, "checkout", "--quiet", "--detach", commit)
	}
	if err == nil {
		_, err = os.Stat(r.Dir)
	}
	if err != nil {
		r.Remove()
		return nil, wrong(err)
	}
	return r, nil
}

// git runs a command of git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && ctx.Err() == nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), ctx.Err()
}

// Remove deletes the files.
func (r *Revision) Remove() error { return os.RemoveAll(r.clone) }
