package machine

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// Program reads the build information of the binary at path. For one not built with Go
// only the soft key sha256 is known.
//
// Strict keys are go, compiler, goos, goarch, the architecture level under its own name
// (such as GOAMD64), GOEXPERIMENT, race, cgo, pgo, tags, gcflags and asmflags; soft ones
// sha256, revision, modified and godebug. Defaults that the linker does not record are
// absent. It reads the whole file.
func Program(path string) (Facts, error) {
	file, err := os.Open(path)
	if err != nil {
		return Facts{}, fmt.Errorf("machine: %w; give the path of the program", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Facts{}, fmt.Errorf("machine: %w; give the path of the program", err)
	}
	f := Facts{Strict: map[string]string{}, Soft: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}}
	build, err := buildinfo.Read(file)
	if err != nil {
		return f, nil // readable, so not a Go binary
	}
	f.Strict["go"] = build.GoVersion
	for _, s := range build.Settings {
		f.setting(s)
	}
	return f, nil
}

// setting adds one build setting. Values that contain folders are withheld.
func (f *Facts) setting(s debug.BuildSetting) {
	inFolder := strings.ContainsAny(s.Value, `/\`)
	switch s.Key {
	case "-pgo":
		f.Strict["pgo"] = "on" // its value is a path
	case "-race", "-tags", "-gcflags", "-asmflags", "-compiler":
		if inFolder {
			s.Value = "with paths"
		}
		f.Strict[s.Key[1:]] = s.Value
	case "CGO_ENABLED":
		f.Strict["cgo"] = s.Value
	case "GOOS", "GOARCH":
		f.Strict[strings.ToLower(s.Key)] = s.Value
	case "DefaultGODEBUG":
		f.Soft["godebug"] = s.Value
	case "vcs.revision", "vcs.modified":
		f.Soft[s.Key[len("vcs."):]] = s.Value
	default:
		if strings.HasPrefix(s.Key, "GO") && !inFolder {
			f.Strict[s.Key] = s.Value
		}
	}
}
