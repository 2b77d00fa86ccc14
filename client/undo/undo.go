// Package undo is the part of the client about undoing what was done to messages.
package undo

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/runlot/runlot/client"
)

// Action is something that was done to messages of a queue and can be undone.
type Action struct {
	ID   string `json:"id"`
	Kind string `json:"kind" enum:"delete,retry_now,redrive"`
	// Messages is how many of them can be undone at most: of very many, the last.
	Messages int64 `json:"messages"`
	// At is when it was done, and Until how long it can be undone.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
}

// ActionList is the answer of Actions.
type ActionList struct {
	Items []Action `json:"items"`
}

// Undo names an action.
type Undo struct {
	ID string `json:"id" minLength:"1" maxLength:"64"`
}

// Undone is what became of the messages of an action.
type Undone struct {
	Kind string `json:"kind" enum:"delete,retry_now,redrive"`
	// Done counts those that are as they were before.
	Done int64 `json:"done"`
	// InFlight are being delivered, Changed were tried since, Missing are gone, and Forbidden are in a queue that the token does
	// not open. They stay as they are.
	InFlight  []string `json:"in_flight"`
	Changed   []string `json:"changed"`
	Missing   []string `json:"missing"`
	Forbidden []string `json:"forbidden"`
}

func path(database, queue string) string {
	return "/v1/databases/" + url.PathEscape(database) + "/queues/" + url.PathEscape(queue) + "/undo"
}

// Actions returns what can be undone in a queue, the newest first.
func Actions(ctx context.Context, c *client.Client, database, queue string) ([]Action, error) {
	var list ActionList
	err := c.Call(ctx, http.MethodGet, path(database, queue), nil, nil, &list)
	return list.Items, err
}

// Do undoes an action of a queue. It can be done once.
func Do(ctx context.Context, c *client.Client, database, queue, id string) (*Undone, error) {
	var done Undone
	if err := c.Call(ctx, http.MethodPost, path(database, queue), nil, &Undo{id}, &done); err != nil {
		return nil, err
	}
	return &done, nil
}
