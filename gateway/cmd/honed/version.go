package main

import "runtime/debug"

// release is the version of a build without version information, such as one from a folder
// without .git. deploy/Dockerfile sets it with the linker flag -X main.release=v1.2.3.
var release = ""

// version returns the version for the metric hone_info.
func version() string {
	if release != "" {
		return release
	}
	build, ok := debug.ReadBuildInfo()
	if !ok || build.Main.Version == "" {
		return "(devel)"
	}
	return build.Main.Version
}
