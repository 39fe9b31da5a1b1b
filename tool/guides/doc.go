// Package guides has only tests, which run the commands of the guides in docs/. They also compare the
// code that the guides quote with the files that it is from, and names, counts and benchmarks with what is there.
package guides
