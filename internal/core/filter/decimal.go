package filter

import (
	"cmp"
	"strconv"
	"strings"
)

// decimal is an exact number of any size: 0.digits × 10^exp, with digits that neither begin nor end with 0. Zero has none.
type decimal struct {
	negative bool
	digits   string
	exp      int
	// scale is how many digits behind the point it was written with.
	scale int
}

// Bounds of PostgreSQL's numeric, in digits before and behind the point.
const (
	mostWhole    = 131_072
	mostFraction = 16_383
)

// fits reports whether PostgreSQL can hold the number.
func (d decimal) fits() bool { return d.exp <= mostWhole && d.scale <= mostFraction }

// parseDecimal reads a number as JSON writes it.
func parseDecimal(text string) (d decimal, ok bool) {
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, power := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		digits := strings.TrimPrefix(rest[i+1:], "+")
		unsigned := strings.TrimPrefix(digits, "-")
		if unsigned == "" || len(digits) < len(rest[i+1:]) && unsigned != digits || !onlyDigits(unsigned) {
			return d, false
		}
		// What does not fit into an int is far outside anyway.
		n, err := strconv.Atoi(digits)
		const far = 1 << 30
		if err != nil || n > far || n < -far {
			n = far
			if strings.HasPrefix(digits, "-") {
				n = -far
			}
		}
		power = n
	}
	whole, fraction, pointed := strings.Cut(mantissa, ".")
	if !onlyDigits(whole) || len(whole) > 1 && whole[0] == '0' || pointed && !onlyDigits(fraction) {
		return d, false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	d = decimal{negative: negative, scale: max(len(fraction)-power, 0), exp: len(whole) + power - (len(whole) + len(fraction) - len(digits))}
	if d.digits = strings.TrimRight(digits, "0"); d.digits == "" {
		d.negative, d.exp = false, 0
	}
	return d, true
}

func onlyDigits(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// sign is -1, 0 or 1.
func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

// compare is below, at or above 0 as d is less than, equal to or more than e.
func (d decimal) compare(e decimal) int {
	if s := d.sign(); s != e.sign() || s == 0 {
		return cmp.Compare(s, e.sign())
	}
	return d.sign() * cmp.Or(cmp.Compare(d.exp, e.exp), strings.Compare(d.digits, e.digits))
}
