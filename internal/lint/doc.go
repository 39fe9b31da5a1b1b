// Package lint holds hone's house rules as ordinary Go tests: which package may import which, and
// the standards that every file must meet.
//
// Run it alone with
//
//	go test ./internal/lint
//
// A rule is a small function over the parsed tree ([go/ast], without a build, so that the files of
// every platform are checked). Each rule has examples that it must refuse and examples that it must
// accept, so that no rule can be without effect. CONTRIBUTING.md describes the rules in prose.
package lint
