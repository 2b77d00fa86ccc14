package postgres

import (
	"maps"
)

// Statements are the statements that tests explain.
func Statements() map[string]string {
	all := map[string]string{"read ready": readReadySQL, "read due": readDueSQL}
	maps.Copy(all, statements)
	return all
}

// ReadReadySQL is the statement of ReadReady.
const ReadReadySQL = readReadySQL

// InboxLow returns the inbox id above which the next drain looks.
func (s *Store) InboxLow() int64 { return s.tenure.Load().inbox.low }
