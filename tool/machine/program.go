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

// Program reads what the binary at path says of itself. Of one that is not Go's
// only the soft key sha256 is known.
//
// Strict keys are go, compiler, goos, goarch, the architecture's level under its
// own name (GOAMD64 and its like), GOEXPERIMENT, race, cgo, pgo, tags, gcflags and
// asmflags; soft ones sha256, revision, modified and godebug. Settings at their
// defaults that the linker does not write down are absent. It reads the whole
// file.
func Program(path string) (Facts, error) {
	file, err := os.Open(path)
	if err != nil {
		return Facts{}, fmt.Errorf("machine: %w; name the program's file", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Facts{}, fmt.Errorf("machine: %w; name the program's file", err)
	}
	f := Facts{Strict: map[string]string{}, Soft: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}}
	build, err := buildinfo.Read(file)
	if err != nil {
		return f, nil // the file could be read, so it is not Go's
	}
	f.Strict["go"] = build.GoVersion
	for _, s := range build.Settings {
		f.setting(s)
	}
	return f, nil
}

// setting takes one of a build's settings in. Values with folders in them are
// about somebody's machine.
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
