package deploy

import (
	"maps"
	"slices"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// TokenEvent is what was done to an API token. It belongs to the app that the token is for.
func TokenEvent(kind, author, id, name, role, appName string) *Event {
	return &Event{At: now(), Kind: kind, App: appName, Author: author, Detail: map[string]string{"id": id, "name": name, "role": role}}
}

// QueueEvent is what was done to a queue. It belongs to the app that the caller's token is for, or else to the one of those
// that run that drains the queue or leaves its dead letters there.
func QueueEvent(kind, tokenApp, author, database, queueName string, detail map[string]string, running []*app.Manifest) *Event {
	e := &Event{At: now(), Kind: kind, App: tokenApp, Author: author, Detail: map[string]string{"database": database, "queue": queueName}}
	maps.Copy(e.Detail, detail)
	for _, m := range running {
		if e.App == "" && m.Database == database && slices.ContainsFunc(m.Consumers, func(c queue.Consumer) bool {
			return c.Queue == queueName || c.DeadLetterQueue == queueName
		}) {
			e.App = m.Name
		}
	}
	return e
}
