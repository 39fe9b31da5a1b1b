// Package lint holds hone's house rules as ordinary Go tests: which package may
// import which, and what a reader may rely on in every file.
//
// Run it alone with
//
//	go test ./internal/lint
//
// A rule is a small function over the parsed tree ([go/ast], no build needed, so
// the files of every platform are read). Beside each stand examples that it must
// refuse and examples that it must accept, so that no rule is there only in name.
// The rules themselves are in CONTRIBUTING.md in words.
package lint
