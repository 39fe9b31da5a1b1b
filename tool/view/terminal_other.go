//go:build !linux

package view

import "os"

// needsTERM: not every system names its terminals.
const needsTERM = false

// hasSize reports whether it is known how much fits on a terminal.
func hasSize(*os.File) bool { return true }

// inForeground reports whether the terminal is this process's to write to.
func inForeground(*os.File) bool { return true }

// keyboard is not read here; Ctrl-C is a signal all the same.
type keyboard struct{}

func takeKeyboard() *keyboard { return nil }

func (*keyboard) giveBack() {}

// jobs are no signals here.
type jobs struct{ signals chan os.Signal }

func watchJobs() *jobs { return new(jobs) }

func (*jobs) stop() {}

func (*jobs) obey(os.Signal) {}
