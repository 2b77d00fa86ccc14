package postgres

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"
)

// Statements are the statements that tests explain.
func Statements() map[string]string {
	all := map[string]string{"read ready": readReadySQL, "read due": readDueSQL}
	maps.Copy(all, statements)
	return all
}

// ReadReadySQL is the statement of ReadReady.
const ReadReadySQL = readReadySQL

// Session opens a session with the settings that the store's sessions have.
func Session(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	return connect(ctx, config, idleName)
}

// InboxLow returns the inbox id above which the next drain looks.
func (s *Store) InboxLow() int64 { return s.tenure.Load().inbox.low }

// Classify is classify.
func Classify(err error) error { return classify(err) }
