package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine describes the machine and the commit of a run. Unknown fields are empty.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	System string `json:"system"` // as in linux/amd64
	Go     string `json:"go"`
	Commit string `json:"commit"`
	// Changed means that the tree had uncommitted changes.
	Changed bool   `json:"changed"`
	Date    string `json:"date"`
}

// ThisMachine describes this machine; dir is a folder in the repository.
func ThisMachine(ctx context.Context, dir string, cpus int) Machine {
	m := Machine{
		CPUs: cpus, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Date: time.Now().UTC().Format(time.DateOnly),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(text))
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if head, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(head))
	}
	if status, err := exec.CommandContext(ctx, "git", "-C", dir, "status", "--porcelain").Output(); err == nil {
		m.Changed = len(status) > 0
	}
	return m
}

// cpuModel returns the name of the first CPU in /proc/cpuinfo.
func cpuModel(text string) string {
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// String returns the line under a table.
func (m Machine) String() string {
	commit := m.Commit
	if m.Changed {
		commit += " with changes"
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s %s, commit %s, %s", m.CPU, m.CPUs, m.Kernel, m.Go, m.System, commit, m.Date)
}
