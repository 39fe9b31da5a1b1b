package spec

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/hone-go/hone/tool/trial"
)

// programs are the programs of a comparison: that of --against-cmd (A) beside that of --cmd (B), or the rows of a
// scenario file.
type programs struct {
	against program
	rows    []program
}

// program describes one of several programs.
type program struct {
	name, cmd, build, target string
	env                      []string
	ready                    trial.Ready
}

func (f *programs) settings() []setting {
	p := &f.against
	return []setting{
		{name: "against-cmd", value: &p.cmd, usage: "shell `COMMAND` that runs another program (A), to measure alternately with that of --cmd (B)"},
		{name: "against-target", value: &p.target, usage: "where A listens, as in --target and over the same protocol (default: at --target as well)"},
		{name: "against-build", value: &p.build, usage: "shell `COMMAND` that builds A, run once"},
		{name: "against-env", value: &p.env, usage: "environment variable of A; those of --env are B's alone"},
		{name: "against-ready", value: readiness(&p.ready), usage: "how to tell that A is ready, as in --ready (its target accepts connections)"},
		{name: "program", hidden: true, value: &value{kind: "PROGRAM", table: f.tableOfPrograms, set: func(string) error {
			return errors.New("programs need a file; write them there, as in [[program]], and name it after --scenario")
		}}, usage: "programs to measure alternately, as a scenario file has them"},
	}
}

// readiness returns a setting for a readiness check.
func readiness(to *trial.Ready) *value {
	return &value{kind: "SIGN", set: func(text string) (err error) {
		*to, err = trial.ParseReady(text)
		return err
	}}
}

func (f *programs) tableOfPrograms(table any, _ string) error {
	tables, ok := tablesOf(table)
	if !ok {
		return errors.New("they must be tables; write each as [[program]]")
	}
	for i, t := range tables {
		var p program
		var sign string
		err := fields{
			"name": intoText(&p.name), "cmd": intoText(&p.cmd), "build": intoText(&p.build), "target": intoText(&p.target),
			"ready": intoText(&sign), "env": intoTexts(&p.env),
		}.read(t)
		if err == nil && sign != "" {
			p.ready, err = trial.ParseReady(sign)
		}
		if err == nil && p.cmd == "" {
			err = errors.New("it has no cmd, which says how the program is started")
		}
		if err != nil {
			return place("program", t["name"], i, err)
		}
		f.rows = append(f.rows, p)
	}
	return nil
}

// programName is the name of the program that a command starts: the rest may be secret.
func programName(command string) string {
	for word := range strings.FieldsSeq(command) {
		if word != "exec" && !strings.Contains(word, "=") {
			return strings.Trim(filepath.Base(filepath.ToSlash(word)), `'"`)
		}
	}
	return "the server"
}
