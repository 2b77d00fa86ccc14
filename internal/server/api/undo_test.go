package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/undo"
	"github.com/runlot/runlot/internal/engine/access"
)

func TestUndoThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	ctx, c := t.Context(), w.client("", access.Deploy)
	if _, err := c.Send(ctx, "db", "jobs", append(drafts("1", "2", "3"), client.Draft{Body: json.RawMessage("4"), DelaySeconds: 3600})); err != nil {
		t.Fatal(err)
	}
	before, err := c.Peek(ctx, "db", "jobs", "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(before.Items))
	for i := range ids {
		ids[i] = before.Items[i].ID
	}
	none, err := c.DeleteMessages(ctx, "db", "jobs", []string{strings.Repeat("0", 32)})
	if err != nil || none.Undo != "" {
		t.Errorf("what deleted nothing: %+v, %v", none, err)
	}
	deleted, err := c.DeleteMessages(ctx, "db", "jobs", ids[:2])
	if err != nil || deleted.Undo == "" {
		t.Fatalf("%+v, %v", deleted, err)
	}
	hurried, err := c.RetryMessages(ctx, "db", "jobs", ids[3:])
	if err != nil || hurried.Undo == "" {
		t.Fatalf("%+v, %v", hurried, err)
	}
	// Whoever only looks sees what can be undone, and undoes nothing.
	eye := w.client("", access.Read)
	list, err := undo.Actions(ctx, eye, "db", "jobs")
	if err != nil || len(list) != 2 || list[0].ID != hurried.Undo || list[0].Kind != "retry_now" || list[1].ID != deleted.Undo || list[1].Messages != 2 || list[1].Until.Sub(list[1].At).Hours() != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = undo.Do(ctx, eye, "db", "jobs", deleted.Undo)
	w.code(err, "forbidden")
	for _, id := range []string{hurried.Undo, deleted.Undo} {
		if _, err := undo.Do(ctx, c, "db", "jobs", id); err != nil {
			t.Fatal(err)
		}
		_, err := undo.Do(ctx, c, "db", "jobs", id)
		w.code(err, "undo_unknown")
	}
	after, err := c.Peek(ctx, "db", "jobs", "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]client.Message{}
	for _, m := range after.Items {
		byID[m.ID] = m
	}
	for _, m := range before.Items {
		if diff := cmp.Diff(m, byID[m.ID]); diff != "" {
			t.Errorf("a message is not what it was (-want +got):\n%s", diff)
		}
	}

	// A redrive comes back but for what was delivered since.
	kill(t, b, 3)
	redriven, err := c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{}, nil)
	if err != nil || redriven.Undo == "" {
		t.Fatalf("%+v, %v", redriven, err)
	}
	one, err := c.Peek(ctx, "db", "jobs", "visible", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteMessages(ctx, "db", "jobs", []string{one.Items[0].ID}); err != nil {
		t.Fatal(err)
	}
	back, err := undo.Do(ctx, c, "db", "jobs-dead", redriven.Undo)
	if err != nil || back.Kind != "redrive" || back.Done != 2 || len(back.Missing) != 1 || back.Missing[0] != one.Items[0].ID {
		t.Errorf("%+v, %v", back, err)
	}

	events, err := c.Events(ctx, "shop", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, 0, len(events))
	for i := range events {
		d := events[i].Detail
		texts = append(texts, events[i].Kind+" "+d["messages"]+" "+d["undo"])
	}
	again, _ := undo.Actions(ctx, c, "db", "jobs")
	want := []string{
		"messages.undone 2 " + redriven.Undo, "messages.deleted 1 " + again[0].ID, "queue.redriven 3 " + redriven.Undo, "messages.undone 2 " + deleted.Undo,
		"messages.undone 1 " + hurried.Undo, "messages.retried 1 " + hurried.Undo, "messages.deleted 2 " + deleted.Undo, "messages.deleted 0 ",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
