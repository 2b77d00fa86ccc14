package sourcemap

import (
	"regexp"
	"strconv"
	"strings"
)

// frame finds a stack frame at the end of a line: "at queue (file:///bundle/main.mjs:2:21)", "at main.mjs:10:3", also
// when it stands behind a message, as in "SyntaxError: Unexpected number at file:///bundle/main.mjs:2:21".
var frame = regexp.MustCompile(`(?:^|\s)(at (?:.*[( ])?\S+:\d+:\d+\)*)$`)

// printed finds a stack frame at the beginning of a line, when the error is a part of a printed value that goes on behind
// it: "at queue (file:///bundle/main.mjs:2:21) {".
var printed = regexp.MustCompile(`^\s+(at (?:[^()]*\(|async )?[^\s()]+:\d+:\d+\)?)[ ,]`)

// place finds module:line:column with its path or URL. The characters before it are part of the match so that a
// module whose name only ends in the same letters is left alone.
var place = regexp.MustCompile(`[^\s()]+:\d+:\d+`)

// Stack rewrites the frames of a V8 stack text that point into the module to the user's files and leaves every other
// line as it is. Location is the first frame in the user's own code, as source:line:column: not in node_modules; "" when
// there is none.
func (m *Map) Stack(stack string) (mapped, location string) {
	if m == nil || !strings.Contains(stack, m.module) {
		return stack, ""
	}
	lines := strings.Split(stack, "\n")
	for i, line := range lines {
		at := printed.FindStringSubmatchIndex(line)
		if at == nil {
			at = frame.FindStringSubmatchIndex(line)
		}
		if at == nil {
			continue
		}
		lines[i] = line[:at[2]] + place.ReplaceAllStringFunc(line[at[2]:at[3]], func(text string) string {
			p, ok := m.resolve(text)
			if !ok {
				return text
			}
			if location == "" && !strings.Contains("/"+p.Source, "/node_modules/") {
				location = p.String()
			}
			return p.String()
		}) + line[at[3]:]
	}
	return strings.Join(lines, "\n"), location
}

// resolve translates path/module:line:column.
func (m *Map) resolve(text string) (Position, bool) {
	rest, column, ok := cutNumber(text)
	if !ok {
		return Position{}, false
	}
	path, line, ok := cutNumber(rest)
	if !ok || path[strings.LastIndexByte(path, '/')+1:] != m.module {
		return Position{}, false
	}
	return m.Position(line, column)
}

// cutNumber splits the number behind the last colon off.
func cutNumber(text string) (rest string, number int, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(text[i+1:])
	return text[:i], number, err == nil
}
