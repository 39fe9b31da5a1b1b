//go:build !linux

package view

import "os"

// needsTERM: some systems do not set TERM.
const needsTERM = false

// inForeground assumes that this process may write to the terminal.
func inForeground(*os.File) bool { return true }

// keyboard is not read on this system; Ctrl-C is a signal all the same.
type keyboard struct{}

func takeKeyboard() *keyboard { return nil }

func (*keyboard) giveBack() {}

// jobs handles no signals on this system.
type jobs struct{ signals chan os.Signal }

func watchJobs() *jobs { return new(jobs) }

func (*jobs) stop() {}

func (*jobs) obey(os.Signal) {}
