package binding

// isCompactJSON reports whether b is JSON of the kind that JSON.stringify writes: without white space and nested less
// than compactDepth deep. It is several times as fast as json.Valid, which decides on everything else.
func isCompactJSON(b []byte) bool {
	const compactDepth = 64
	var objects [compactDepth]bool // whether each open bracket is an object's
	depth, i := 0, 0
	for {
		var opened bool
		if i, opened = compactValue(b, i); i < 0 {
			return false
		}
		if opened {
			if depth == compactDepth {
				return false
			}
			objects[depth] = b[i-1] == '{'
			depth++
		} else {
			// A value is complete: close what ends here, up to the comma before the next one.
			for depth > 0 && i < len(b) && b[i] != ',' {
				if (b[i] != '}' || !objects[depth-1]) && (b[i] != ']' || objects[depth-1]) {
					return false
				}
				depth--
				i++
			}
			if depth == 0 {
				return i == len(b)
			}
			if i++; i >= len(b) {
				return false
			}
		}
		if objects[depth-1] {
			if i = compactKey(b, i); i < 0 {
				return false
			}
		}
	}
}

// compactValue steps over a scalar or an empty object or array, or into another one. It returns -1 for anything else.
func compactValue(b []byte, i int) (next int, opened bool) {
	if i >= len(b) {
		return -1, false
	}
	switch c := b[i]; c {
	case '"':
		return compactString(b, i+1), false
	case '{', '[':
		if i+1 < len(b) && b[i+1] == c+2 { // the closing bracket is two characters after the opening one in ASCII
			return i + 2, false
		}
		return i + 1, true
	case 't':
		return compactWord(b, i, "true"), false
	case 'f':
		return compactWord(b, i, "false"), false
	case 'n':
		return compactWord(b, i, "null"), false
	default:
		return compactNumber(b, i), false
	}
}

func compactWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// compactKey steps over the key of an object and its colon.
func compactKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = compactString(b, i+1); i < 0 || i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// compactString steps over the rest of a string whose first quote was stepped over.
func compactString(b []byte, i int) int {
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c != '\\':
			i++
		case i+1 >= len(b):
			return -1
		default:
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(b) || !isHex(b[i+2]) || !isHex(b[i+3]) || !isHex(b[i+4]) || !isHex(b[i+5]) {
					return -1
				}
				i += 6
			default:
				return -1
			}
		}
	}
	return -1
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// compactNumber steps over a number.
func compactNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	if i = compactDigits(b, i); i < 0 || i > start+1 && b[start] == '0' {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = compactDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = compactDigits(b, i)
	}
	return i
}

// compactDigits steps over one digit or more.
func compactDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
