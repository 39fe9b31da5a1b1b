package report

import (
	"fmt"
	"strconv"
	"strings"
)

// The stored run of tool/torture, and its schema.
const (
	tortureFile   = "torture.json"
	torture2File  = "torture-http2.json"
	TortureSchema = "hone.bench.torture/1"
)

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

// Tables has the one table.
func (t *Torture) Tables() []Table {
	return []Table{{"scoreboard", func() string {
		return fmt.Sprintf("%s\n%v. Each server started by hone (`--cmd`), `--wait %gs --seed %d`.\n", t.scoreboard(), t.Machine, t.Wait, t.Seed)
	}}}
}

// scoreboard returns a table with a row for each server: how many scenarios have each verdict, and
// in which it fell.
func (t *Torture) scoreboard() string {
	const fell = "fell"
	verdicts := []string{"survived", "slower", fell, "not found out"}
	rows := [][]string{append(append([]string{"server"}, verdicts...), "fell in")}
	for _, e := range t.Servers {
		count := map[string]int{}
		var names []string
		for _, o := range t.Outcomes {
			if o.Server != e.Name {
				continue
			}
			if count[o.Verdict]++; o.Verdict == fell {
				names = append(names, o.Scenario)
			}
		}
		if len(count) == 0 {
			continue
		}
		row := []string{serverName(e)}
		for _, v := range verdicts {
			row = append(row, strconv.Itoa(count[v]))
		}
		rows = append(rows, append(row, strings.Join(names, ", ")))
	}
	return markdown(rows)
}
