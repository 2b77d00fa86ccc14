package messages

import (
	"context"

	"github.com/runlot/runlot/client"
)

// unnamed reports whether no app names a queue: then it can be deleted.
func unnamed(q *client.Queue) bool {
	return len(q.Producers)+len(q.DeadLettersOf) == 0 && (q.Consumer == nil || q.Consumer.App == "")
}

// dialogOfRemoval asks whether to delete the queue itself.
func (v *View) dialogOfRemoval(d *Dialog, q *client.Queue) *Dialog {
	if !unnamed(q) {
		return nil
	}
	d.Title, d.Verb, d.Danger = "Delete the queue "+q.Name+"?", "Delete the queue", true
	d.Text = "It goes with " + held(q.Unsettled) + ", its settings and its history, and this cannot be undone. Another queue of its name would see nothing of it."
	d.Command, d.Next = v.command("remove"), "/queues"
	return d
}

// remove deletes the queue, and says what went with it.
func remove(ctx context.Context, api *client.Client, database, queue string) (string, error) {
	gone, err := api.DeleteQueue(ctx, database, queue)
	if err != nil {
		return "", err
	}
	return "Deleted the queue " + queue + " with " + count(gone.Messages) + ".", nil
}
