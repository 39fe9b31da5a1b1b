// Command release gives all published modules of the repository one version.
//
//	go run ./tools/release v0.9.0             sets it in every go.mod and in go.work, and says how to go on
//	go run ./tools/release -proxy DIR v0.9.0  writes the modules of the last commit as a module
//	                                          proxy would serve them, and changes nothing else
//	go run ./tools/release -binaries DIR v0.9.0
//	                                          builds the commands of the last commit for five
//	                                          platforms, with checksums, an SBOM and the notes
//
// The modules require each other, and in the repository each replaces the others with their
// folders. What is published has no replacements: go install refuses a command whose module
// has some, and they mean nothing to those who import it.
package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// published are the modules that others import or install, by their folders.
func published() []string {
	return []string{"", "observe", "gateway", "gateway/relay", "tool", "articles"}
}

const root = "github.com/hone-go/hone"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	proxy := flags.String("proxy", "", "write a module proxy into this folder instead")
	binaries := flags.String("binaries", "", "build the commands into this folder instead")
	only := flags.String("platforms", strings.Join(platforms, ","), "the platforms for -binaries")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil // Parse has printed it
	} else if err != nil {
		return err
	}
	version := flags.Arg(0)
	if flags.NArg() != 1 || semver.Canonical(version) != version || semver.Major(version) > "v1" {
		return errors.New("give one version, as in: go run ./tools/release v0.9.0")
	}
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git: %w; run this inside the repository", err)
	}
	dir := strings.TrimSpace(string(top))
	if *proxy != "" {
		return writeProxy(ctx, dir, *proxy, version)
	}
	if *binaries != "" {
		return writeBinaries(ctx, dir, *binaries, version, strings.Split(*only, ","))
	}
	for _, folder := range published() {
		if err := setVersion(filepath.Join(dir, folder), version); err != nil {
			return err
		}
	}
	if err := setWorkspace(dir, version); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "All modules are %s. Look at git diff, and then:\n\n\tgit commit -am 'Release %s'\n", version, version)
	var tags []string
	for _, folder := range published() {
		tags = append(tags, path.Join(folder, version))
		fmt.Fprintf(stdout, "\tgit tag %s\n", path.Join(folder, version))
	}
	fmt.Fprintf(stdout, "\tgit revert --no-edit HEAD   # development goes on with the folders\n\tgit push origin HEAD %s\n"+
		"\tgit push origin %s   # starts the release; GitHub starts none if more than three tags are pushed at once\n",
		strings.Join(tags[1:], " "), tags[0])
	return nil
}

// setVersion makes a module's go.mod one to publish.
func setVersion(dir, version string) error {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err = withVersion(text, version)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o644)
}

// withVersion has a go.mod require our own modules at version, and replace none.
func withVersion(text []byte, version string) ([]byte, error) {
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range file.Require {
		if ours(r.Mod.Path) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range file.Replace {
		if !ours(r.Old.Path) {
			return nil, fmt.Errorf("%s is replaced; what is published can replace nothing", r.Old.Path)
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	file.Cleanup()
	return file.Format()
}

func ours(modulePath string) bool {
	return modulePath == root || strings.HasPrefix(modulePath, root+"/")
}

// writeProxy writes the last commit's modules into a folder, in the layout of GOPROXY.
func writeProxy(ctx context.Context, dir, proxy, version string) error {
	work, err := os.MkdirTemp("", "hone-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := archive(ctx, dir, work); err != nil {
		return err
	}
	for _, folder := range published() {
		if err := publish(filepath.Join(work, folder), filepath.Join(work, "LICENSE"), proxy, module.Version{Path: path.Join(root, folder), Version: version}); err != nil {
			return fmt.Errorf("%s: %w", path.Join(root, folder), err)
		}
	}
	return nil
}

// archive writes the files of the last commit into a folder.
func archive(ctx context.Context, dir, into string) error {
	git := exec.CommandContext(ctx, "git", "-C", dir, "archive", "--format=tar", "HEAD")
	out, err := git.StdoutPipe()
	if err != nil {
		return err
	}
	if err := git.Start(); err != nil {
		return err
	}
	err = unpack(tar.NewReader(out), into)
	return errors.Join(err, git.Wait())
}

func unpack(in *tar.Reader, into string) error {
	for {
		head, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Localize(strings.TrimSuffix(head.Name, "/"))
		if err != nil || head.Typeflag != tar.TypeReg {
			continue // folders are made with their files; a module has no links
		}
		full := filepath.Join(into, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(full, data, 0o644); err != nil {
			return err
		}
	}
}

// publish writes one module: .info, .mod, .zip and the list of versions.
func publish(dir, licence, proxy string, m module.Version) error {
	if err := setVersion(dir, m.Version); err != nil {
		return err
	}
	// A module in a folder gets the repository's licence, as the go command gives it.
	own := filepath.Join(dir, "LICENSE")
	if _, err := os.Stat(own); errors.Is(err, fs.ErrNotExist) {
		text, err := os.ReadFile(licence)
		if err != nil {
			return err
		}
		if err := os.WriteFile(own, text, 0o644); err != nil {
			return err
		}
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list": m.Version + "\n", m.Version + ".mod": string(mod),
		m.Version + ".info": fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", m.Version, time.Now().UTC().Format(time.RFC3339)),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	packed, err := os.Create(filepath.Join(at, m.Version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(packed, m, dir), packed.Close())
}
