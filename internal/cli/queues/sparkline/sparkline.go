// Package sparkline shows how fast messages came and went of late, in a line each.
package sparkline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/span"
)

// Points is how many numbers a line has.
const Points = 30

// blocks are the heights of a point, the lowest for 0 alone.
var blocks = []rune("▁▂▃▄▅▆▇█")

// Lines are what there is to say of rates, by name. Blocks says that the terminal shows block elements; else there are numbers
// alone. What is not known yet has no point.
func Lines(r *client.QueueRates, showBlocks bool) [][2]string {
	known := 0
	if missing := r.Known.Sub(r.From); missing > 0 && r.StepSeconds > 0 {
		known = int(missing / (time.Duration(r.StepSeconds) * time.Second))
	}
	var lines [][2]string
	for _, line := range []struct {
		name string
		all  []float64
	}{{"In", r.In}, {"Out", r.Out}} {
		list := line.all[min(known, len(line.all)):]
		if len(list) == 0 {
			continue
		}
		text := fmt.Sprintf("%s/s, at most %s/s in %s", rate(list[len(list)-1]), rate(slices.Max(list)), span.Text(time.Duration(len(list)*r.StepSeconds)*time.Second))
		if showBlocks {
			text = Blocks(list) + "  " + text
		}
		lines = append(lines, [2]string{line.name, text})
	}
	return lines
}

// Blocks draws numbers of 0 or more, the highest as a full block. What is not 0 is never drawn as 0.
func Blocks(list []float64) string {
	var b strings.Builder
	most := slices.Max(list)
	for _, v := range list {
		height := 0
		if v > 0 {
			height = max(1, int(v/most*float64(len(blocks)-1)+0.5))
		}
		b.WriteRune(blocks[height])
	}
	return b.String()
}

// UTF8 reports whether a locale, as the variables LC_ALL, LC_CTYPE and LANG name it, has UTF-8. The first that is set counts.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// rate shows messages a second: whole from 10 on, else with up to two digits behind the point.
func rate(v float64) string {
	if v >= 10 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	text := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
