package view

import (
	"slices"
	"strconv"
	"strings"
)

// Size of a sparkline, in its own units; the style sheet says how large it is drawn.
const (
	sparkWidth  = 100
	sparkHeight = 20
)

// Points are the corners of a sparkline of values, which are 0 or more, with most at its top.
func Points(values []float64, most float64) string {
	if most <= 0 {
		most = 1
	}
	corners := make([]string, len(values))
	for i, value := range values {
		x := float64(sparkWidth)
		if len(values) > 1 {
			x = sparkWidth * float64(i) / float64(len(values)-1)
		}
		y := 1 + (sparkHeight-2)*(1-min(value/most, 1))
		corners[i] = strconv.FormatFloat(x, 'f', 1, 64) + "," + strconv.FormatFloat(y, 'f', 1, 64)
	}
	return strings.Join(corners, " ")
}

// Most is the largest of two lists; 0 of none.
func Most(x, y []float64) float64 {
	all := slices.Concat(x, y)
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}

// Rate is a number of messages a second.
func Rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "0"
	case perSecond < 0.1:
		return "<\u00a00.1"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	default:
		return Count(int64(perSecond + 0.5))
	}
}
