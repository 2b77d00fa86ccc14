// Package span writes lengths of time for people. What reaches a person is written with it everywhere, so that one length
// looks the same in a log line, an error and a page.
package span

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Text writes d in the one or two units that read best, rounded down to the smaller one: "850 µs", "12 ms", "3.4 s",
// "45 s", "2 min", "3 h 20 min", "24 h", "12 days", "4 days 3 h".
func Text(d time.Duration) string {
	switch {
	case d == math.MinInt64: // which has no positive
		return "-" + Text(math.MaxInt64)
	case d < 0:
		return "-" + Text(-d)
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%d.%d", d/time.Second, d%time.Second/(time.Second/10)), ".0") + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < 2*day:
		return two(d, time.Hour, "h", time.Minute, "min")
	default:
		return two(d, day, "days", time.Hour, "h")
	}
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}
