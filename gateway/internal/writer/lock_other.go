//go:build !linux && !darwin

package writer

import (
	"os"
	"runtime"
)

func lockFile(*os.File) error {
	return &Refusal{
		What:   "this program cannot lock a log on " + runtime.GOOS + ", so it writes none there",
		Repair: "run honed on Linux or macOS; reading a log works here",
	}
}
