package d1

import (
	"slices"
	"strings"
)

// Statement is one statement of a text of SQL.
type Statement struct {
	// Text is the statement with what stands before it, such as comments, and its semicolon.
	Text string
	// Line is the line of the text, from 1, on which the statement itself begins.
	Line int
}

// Statements cuts a text into its statements. What holds nothing but space, comments and semicolons is no statement. A
// text that ends inside a statement, a string or a trigger is a statement to its end: SQLite says what it lacks.
func Statements(text string) []Statement {
	var list []Statement
	s := scanner{text: text}
	begin, line, t := 0, 0, trigger{} // of the statement under way: where it begins, the line of its first word, 0 before it
	for {
		word, at := s.next()
		switch {
		case word == "" && line == 0:
			return list
		case word == "":
			return append(list, Statement{Text: strings.TrimSpace(text[begin:]), Line: line})
		case word == ";" && line == 0:
			begin = s.at
			continue
		case line == 0:
			line = 1 + strings.Count(text[:at], "\n")
		}
		if t.add(word) {
			list = append(list, Statement{Text: strings.TrimSpace(text[begin:s.at]), Line: line})
			begin, line, t = s.at, 0, trigger{}
		}
	}
}

// Blank reports whether a text holds no statement.
func Blank(text string) bool {
	s := scanner{text: text}
	for {
		switch word, _ := s.next(); word {
		case "":
			return true
		case ";":
		default:
			return false
		}
	}
}

// WithoutTransaction leaves out the BEGIN and the COMMIT around the statements of a dump: what runs them is a transaction
// already. A text with one of the two and not the other stays as it is, and SQLite refuses it.
func WithoutTransaction(list []Statement) []Statement {
	begin := slices.IndexFunc(list, func(s Statement) bool { return StartsWith(s.Text, "BEGIN") })
	end := len(list) - 1
	if begin < 0 || !StartsWith(list[end].Text, "COMMIT", "END") {
		return list
	}
	return slices.Concat(list[:begin], list[begin+1:end])
}

// StartsWith reports whether the first word of a text is one of these keywords, which are given in capitals.
func StartsWith(text string, keywords ...string) bool {
	s := scanner{text: text}
	word, _ := s.next()
	return slices.Contains(keywords, strings.ToUpper(word))
}

// trigger follows the words of a statement to tell whether a semicolon stands inside the body of a CREATE TRIGGER, which
// ends with the words "; END ;".
type trigger struct {
	words int
	// is says that the statement makes a trigger, body that its body is under way.
	is, body bool
	// last is the word before, and before the one before that.
	last, before string
}

// add takes the next word and reports whether it is a semicolon that ends the statement.
func (t *trigger) add(word string) (ends bool) {
	word = strings.ToUpper(word)
	t.words++
	switch {
	// CREATE [TEMP|TEMPORARY] TRIGGER, behind EXPLAIN [QUERY PLAN] at most.
	case word == "TRIGGER" && t.words <= 6 && (t.last == "CREATE" || t.last == "TEMP" || t.last == "TEMPORARY"):
		t.is = true
	case word == "BEGIN" && t.is:
		t.body = true
	case word == ";":
		ends = !t.body || t.last == "END" && t.before == ";"
	}
	t.before, t.last = t.last, word
	return ends
}

// scanner cuts SQL into words, as far as it matters here: names and keywords, strings, and single other characters.
type scanner struct {
	text string
	at   int
}

// next returns the next word and where it begins; "" at the end. Space and comments are passed over.
func (s *scanner) next() (word string, begin int) {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			s.at++
		case strings.HasPrefix(rest, "--"):
			s.skip(rest, "\n", 2)
		case strings.HasPrefix(rest, "/*"):
			s.skip(rest, "*/", 2)
		default:
			begin = s.at
			s.word(rest)
			return s.text[begin:s.at], begin
		}
	}
	return "", len(s.text)
}

// word passes over the word at the beginning of rest.
func (s *scanner) word(rest string) {
	switch c := rest[0]; {
	case c == '[':
		s.skip(rest, "]", 1)
	case c == '\'' || c == '"' || c == '`':
		s.skip(rest, string(c), 1) // a doubled quote is two strings in a row, which end at the same place
	case letter(c):
		n := 1
		for n < len(rest) && letter(rest[n]) {
			n++
		}
		s.at += n
	default:
		s.at++
	}
}

// skip goes behind the next end in rest, which is looked for after from bytes, or to the end of the text.
func (s *scanner) skip(rest, end string, from int) {
	if i := strings.Index(rest[from:], end); i >= 0 {
		s.at += from + i + len(end)
		return
	}
	s.at = len(s.text)
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
