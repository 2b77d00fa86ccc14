package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/subscriptions"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// TestDeadLettersThroughTheAPI: those of a queue are told to another in one event, by the engine that is asked over the API.
func TestDeadLettersThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	w.events.Start()
	defer w.events.Stop()
	ctx, c := t.Context(), w.client("", access.Deploy)
	letters := subscriptions.Source{Type: subscribe.Letters, Database: "db", Queue: "jobs"}
	one, err := subscriptions.Create(ctx, c, &subscriptions.New{Source: letters, Database: "db", Queue: "mails"})
	if err != nil {
		t.Fatal(err)
	}
	want := &subscriptions.Subscription{
		ID: one.ID, Name: "mails queues.queue", Enabled: true, Source: letters, Events: []string{subscribe.DeadLettered}, Database: "db", Queue: "mails",
		Created: one.Created, Modified: one.Created,
	}
	if diff := cmp.Diff(want, one); diff != "" || one.Created.IsZero() {
		t.Error(diff)
	}
	const dead = 3
	if _, err := c.Send(ctx, "db", "jobs", drafts("1", "2", "3")); err != nil {
		t.Fatal(err)
	}
	kill(t, b, dead)
	waiting := w.until(ctx, c, dead)
	if len(waiting) == 0 {
		t.Fatal("no event came")
	}
	// Behind a change and a deletion, nothing is told any more.
	off := false
	if one, err = subscriptions.Update(ctx, c, one.ID, &subscriptions.Change{Enabled: &off}); err != nil || one.Enabled || !one.Modified.After(one.Created) {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err = subscriptions.Delete(ctx, c, one.ID); err != nil {
		t.Error(err)
	}
	_, err = subscriptions.Get(ctx, c, one.ID)
	refused(t, err, http.StatusNotFound, subscribe.CodeUnknown)
	events, err := c.Events(ctx, "", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]string, len(events))
	for i := range events {
		kinds[i] = events[i].Kind
	}
	if diff := cmp.Diff([]string{"subscription.deleted", "subscription.changed", "subscription.created"}, kinds); diff != "" {
		t.Error(diff)
	}
}

// until wakes the engine until the queue mails has events of so many dead letters, and returns their messages.
func (w *world) until(ctx context.Context, c *client.Client, letters int) []client.Message {
	w.t.Helper()
	for {
		page, err := c.Peek(ctx, "db", "mails", "", "", 100)
		if err != nil {
			w.t.Fatal(err)
		}
		told := 0
		for i := range page.Items {
			var event struct {
				Payload struct{ Messages []any }
			}
			if err := json.Unmarshal(page.Items[i].Body, &event); err != nil {
				w.t.Fatal(err)
			}
			told += len(event.Payload.Messages)
		}
		if told >= letters {
			return page.Items
		}
		w.events.Wake()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestSubscriptionsOfOthers: a token for one app makes, sees and changes those of its own queues and of its own scripts.
func TestSubscriptionsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, all, mail := t.Context(), w.client("", access.Deploy), w.client("mail", access.Deploy)
	scripts := func(name string) subscriptions.Source {
		return subscriptions.Source{Type: subscribe.Scripts, Script: name}
	}
	create := func(c *client.Client, from subscriptions.Source, queueName string) (*subscriptions.Subscription, error) {
		return subscriptions.Create(ctx, c, &subscriptions.New{Source: from, Database: "db", Queue: queueName, Events: subscribe.EventsOf(from.Type)})
	}
	foreign, err := create(all, scripts("shop"), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := create(all, scripts("shop"), "mails")
	if err != nil {
		t.Fatal(err)
	}
	own, err := create(mail, scripts("mail"), "mails")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from subscriptions.Source
		to   string
	}{
		{scripts("mail"), "jobs"},
		{scripts("shop"), "mails"},
		{scripts(""), "mails"},
		{subscriptions.Source{Type: subscribe.Letters, Database: "db", Queue: "jobs"}, "mails"},
	} {
		_, err = create(mail, c.from, c.to)
		refused(t, err, http.StatusForbidden, access.CodeForbidden)
	}
	list, err := subscriptions.List(ctx, mail, "", "")
	if err != nil || len(list) != 2 || list[0].ID != mixed.ID || list[1].ID != own.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = subscriptions.List(ctx, all, "db", "jobs"); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = subscriptions.Get(ctx, mail, foreign.ID)
	refused(t, err, http.StatusNotFound, subscribe.CodeUnknown)
	_, err = subscriptions.Delete(ctx, mail, mixed.ID)
	refused(t, err, http.StatusForbidden, access.CodeForbidden)
	_, err = subscriptions.Delete(ctx, w.client("", access.Read), own.ID)
	refused(t, err, http.StatusForbidden, access.CodeForbidden)
	_, err = create(all, scripts("shop"), "nosuch")
	refused(t, err, http.StatusNotFound, queue.CodeQueueNotFound)
	_, err = create(all, subscriptions.Source{Type: "kv"}, "jobs")
	refused(t, err, http.StatusBadRequest, subscribe.CodeInvalid)
}
