package main

import (
	"maps"
	"slices"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// ofPrograms lists the settings that belong to the programs of two runs and not to the machine: those of two different
// programs may differ.
func ofPrograms(target codec.Target, runs []*record.Run) (keys []string) {
	machine := trial.Environment(target).Strict
	for _, run := range runs {
		for key := range maps.Keys(run.Environment.Strict) {
			if _, ofMachine := machine[key]; !ofMachine && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// identical says that two programs are one; it returns nothing otherwise.
func identical(runs []*record.Run) []string {
	if len(runs) != 2 {
		return nil
	}
	a, b := runs[0].Environment.Soft, runs[1].Environment.Soft
	switch {
	case a["sha256"] == "" || a["sha256"] != b["sha256"]:
		return nil
	case a["command"] == b["command"]:
		return []string{"A and B are the same program, started by the same command: any difference is noise"}
	}
	return []string{"A and B are the same program, started by different commands"}
}
