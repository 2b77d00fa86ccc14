package check

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/runlot/runlot/internal/adapter/prometheus"
)

// known are the labels of the metrics that expressions may name.
func known() map[string][]string {
	metrics := map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	for _, m := range prometheus.Table {
		metrics[m.Name] = m.Labels
		if m.Type == "histogram" {
			metrics[m.Name+"_bucket"] = append(slices.Clone(m.Labels), "le")
			metrics[m.Name+"_sum"], metrics[m.Name+"_count"] = m.Labels, m.Labels
		}
	}
	return metrics
}

// examine finds what is wrong with an expression: metrics and labels that there are not.
func examine(text string) (problems []string) {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	metrics, target := known(), []string{"job", "instance"}
	available := slices.Clone(target)
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		list, ok := metrics[v.Name]
		if !ok {
			problems = append(problems, "there is no metric "+v.Name)
			return nil
		}
		available = append(available, list...)
		for _, m := range v.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(list, m.Name) && !slices.Contains(target, m.Name) {
				problems = append(problems, v.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		var grouped []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouped = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
			}
		}
		for _, label := range grouped {
			if !slices.Contains(available, label) {
				problems = append(problems, "nothing has the label "+label)
			}
		}
		return nil
	})
	return problems
}

func TestExamineFindsMistakes(t *testing.T) {
	for _, text := range []string{
		"runlot_queue_message", `runlot_queue_messages{queu="a"}`, "sum by (app) (runlot_queue_messages)", "sum(", "runlot_queue_messages_bucket",
		"sum by (le) (rate(runlot_group_commit_messages_count[5m]))",
	} {
		if len(examine(text)) == 0 {
			t.Errorf("%s passes", text)
		}
	}
	if problems := examine(`sum by (queue, le) (rate(runlot_queue_handler_duration_seconds_bucket{database="a", job="celld"}[5m]))`); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile("../prometheus/rules.yml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	names := map[string]bool{}
	template := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || r.Alert == "" {
				t.Errorf("there are two alerts %q", r.Alert)
			}
			names[r.Alert] = true
			for _, problem := range examine(r.Expr) {
				t.Errorf("%s: %s", r.Alert, problem)
			}
			if r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s has no summary, or no severity", r.Alert)
			}
			// What a text names is in the result of the expression.
			for _, text := range r.Annotations {
				for _, label := range template.FindAllStringSubmatch(text, -1) {
					if label[1] != "instance" && !strings.Contains(r.Expr, label[1]) {
						t.Errorf("%s: its text names the label %s, which its result has not", r.Alert, label[1])
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Error("there are no alerts")
	}
}

// dashboard is the part of a dashboard of Grafana that is looked at.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../grafana/runlot.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	variables := map[string]bool{"__rate_interval": true}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type != "query" {
			continue
		}
		parts := values.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Errorf("the variable %s is no list of values: %s", v.Name, v.Definition)
			continue
		}
		for _, problem := range examine("sum by (" + parts[2] + ") (" + parts[1] + ")") {
			t.Errorf("the variable %s: %s", v.Name, problem)
		}
	}
	names := regexp.MustCompile(`\$(\w+)`)
	shown, ids := map[string]bool{}, map[int]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for j := range i {
			o := &d.Panels[j]
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("the panels %q and %q lie over each other", o.Title, p.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range names.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[name[1]] {
					t.Errorf("%q: there is no variable %s", p.Title, name[1])
				}
			}
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			for _, problem := range examine(expression) {
				t.Errorf("%q: %s in %s", p.Title, problem, target.Expr)
			}
			for name := range known() {
				if strings.Contains(expression, name) {
					shown[name] = true
				}
			}
		}
	}
	// What is measured for nothing is not worth a metric.
	for _, m := range prometheus.Table {
		if !shown[m.Name] && m.Name != "runlot_queue_delivered_messages_total" && !strings.HasPrefix(m.Name, "runlot_postgres_connection") {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}
