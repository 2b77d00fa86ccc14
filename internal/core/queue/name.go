package queue

import "regexp"

// NameRule says in a sentence what ValidName checks.
const NameRule = "a queue name has 1 to 63 characters of a–z, 0–9 and dash, and starts and ends with a letter or digit"

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidName reports whether name keeps NameRule.
func ValidName(name string) bool { return namePattern.MatchString(name) }
