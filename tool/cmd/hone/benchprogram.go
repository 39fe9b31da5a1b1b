package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// ofPrograms lists the settings that belong to the programs of runs and not to the machine: those of different
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

// identical says which programs are one.
func identical(runs []*record.Run) (notes []string) {
	for j := range runs {
		for i := range j {
			a, b := runs[i].Environment.Soft, runs[j].Environment.Soft
			how := "different commands"
			if a["command"] == b["command"] {
				how = "the same command: any difference is noise"
			}
			if a["sha256"] != "" && a["sha256"] == b["sha256"] {
				notes = append(notes, fmt.Sprintf("%c and %c are the same program, started by %s", 'A'+i, 'A'+j, how))
			}
		}
	}
	return notes
}
