package main

import "runtime/debug"

// release is the version of a build that has none of its own, such as one from a folder
// without .git. deploy/Dockerfile has the linker set it: -X main.release=v1.2.3.
var release = ""

// version is what the metric hone_info says.
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
