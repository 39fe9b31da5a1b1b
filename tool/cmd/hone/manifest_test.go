package main

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The manifest of agents has arguments that hone takes.
func TestAgentsManifest(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/kubernetes/agents/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			Completions, Parallelism int
			Template                 struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	containers := job.Spec.Template.Spec.Containers
	if len(containers) != 1 || len(containers[0].Args) < 2 || job.Spec.Completions != job.Spec.Parallelism {
		t.Fatalf("%+v", job)
	}
	cmd, args, err := newRoot().Find(containers[0].Args)
	if err != nil || cmd.Name() != "agent" {
		t.Fatalf("%v, %v", cmd.Name(), err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(text), "secretName: hone-agents") || cmd.Flags().Lookup("once").Value.String() != "true" {
		t.Error("an agent of a Job must end, and have its token")
	}
}
