// Package sourcemap reads source maps (version 3, as bundlers write them) and rewrites V8 stack traces from positions in
// a bundle to positions in the files that the user wrote. It is pure.
package sourcemap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
)

// Position is a place in a source file. Line and Column count from 1; columns are UTF-16 code units, as in V8.
type Position struct {
	Source string
	Line   int
	Column int
}

// String returns source:line:column, the form that editors and terminals turn into a link.
func (p Position) String() string {
	return fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
}

// Map translates positions of one generated module. The nil Map knows no positions.
type Map struct {
	module  string
	sources []string
	// lines holds the segments of each generated line, in the order of their columns.
	lines [][]segment
}

// segment says where the text from column on comes from. All numbers count from 0; source is -1 for text that comes
// from no file.
type segment struct {
	column       int32
	source       int32
	sourceLine   int32
	sourceColumn int32
}

// Parse reads the source map of the generated module with this name. An error means that the text is no version 3 map
// or contradicts itself; index maps (with "sections") are not supported because bundlers write them only on request.
func Parse(module string, text []byte) (*Map, error) {
	var file struct {
		Version    int      `json:"version"`
		SourceRoot string   `json:"sourceRoot"`
		Sources    []string `json:"sources"`
		Mappings   *string  `json:"mappings"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("source map of %s: %w", module, err)
	}
	if file.Version != 3 || file.Mappings == nil {
		return nil, fmt.Errorf("source map of %s: version 3 with mappings is wanted, this has version %d", module, file.Version)
	}
	m := &Map{module: module, sources: file.Sources}
	if root := strings.TrimSuffix(file.SourceRoot, "/"); root != "" {
		for i := range m.sources {
			m.sources[i] = root + "/" + m.sources[i]
		}
	}
	if err := m.decode(*file.Mappings); err != nil {
		return nil, fmt.Errorf("source map of %s: %w", module, err)
	}
	return m, nil
}

// decode reads the mappings: lines separated by semicolons, segments by commas, each segment 1, 4 or 5 numbers relative
// to the segment before. Only the generated column starts again at each line.
func (m *Map) decode(mappings string) error {
	m.lines = make([][]segment, 0, strings.Count(mappings, ";")+1)
	var source, sourceLine, sourceColumn int64
	for line := range strings.SplitSeq(mappings, ";") {
		var segments []segment
		var column int64
		sorted := true
		for len(line) > 0 {
			var text string
			text, line, _ = strings.Cut(line, ",")
			numbers, n, err := decodeNumbers(text)
			if err != nil {
				return err
			}
			previous := column
			column += numbers[0]
			sorted = sorted && column >= previous
			s := segment{source: -1}
			if n >= 4 {
				source += numbers[1]
				sourceLine += numbers[2]
				sourceColumn += numbers[3]
				if source < 0 || source >= int64(len(m.sources)) {
					return fmt.Errorf("source %d does not exist", source)
				}
				s.source, s.sourceLine, s.sourceColumn = int32(source), int32(sourceLine), int32(sourceColumn)
			}
			if !isIndex(column) || !isIndex(sourceLine) || !isIndex(sourceColumn) {
				return errors.New("a position is out of range")
			}
			s.column = int32(column)
			segments = append(segments, s)
		}
		if !sorted {
			sort.SliceStable(segments, func(i, j int) bool { return segments[i].column < segments[j].column })
		}
		m.lines = append(m.lines, segments)
	}
	return nil
}

func isIndex(n int64) bool { return n >= 0 && n < math.MaxInt32 }

// decodeNumbers reads the numbers of one segment and returns how many there are.
func decodeNumbers(text string) (numbers [5]int64, n int, err error) {
	for len(text) > 0 {
		if n == len(numbers) {
			return numbers, n, errors.New("a segment has more than 5 numbers")
		}
		if numbers[n], text, err = decodeNumber(text); err != nil {
			return numbers, n, err
		}
		n++
	}
	if n != 1 && n < 4 {
		return numbers, n, fmt.Errorf("a segment has %d numbers", n)
	}
	return numbers, n, nil
}

// decodeNumber reads one base64 VLQ number: groups of 5 bits, the lowest first, the sixth bit of each digit says that
// more follow; the lowest bit of the whole is the sign.
func decodeNumber(text string) (number int64, rest string, err error) {
	const maxShift = 35 // seven digits hold every 32-bit number
	var value int64
	for i, shift := 0, 0; i < len(text) && shift <= maxShift; i, shift = i+1, shift+5 {
		digit := digits[text[i]]
		if digit < 0 {
			return 0, "", fmt.Errorf("%q is no base64 digit", text[i])
		}
		value |= int64(digit&31) << shift
		if digit&32 == 0 {
			number = value >> 1
			if value&1 != 0 {
				number = -number
			}
			return number, text[i+1:], nil
		}
	}
	return 0, "", errors.New("a number does not end")
}

// digits gives the value of each base64 digit, -1 for other bytes.
var digits = func() (table [256]int8) {
	for i := range table {
		table[i] = -1
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = int8(i)
	}
	return table
}()

// Position returns where the text at a place of the generated module comes from. Line and column count from 1. It
// reports false for text that comes from no file.
func (m *Map) Position(line, column int) (Position, bool) {
	if m == nil || line < 1 || line > len(m.lines) || column < 1 {
		return Position{}, false
	}
	segments := m.lines[line-1]
	i := sort.Search(len(segments), func(i int) bool { return int(segments[i].column) >= column })
	if i == 0 || segments[i-1].source < 0 {
		return Position{}, false
	}
	s := segments[i-1]
	return Position{Source: m.sources[s.source], Line: int(s.sourceLine) + 1, Column: int(s.sourceColumn) + 1}, true
}
