// Package workflows holds tests of .github: that a workflow runs nothing but targets of the Makefile,
// that what it uses is pinned, and that it has no rights that it does not need.
//
// Run it alone with
//
//	go test -count=1 ./tools/workflows
package workflows
