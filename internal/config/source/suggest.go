package source

import "strings"

// Suggest returns the word of known that was probably meant by word, "" when none is near: few edits away, or the same
// in its first half. Case, dashes and underscores do not count, so that a key in the other dialect's spelling finds its
// own.
func Suggest(word string, known []string) string {
	if len(word) > maxSuggest {
		return ""
	}
	plain := flatten(word)
	best, bestDistance := "", maxSuggest
	for _, k := range known {
		flat := flatten(k)
		near := func(d int) bool {
			return d <= min(len(plain), len(flat))/3 || 2*prefix(plain, flat) >= max(len(plain), len(flat))
		}
		if d := distance(plain, flat); d < bestDistance && near(d) {
			best, bestDistance = k, d
		}
	}
	return best
}

// maxSuggest bounds the words that are compared: no key is longer.
const maxSuggest = 64

func flatten(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// prefix is the length of what a and b begin with together.
func prefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours that make b of a (optimal string
// alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
