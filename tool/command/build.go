package command

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build is where a program comes from.
type Build struct {
	Version  string  `json:"version"`
	Commit   *string `json:"commit"`   // null: unknown
	Modified *bool   `json:"modified"` // whether files differ from that commit
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

// BuildOf reads the build information of this program. release, unless it is empty, is
// the version of a build without version control data.
func BuildOf(release string) Build {
	v := Build{Version: cmp.Or(release, "(devel)"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if release == "" && build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = &s.Value
		case "vcs.modified":
			v.Modified = new(s.Value == "true")
		}
	}
	return v
}
