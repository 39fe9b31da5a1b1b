package table

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/compare"
)

// The markers around a table. The first says what is in it:
//
//	<!-- table: cpu_us of frames/A frames/B -->              figures, a line for each server
//	<!-- table: cpu_us of http/hello to fasthttp -->         ratios, with their intervals
//	<!-- table: ns of routes by case -->                     a line for each case, a column for each server
//	<!-- table: facts of frames -->, losses, packages, versions, scoreboard of torture
const (
	beginning = "<!-- table: "
	ending    = "<!-- table end -->"
)

// Pages are those with tables, in the repository whose folder bench is module.
func Pages(module string) (all []string) {
	for _, name := range []string{"bench/figures.md", "docs/http1.md", "docs/tls.md"} {
		all = append(all, filepath.Join(module, "..", name))
	}
	return all
}

// none is a cell without a value.
const none = "–"

// figures are how a figure is headed, and by what it is multiplied.
var figures = map[string]struct {
	label string
	scale float64
}{
	"cpu_us": {"CPU µs", 1}, "rate": {"thousand/s", 1e-3}, "p50_us": {"p50 µs", 1}, "p99_us": {"p99 µs", 1}, "p999_us": {"p99.9 µs", 1},
	"per_conn_bytes": {"bytes", 1}, "peak_bytes": {"peak MiB", 1.0 / (1 << 20)}, "ns": {"ns", 1},
}

// spec is what a marker asks for.
type spec struct {
	figures, rows []string
	to            string // ratios to this server; empty: values
	byCase        bool
}

func parseSpec(text string) (s spec, err error) {
	into := &s.figures
	for word := range strings.FieldsSeq(text) {
		switch word {
		case "of":
			into = &s.rows
		case "to", "by":
			into = new([]string)
		case "case":
			s.byCase = true
		default:
			if *into = append(*into, word); into != &s.figures && into != &s.rows {
				s.to = word
			}
		}
	}
	if len(s.figures) == 0 {
		err = errors.New("a marker says nothing; see package table")
	}
	return s, err
}

// Fill returns the page with every table made again.
func (s *Stored) Fill(page string) (string, error) {
	var out strings.Builder
	inside := ""
	for line := range strings.Lines(page) {
		bare := strings.TrimSpace(line)
		if bare == ending {
			inside = ""
		} else if inside != "" {
			continue
		}
		out.WriteString(line)
		if text, found := strings.CutPrefix(bare, beginning); found {
			made, err := s.Table(strings.TrimSuffix(text, "-->"))
			if err != nil {
				return "", fmt.Errorf("%s: %w", bare, err)
			}
			out.WriteString("\n" + made + "\n")
			inside = bare
		}
	}
	if inside != "" || out.Len() > 0 && !strings.Contains(page, beginning) {
		return "", fmt.Errorf("the page has no %q, or the marker %q has no %q behind it", beginning, inside, ending)
	}
	return out.String(), nil
}

// Table makes the table that text describes.
func (s *Stored) Table(text string) (string, error) {
	want, err := parseSpec(text)
	if err != nil {
		return "", err
	}
	switch want.figures[0] {
	case "versions":
		return s.versions(), nil
	case "losses":
		return s.losses(), nil
	case "packages":
		return s.packages(), nil
	case "scoreboard":
		return s.scoreboard(want.rows)
	}
	var rows []*Row
	for _, name := range s.names(want.rows...) {
		rows = append(rows, s.rows[name])
	}
	switch {
	case len(rows) == 0:
		return fmt.Sprintf("*No run is stored. `go run ./bench/cmd/peers run %s` stores one.*\n", strings.Join(want.rows, " ")), nil
	case want.figures[0] == "facts":
		return facts(rows), nil
	}
	for _, figure := range want.figures {
		if figures[figure].label == "" {
			return "", fmt.Errorf("there is no figure %q; there are %s", figure, strings.Join(slices.Sorted(maps.Keys(figures)), ", "))
		}
	}
	g := newGrid(rows, want)
	return g.markdown(), nil
}

// at is where a cell's values are.
type at struct {
	row    *Row
	of     string // the case
	figure string
}

// heading is a column's, or with cases a line's: what tells it from the others.
func (a at) heading(want spec, rows int) string {
	_, name, _ := strings.Cut(a.row.Name, "/")
	var parts []string
	if rows > 1 || len(want.figures) == 1 && a.of == "" && name != "" {
		parts = append(parts, name)
	}
	if a.of != "" {
		parts = append(parts, a.of)
	}
	if len(want.figures) > 1 || len(parts) == 0 {
		parts = append(parts, figures[a.figure].label)
	}
	return strings.Join(parts, ", ")
}

// grid is a table: the places across, the servers down, or with cases the other way round.
type grid struct {
	want    spec
	rows    []*Row
	places  []at
	servers []Server
	ratios  map[at]map[string]compare.Change
}

func newGrid(rows []*Row, want spec) *grid {
	g := &grid{want: want, rows: rows, ratios: map[at]map[string]compare.Change{}}
	for _, r := range rows {
		for _, of := range r.Cases() {
			for _, figure := range want.figures {
				place := at{r, of, figure}
				if slices.ContainsFunc(r.Servers, func(s Server) bool { return len(r.Values(s.Name, of, figure)) > 0 }) {
					g.places = append(g.places, place)
				}
			}
		}
		for _, server := range r.Servers {
			if !slices.ContainsFunc(g.servers, func(s Server) bool { return s.Name == server.Name }) {
				g.servers = append(g.servers, server)
			}
		}
	}
	if want.to != "" {
		g.judge()
	}
	return g
}

// judge compares all cells with the one server, in one family: at most one table in twenty has an
// interval that does not hold the true ratio.
func (g *grid) judge() {
	var all []compare.Figure
	var where []func(compare.Change)
	for _, place := range g.places {
		g.ratios[place] = map[string]compare.Change{}
		for _, s := range g.servers {
			f := paired(place, g.want.to, s.Name)
			if s.Name == g.want.to || len(f.Pairs) == 0 {
				continue
			}
			all = append(all, f)
			where = append(where, func(c compare.Change) { g.ratios[place][s.Name] = c })
		}
	}
	for i, change := range (compare.Rules{Tolerance: -1}).Compare(all).Changes {
		where[i](change)
	}
}

// paired has the values of two servers, by round.
func paired(place at, a, b string) compare.Figure {
	f := compare.Figure{Name: place.row.Name + " " + place.of + " " + b, Unit: place.figure}
	as, bs := place.row.Values(a, place.of, place.figure), place.row.Values(b, place.of, place.figure)
	for _, round := range slices.Sorted(maps.Keys(as)) {
		if v, has := bs[round]; has {
			f.Pairs = append(f.Pairs, compare.Pair{ID: round + 1, A: as[round], B: v})
		}
	}
	return f
}

func (g *grid) cell(place at, server string) string {
	values := slices.Sorted(maps.Values(place.row.Values(server, place.of, place.figure)))
	text := none
	switch change, judged := g.ratios[place][server]; {
	case g.want.to != "" && server == g.want.to && len(values) > 0:
		text = "1"
	case g.want.to != "" && judged && change.Ratio != nil:
		text = digits(*change.Ratio)
		if change.Low != nil && change.High != nil {
			text += fmt.Sprintf(" (%s–%s)", digits(*change.Low), digits(*change.High))
		}
	case g.want.to == "" && len(values) > 0:
		scale := figures[place.figure].scale
		text = digits(scale * Middle(values))
		if len(values) > 1 {
			text += fmt.Sprintf(" (%s–%s)", digits(scale*values[0]), digits(scale*values[len(values)-1]))
		}
	}
	failed := 0
	for _, s := range place.row.Samples {
		if s.Server == server && s.Case == place.of && s.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		text += fmt.Sprintf(" %d×failed", failed)
	}
	return text
}

// markdown writes the grid without the lines that have nothing.
func (g *grid) markdown() string {
	rows := [][]string{{"server"}}
	if g.want.byCase {
		rows[0][0] = ""
		for _, s := range g.servers {
			rows[0] = append(rows[0], s.label())
		}
		for _, place := range g.places {
			line := []string{place.heading(g.want, len(g.rows))}
			for _, s := range g.servers {
				line = append(line, g.cell(place, s.Name))
			}
			rows = append(rows, line)
		}
		return markdown(rows)
	}
	for _, place := range g.places {
		rows[0] = append(rows[0], place.heading(g.want, len(g.rows)))
	}
	for _, s := range g.servers {
		line, some := []string{s.label()}, false
		for _, place := range g.places {
			text := g.cell(place, s.Name)
			some = some || text != none
			line = append(line, text)
		}
		if some {
			rows = append(rows, line)
		}
	}
	return markdown(rows)
}

// label is a server in a table, hone's in bold.
func (s Server) label() string {
	if s.Ours() {
		return "**" + s.Name + "**"
	}
	return strings.TrimSpace(s.Name + " " + s.Version)
}

// mostLevel is up to which ratio of medians a peer and hone are about level.
const mostLevel = 1.05

// losses lists the peers that are better than hone's default engine: in CPU, in p99 at a fixed rate and in
// memory, each row a family of its own.
func (s *Stored) losses() string {
	rows := [][]string{{"row", "figure", "hone", "certainly better: hone ÷ peer", "perhaps better"}}
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[name]
		our := slices.IndexFunc(r.Servers, Server.Default)
		if our < 0 {
			continue
		}
		hone := r.Servers[our]
		var all []compare.Figure
		var peers []Server
		var places []at
		for _, of := range r.Cases() {
			for _, figure := range []string{"cpu_us", "p99_us", "per_conn_bytes", "ns"} {
				for _, peer := range r.Servers {
					place := at{r, of, figure}
					if f := paired(place, peer.Name, hone.Name); !peer.Ours() && peer.Program != "" && peer.Program != Floor && len(f.Pairs) > 0 {
						all, peers, places = append(all, f), append(peers, peer), append(places, place)
					}
				}
			}
		}
		line := []string{"", "", "", "", ""}
		for i, change := range (compare.Rules{Tolerance: -1}).Compare(all).Changes {
			certain := change.Verdict == compare.Worse
			if !certain && (change.Ratio == nil || *change.Ratio <= mostLevel) {
				continue
			}
			title := name
			if places[i].of != "" {
				title += ", " + places[i].of
			}
			if label := figures[places[i].figure].label; line[0] != title || line[1] != label {
				line = []string{title, label, digits(*change.MedianB), "", ""}
				rows = append(rows, line)
			}
			to := &line[3]
			if !certain {
				to = &line[4]
			}
			if *to != "" {
				*to += ", "
			}
			*to += fmt.Sprintf("%s %s (%s–%s)", peers[i].Name, digits(*change.Ratio), digits(*change.Low), digits(*change.High))
		}
	}
	return cmp.Or(markdown(rows), "*In no stored row.*\n")
}

// packages says which of hone's packages each row's servers are made of; rows of the same are in one line.
func (s *Stored) packages() string {
	of := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		if p := s.rows[name].Packages; len(p) > 0 {
			key := strings.Join(p, ", ")
			of[key] = append(of[key], name)
		}
	}
	rows := [][]string{{"rows", "packages"}}
	for _, key := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Compare(of[a][0], of[b][0]) }) {
		rows = append(rows, []string{strings.Join(of[key], ", "), key})
	}
	return markdown(rows)
}

// facts describes how rows were measured.
func facts(rows []*Row) string {
	var t strings.Builder
	for _, r := range rows {
		t.WriteString(r.Invalid())
		fmt.Fprintf(&t, "- %s: %s. %v; %d rounds", r.Name, r.Title, r.Machine, r.Rounds)
		if r.WindowMS > 0 {
			fmt.Fprintf(&t, " of %.1f s", float64(r.WindowMS)/1e3)
		}
		if r.Seed != 0 {
			fmt.Fprintf(&t, " (seed %d)", r.Seed)
		}
		fmt.Fprintf(&t, ", %d samples thrown away.", r.Retaken)
		if r.Client != "" {
			fmt.Fprintf(&t, " Measured by %s.", r.Client)
		}
		t.WriteString("\n")
	}
	return t.String()
}

// Median returns a figure's; false without values.
func (r *Row) Median(server, of, figure string) (float64, bool) {
	values := slices.Collect(maps.Values(r.Values(server, of, figure)))
	if len(values) == 0 {
		return 0, false
	}
	return Middle(values), true
}

// Middle returns the median of values, of which there must be one.
func Middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// digits formats a value with three significant digits, and no more decimals than that needs.
func digits(v float64) string {
	places := 0
	for limit := 100.0; places < 4 && v < limit && v != 0; limit /= 10 {
		places++
	}
	return strconv.FormatFloat(v, 'f', min(places, 3), 64)
}

// markdown formats rows as a table; the first row is the header. Without further rows it
// returns nothing.
func markdown(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	var t strings.Builder
	for i, row := range rows {
		for j := range row {
			row[j] = strings.NewReplacer("|", "/", "\n", " ").Replace(row[j])
		}
		t.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			t.WriteString("|---" + strings.Repeat("|---", len(row)-1) + "|\n")
		}
	}
	return t.String()
}
