package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// TortureSchema is that of a stored run of tool/torture.
const TortureSchema = "hone.bench.torture/1"

// Torture is a run of tool/torture against every server.
type Torture struct {
	Head
	Wait     float64   `json:"wait_seconds"` // for the servers' own time limits
	Seed     uint64    `json:"seed"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is what became of a server in one scenario that applies to it.
type Outcome struct {
	Server   string `json:"server"`
	Scenario string `json:"scenario"`
	Verdict  string `json:"verdict"`
	Words    string `json:"words"`
}

// http2 begins the names of servers that were attacked over HTTP/2.
const http2 = "http2/"

// name tells the run over HTTP/2 from the other.
func (t *Torture) name() string {
	if slices.ContainsFunc(t.Servers, func(s Server) bool { return strings.HasPrefix(s.Name, http2) }) {
		return "torture-http2"
	}
	return "torture"
}

// scoreboard has a line for each server: how many scenarios have each verdict, and in which it fell.
func (s *Stored) scoreboard(names []string) (string, error) {
	if len(names) != 1 || s.tortures[names[0]] == nil {
		return "", fmt.Errorf("there is no run %q; there are torture and torture-http2", names)
	}
	t := s.tortures[names[0]]
	const fell = "fell"
	verdicts := []string{"survived", "slower", fell, "not found out"}
	rows := [][]string{append(append([]string{"server"}, verdicts...), "fell in")}
	for _, server := range t.Servers {
		count := map[string]int{}
		var scenarios []string
		for _, o := range t.Outcomes {
			if o.Server == server.Name {
				if count[o.Verdict]++; o.Verdict == fell {
					scenarios = append(scenarios, o.Scenario)
				}
			}
		}
		if len(count) == 0 {
			continue
		}
		row := []string{server.label()}
		for _, v := range verdicts {
			row = append(row, strconv.Itoa(count[v]))
		}
		rows = append(rows, append(row, strings.Join(scenarios, ", ")))
	}
	return fmt.Sprintf("%s\n%s%v. Each server started by hone (`--cmd`), `--wait %gs --seed %d`.\n", markdown(rows), t.Invalid(), t.Machine, t.Wait, t.Seed), nil
}
