package main

import (
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// A commit of a release has no replacements in its modules, and before its tags are pushed nobody can
// download what they require. These keep it one that can be built from its folders.

// setWorkspace has go.work take our modules of a version from their folders.
func setWorkspace(dir, version string) error {
	name := filepath.Join(dir, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return err
	}
	for _, folder := range published() {
		if err := work.AddReplace(path.Join(root, folder), version, "./"+folder, ""); err != nil {
			return err
		}
	}
	return os.WriteFile(name, modfile.Format(work.Syntax), 0o644)
}

// prepare makes a folder with the files of a commit one to build, and refuses a version without notes
// before the builds, which take minutes.
func prepare(dir, version string) error {
	text, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if _, err := notes(text, version); err != nil {
		return err
	}
	return setFolders(dir)
}

// setFolders has each module take those of ours that it requires from their folders.
func setFolders(dir string) error {
	for _, folder := range published() {
		name := filepath.Join(dir, folder, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return err
		}
		for _, r := range file.Require {
			if !ours(r.Mod.Path) {
				continue
			}
			to, err := filepath.Rel(path.Join(root, folder), r.Mod.Path)
			if err != nil {
				return err
			}
			if err := file.AddReplace(r.Mod.Path, "", filepath.ToSlash(to), ""); err != nil {
				return err
			}
		}
		if text, err = file.Format(); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
