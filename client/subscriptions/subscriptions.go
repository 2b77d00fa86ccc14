// Package subscriptions is the part of the client about event subscriptions.
package subscriptions

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/runlot/runlot/client"
)

// Source is what a subscription is about.
type Source struct {
	Type string `json:"type" doc:"workers.script, workersBuilds.worker or queues.queue."`
	// Script is the name of a script; "" is any, and for a queue none.
	Script string `json:"script,omitempty" maxLength:"255"`
	// Database and Queue are the queue whose dead letters are told.
	Database string `json:"database,omitempty" maxLength:"63"`
	Queue    string `json:"queue,omitempty" maxLength:"63"`
}

// Subscription says which events of a source a queue is told of.
type Subscription struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Enabled bool     `json:"enabled"`
	Source  Source   `json:"source"`
	Events  []string `json:"events"`
	// Database and Queue are the queue that is told.
	Database string    `json:"database"`
	Queue    string    `json:"queue"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
}

// New makes a subscription.
type New struct {
	// Name is for a person; "" makes one of the queue and the source.
	Name string `json:"name,omitempty"`
	// Disabled keeps nothing for it until it is enabled.
	Disabled bool   `json:"disabled,omitempty"`
	Source   Source `json:"source"`
	// Events are those of the source that are told; none are all of them.
	Events   []string `json:"events,omitempty"`
	Database string   `json:"database" maxLength:"63"`
	Queue    string   `json:"queue" maxLength:"63"`
}

// Change changes a subscription. What is nil stays.
type Change struct {
	Name    *string  `json:"name,omitempty"`
	Enabled *bool    `json:"enabled,omitempty"`
	Events  []string `json:"events,omitempty"`
}

const path = "/v1/subscriptions"

func one(ctx context.Context, c *client.Client, method, at string, body any) (*Subscription, error) {
	var s Subscription
	if err := c.Call(ctx, method, at, nil, body, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// List returns the subscriptions of a queue or, for "", of all queues, in the order in which they were made.
func List(ctx context.Context, c *client.Client, database, queue string) ([]Subscription, error) {
	q := url.Values{}
	if queue != "" {
		q.Set("database", database)
		q.Set("queue", queue)
	}
	var list struct{ Items []Subscription }
	err := c.Call(ctx, http.MethodGet, path, q, nil, &list)
	return list.Items, err
}

// Get returns one.
func Get(ctx context.Context, c *client.Client, id string) (*Subscription, error) {
	return one(ctx, c, http.MethodGet, path+"/"+id, nil)
}

// Create makes one. What happens from then on is told.
func Create(ctx context.Context, c *client.Client, n *New) (*Subscription, error) {
	return one(ctx, c, http.MethodPost, path, n)
}

// Update changes one.
func Update(ctx context.Context, c *client.Client, id string, change *Change) (*Subscription, error) {
	return one(ctx, c, http.MethodPatch, path+"/"+id, change)
}

// Delete forgets one, with the events that were still to be sent.
func Delete(ctx context.Context, c *client.Client, id string) (*Subscription, error) {
	return one(ctx, c, http.MethodDelete, path+"/"+id, nil)
}
