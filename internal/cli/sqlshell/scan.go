package sqlshell

import (
	"regexp"
	"strings"
)

// scanner cuts a text that comes in lines into statements, as psql does: a semicolon ends one, unless it is in quotes, in
// a comment, in a body between dollar signs or between parentheses.
type scanner struct {
	text strings.Builder
	// inside is what the text so far ends within: "" for none, a quote, "--", "/*", or the tag of a body ("$$", "$fn$").
	inside string
	// depth is how many comments or parentheses are open, each in its own place.
	comments, parentheses int
	// begun is whether the statement has anything but space and comments.
	begun bool
}

var dollarTag = regexp.MustCompile(`^\$([A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)

// pending is whether a statement has begun and not ended.
func (s *scanner) pending() bool { return s.begun || s.inside != "" }

// rest gives what was not ended by a semicolon, and forgets it.
func (s *scanner) rest() string {
	text, begun := s.text.String(), s.begun
	*s = scanner{}
	if !begun {
		return ""
	}
	return text
}

// line takes one more line and returns the statements that end in it.
func (s *scanner) line(line string) []string {
	var done []string
	for i := 0; i < len(line); {
		n, ended := s.step(line[i:], line[:i])
		s.text.WriteString(line[i : i+n])
		i += n
		if ended {
			if text := s.rest(); text != "" {
				done = append(done, text)
			}
		}
	}
	if s.inside == "--" {
		s.inside = ""
	}
	return done
}

// step looks at the beginning of what is left and returns how many bytes it goes on by, and whether a statement ends.
func (s *scanner) step(left, before string) (n int, ended bool) {
	switch s.inside {
	case "":
		return s.open(left, before)
	case "--":
		return len(left), false
	case "/*":
		switch {
		case strings.HasPrefix(left, "/*"):
			s.comments++
			return 2, false
		case strings.HasPrefix(left, "*/"):
			if s.comments--; s.comments == 0 {
				s.inside = ""
			}
			return 2, false
		}
		return 1, false
	case "E'": // where a backslash takes the next character along
		if strings.HasPrefix(left, `\`) {
			return min(2, len(left)), false
		}
		if left[0] == '\'' {
			s.inside = ""
		}
		return 1, false
	default:
		if strings.HasPrefix(left, s.inside) {
			n, s.inside = len(s.inside), ""
			return n, false
		}
		return 1, false
	}
}

// open is step outside of everything.
func (s *scanner) open(left, before string) (n int, ended bool) {
	switch c := left[0]; {
	case strings.HasPrefix(left, "--"):
		s.inside = "--"
		return 2, false
	case strings.HasPrefix(left, "/*"):
		s.inside, s.comments = "/*", 1
		return 2, false
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		return 1, false
	case c == ';' && s.parentheses == 0:
		return 1, true
	case c == '\'' && escapes(before):
		s.inside = "E'"
	case c == '\'' || c == '"':
		s.inside = string(c)
	case c == '(':
		s.parentheses++
	case c == ')':
		s.parentheses = max(s.parentheses-1, 0)
	case c == '$' && !inWord(before):
		if tag := dollarTag.FindString(left); tag != "" {
			s.inside, s.begun = tag, true
			return len(tag), false
		}
	}
	s.begun = true
	return 1, false
}

// escapes is whether a quote after this begins a string with escapes: an E of its own stands before it.
func escapes(before string) bool {
	return before != "" && strings.ContainsRune("eE", rune(before[len(before)-1])) && !inWord(before[:len(before)-1])
}

// inWord is whether a text ends in a name or a number, where a dollar sign belongs to it.
func inWord(before string) bool {
	if before == "" {
		return false
	}
	c := before[len(before)-1]
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
