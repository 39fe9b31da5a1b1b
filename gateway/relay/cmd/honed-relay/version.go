package main

import "runtime/debug"

// version returns the version for the metric hone_info.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok || build.Main.Version == "" {
		return "(devel)"
	}
	return build.Main.Version
}
