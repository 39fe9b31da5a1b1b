//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "avatar: needs Linux, where a process's CPU time can be read to the nanosecond")
	os.Exit(1)
}
