package bench

import (
	"bytes"
	"html/template"
	"io"
	"slices"
	"sort"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// page stands by itself: charts are SVG inside it, and nothing is fetched.
var page = template.Must(template.New("bench").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>thawpool bench</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
pre{overflow:auto;background:#f4f4f4;padding:1rem}figure{margin:2rem 0}svg{max-width:100%;height:auto}</style>
<h1>thawpool bench</h1>
<pre>{{.Text}}</pre>
{{range .Charts}}<figure>{{.SVG}}<figcaption>{{.Caption}}</figcaption></figure>
{{end}}</html>
`))

type chart struct {
	SVG     template.HTML
	Caption string
}

// WriteHTML writes the report with its charts.
func (r Report) WriteHTML(w io.Writer) error {
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		return err
	}
	charts := []struct {
		draw    func() (*plot.Plot, error)
		caption string
	}{
		{r.latencyChart, "Latency: how many of the calls were answered within a time. The time axis is logarithmic."},
		{r.hitChart, "Share of calls that found a frozen sandbox ready, second by second."},
		{r.levelChart, "Frozen sandboxes in the pool over time."},
	}
	data := struct {
		Text   string
		Charts []chart
	}{Text: text.String()}
	for _, c := range charts {
		svg, err := render(c.draw)
		if err != nil {
			return err
		}
		if svg != "" {
			data.Charts = append(data.Charts, chart{SVG: svg, Caption: c.caption})
		}
	}
	return page.Execute(w, data)
}

func render(draw func() (*plot.Plot, error)) (template.HTML, error) {
	p, err := draw()
	if err != nil || p == nil {
		return "", err
	}
	to, err := p.WriterTo(24*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if _, err := to.WriteTo(&b); err != nil {
		return "", err
	}
	_, svg, _ := bytes.Cut(b.Bytes(), []byte("<svg")) // the XML head has no place inside a page
	return template.HTML("<svg" + string(svg)), nil   //nolint:gosec // drawn here from numbers and our own names
}

// latencyChart is the cumulative distribution of every row: of its warm answers where rounds measured them.
func (r Report) latencyChart() (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "milliseconds", "% of calls"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 2}
	lines := make([]any, 0, 2*len(r.Rows))
	for _, row := range r.Rows {
		values := row.WarmAll
		for _, s := range row.Samples {
			if s.Err == nil && len(row.WarmAll) == 0 {
				values = append(values, msOf(s.Latency))
			}
		}
		if len(values) < 2 {
			continue
		}
		values = slices.Sorted(slices.Values(values))
		xy := make(plotter.XYs, len(values))
		for i, v := range values {
			xy[i] = plotter.XY{X: max(v, 0.001), Y: percent * float64(i+1) / float64(len(values))}
		}
		lines = append(lines, row.Name, xy)
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return p, plotutil.AddLines(p, lines...)
}

func (r Report) hitChart() (*plot.Plot, error) {
	return r.overTime("% hits", func(row Row) plotter.XYs {
		hits, all := map[int]int{}, map[int]int{}
		for _, s := range row.Samples {
			if s.Err == nil && s.Pool != "" {
				second := int(s.At / time.Second)
				all[second]++
				if s.Pool == "hit" {
					hits[second]++
				}
			}
		}
		var xy plotter.XYs
		for second, n := range all {
			xy = append(xy, plotter.XY{X: float64(second), Y: 100 * float64(hits[second]) / float64(n)})
		}
		return xy
	})
}

func (r Report) levelChart() (*plot.Plot, error) {
	return r.overTime("frozen sandboxes", func(row Row) plotter.XYs {
		var xy plotter.XYs
		for _, l := range row.Levels {
			xy = append(xy, plotter.XY{X: l.At.Seconds(), Y: float64(l.Ready)})
		}
		return xy
	})
}

func (r Report) overTime(label string, points func(Row) plotter.XYs) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text, p.Y.Min = "seconds", label, 0
	var lines []any
	for _, row := range r.Rows {
		xy := points(row)
		if len(xy) < 2 {
			continue
		}
		sort.Slice(xy, func(i, j int) bool { return xy[i].X < xy[j].X })
		lines = append(lines, row.Name, xy)
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return p, plotutil.AddLines(p, lines...)
}
