package machine

import (
	"embed"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"
)

// host is a machine as one process sees it: its files, and data from other sources. The
// zero values of all fields except root mean not known.
type host struct {
	root         fs.FS // the whole file system; empty on other systems
	goos, goarch string
	procs        int  // GOMAXPROCS
	superuser    bool // needs no sudo
	pid          int  // of this process
	reported     reported
	wait         func(time.Duration)
}

// reported is what system calls report where there are no files.
type reported struct {
	cpu, kernel string
	cpus        int
	memory      uint64 // bytes
	descriptors descriptorLimit
}

// thisHost is the machine that runs this process.
func thisHost() *host {
	h := &host{
		root: embed.FS{}, goos: runtime.GOOS, goarch: runtime.GOARCH,
		procs: runtime.GOMAXPROCS(0), superuser: os.Geteuid() == 0, pid: os.Getpid(),
		reported: ask(), wait: time.Sleep,
	}
	if h.goos == "linux" {
		h.root = os.DirFS("/")
	}
	h.reported.cpus = runtime.NumCPU()
	h.reported.descriptors = askDescriptors()
	return h
}

// text returns a file's content without surrounding white space. Empty: no such file, or
// it cannot be read.
func (h *host) text(path string) string {
	content, err := fs.ReadFile(h.root, path)
	if err != nil {
		return ""
	}
	return strings.Trim(string(content), " \t\n\x00")
}

func (h *host) exists(path string) bool {
	_, err := fs.Stat(h.root, path)
	return err == nil
}

// glob lists the files matching a pattern, sorted.
func (h *host) glob(pattern string) []string {
	paths, err := fs.Glob(h.root, pattern)
	if err != nil {
		panic("machine: " + err.Error()) // only constant patterns are used
	}
	return paths
}
