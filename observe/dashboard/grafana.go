package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schemaVersion is Grafana 10's, which all later versions read.
const schemaVersion = 39

// The page is 24 columns wide.
const (
	columns     = 24
	panelWidth  = 8
	panelHeight = 8
)

// The used part of Grafana's JSON, under its names.

type grafanaPage struct {
	UID           string         `json:"uid"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Tags          []string       `json:"tags"`
	SchemaVersion int            `json:"schemaVersion"`
	Editable      bool           `json:"editable"`
	GraphTooltip  int            `json:"graphTooltip"` // 1: one crosshair for all panels
	Refresh       string         `json:"refresh"`
	Time          grafanaSpan    `json:"time"`
	Links         []grafanaLink  `json:"links"`
	Templating    grafanaList    `json:"templating"`
	Annotations   grafanaNone    `json:"annotations"`
	Panels        []grafanaPanel `json:"panels"`
}

type grafanaSpan struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type grafanaLink struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	AsDropdown  bool     `json:"asDropdown"`
}

type grafanaNone struct {
	List []string `json:"list"`
}

type grafanaList struct {
	List []grafanaVariable `json:"list"`
}

type grafanaVariable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      any            `json:"query"`
	Datasource *grafanaSource `json:"datasource,omitempty"`
	Refresh    int            `json:"refresh"` // 2: whenever the time range changes
	Multi      bool           `json:"multi"`
	IncludeAll bool           `json:"includeAll"`
	AllValue   string         `json:"allValue,omitempty"`
	Sort       int            `json:"sort"`
}

type grafanaQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

type grafanaSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type grafanaPanel struct {
	ID          int             `json:"id"`
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description,omitempty"`
	GridPos     grafanaGrid     `json:"gridPos"`
	Datasource  *grafanaSource  `json:"datasource,omitempty"`
	FieldConfig *grafanaFields  `json:"fieldConfig,omitempty"`
	Options     map[string]any  `json:"options,omitempty"`
	Targets     []grafanaTarget `json:"targets,omitempty"`
	Links       []grafanaRef    `json:"links,omitempty"`
	Collapsed   *bool           `json:"collapsed,omitempty"`
}

type grafanaRef struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	TargetBlank bool   `json:"targetBlank"`
}

type grafanaGrid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type grafanaFields struct {
	Defaults  grafanaField      `json:"defaults"`
	Overrides []grafanaOverride `json:"overrides"`
}

type grafanaOverride struct {
	Matcher    grafanaOption   `json:"matcher"`
	Properties []grafanaOption `json:"properties"`
}

// grafanaOption has one of the two forms of a value.
type grafanaOption struct {
	ID      string `json:"id"`
	Options string `json:"options,omitempty"`
	Value   any    `json:"value,omitempty"`
}

type grafanaThresholds struct {
	Mode  string        `json:"mode"`
	Steps []grafanaStep `json:"steps"`
}

type grafanaStep struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // null: from the bottom up
}

type grafanaField struct {
	Unit       string             `json:"unit"`
	Min        *int               `json:"min,omitempty"`
	NoValue    string             `json:"noValue"`
	Thresholds *grafanaThresholds `json:"thresholds,omitempty"`
	Custom     map[string]any     `json:"custom,omitempty"`
}

type grafanaTarget struct {
	RefID        string        `json:"refId"`
	Expr         string        `json:"expr"`
	LegendFormat string        `json:"legendFormat"`
	Datasource   grafanaSource `json:"datasource"`
	Instant      bool          `json:"instant"`
	Range        bool          `json:"range"`
}

// prometheus is the data source chosen at the top of the page.
func prometheus() grafanaSource { return grafanaSource{"prometheus", "${datasource}"} }

// encode returns the dashboard as Grafana reads it: the same bytes every time.
func (d Dashboard) encode() []byte {
	page := grafanaPage{
		UID: d.UID, Title: d.Title, Description: d.Help, Tags: []string{"hone"},
		SchemaVersion: schemaVersion, GraphTooltip: 1, Refresh: "10s", Time: grafanaSpan{"now-30m", "now"},
		Links:       []grafanaLink{{Title: "hone", Type: "dashboards", Tags: []string{"hone"}, IncludeVars: true, KeepTime: true}},
		Templating:  grafanaList{variables()},
		Annotations: grafanaNone{[]string{}},
	}
	id, y := 0, 0
	for _, row := range d.Rows {
		id++
		page.Panels = append(page.Panels, grafanaPanel{ID: id, Type: "row", Title: row.Title, GridPos: grafanaGrid{1, columns, 0, y}, Collapsed: new(false)})
		y++
		for i, p := range row.Panels {
			id++
			x := i % (columns / panelWidth) * panelWidth
			if i > 0 && x == 0 {
				y += panelHeight
			}
			page.Panels = append(page.Panels, p.encode(id, grafanaGrid{panelHeight, panelWidth, x, y}))
		}
		y += panelHeight
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(page); err != nil {
		panic("dashboard: " + err.Error()) // the types above can always be encoded
	}
	return out.Bytes()
}

// variables are the reader's choices: data source, job, instances.
func variables() []grafanaVariable {
	source := prometheus()
	ask := func(label, query string) grafanaVariable {
		return grafanaVariable{
			Name: label, Label: label, Type: "query", Datasource: &source, Refresh: 2, Sort: 1,
			Query: grafanaQuery{query, label}, Multi: true, IncludeAll: true, AllValue: ".+",
		}
	}
	return []grafanaVariable{
		{Name: "datasource", Label: "data source", Type: "datasource", Query: "prometheus", Refresh: 1},
		ask("job", "label_values(hone_info, job)"),
		ask("instance", `label_values(hone_info{job=~"$job"}, instance)`),
	}
}

// runbook is the URL of the alerts' entries; the alert's name in lower case is appended.
const runbook = "https://github.com/hone-go/hone/blob/main/docs/operations.md#"

// limitLine draws limits dashed, red and without a filled area.
func limitLine() grafanaOverride {
	return grafanaOverride{grafanaOption{ID: "byRegexp", Options: "/limit$/i"}, []grafanaOption{
		{ID: "color", Value: map[string]any{"mode": "fixed", "fixedColor": "red"}},
		{ID: "custom.fillOpacity", Value: 0},
		{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 8}}},
	}}
}

// encode returns the panel at its position.
func (p Panel) encode(id int, at grafanaGrid) grafanaPanel {
	source := prometheus()
	panel := grafanaPanel{
		ID: id, Type: string(p.Form), Title: p.Title, Description: p.Help, GridPos: at, Datasource: &source,
		FieldConfig: &grafanaFields{grafanaField{Unit: p.Unit, NoValue: p.noValue()}, []grafanaOverride{}},
	}
	for _, alert := range p.Alerts {
		panel.Links = append(panel.Links, grafanaRef{"What to do: " + alert, runbook + strings.ToLower(alert), true})
	}
	switch p.Form {
	case Lines:
		panel.FieldConfig.Defaults.Min = new(0)
		custom := map[string]any{"fillOpacity": 8, "showPoints": "never", "spanNulls": false}
		panel.FieldConfig.Defaults.Custom = custom
		if p.Threshold > 0 {
			panel.FieldConfig.Defaults.Thresholds = &grafanaThresholds{"absolute", []grafanaStep{{Color: "green"}, {"red", &p.Threshold}}}
			custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
		}
		for _, q := range p.Queries {
			if strings.HasSuffix(strings.ToLower(q.Legend), "limit") {
				panel.FieldConfig.Overrides = []grafanaOverride{limitLine()}
			}
		}
		panel.Options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	default:
		text := "value_and_name"
		if p.Form == Name {
			panel.Type, text = string(Value), "name"
		}
		panel.Options = map[string]any{
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "none", "graphMode": "none", "textMode": text,
		}
	}
	for i, q := range p.Queries {
		panel.Targets = append(panel.Targets, grafanaTarget{
			RefID: fmt.Sprintf("%c", 'A'+i), Expr: q.Expr, LegendFormat: q.Legend, Datasource: source,
			Instant: p.Form != Lines, Range: p.Form == Lines,
		})
	}
	return panel
}
