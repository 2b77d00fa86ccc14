package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// ended waits for the end of an operation.
func ended(t *testing.T, c *client.Client, o *client.Operation, err error) *client.Operation {
	t.Helper()
	for err == nil && !o.Over() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the operation does not end")
		}
		o, err = c.Operation(t.Context(), o.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// refused checks the status and code of an error.
func refused(t *testing.T, err error, status int, code string) {
	t.Helper()
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != status || e.Code != code {
		t.Errorf("%v, want %d %s", err, status, code)
	}
}

func TestSearchThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, c := t.Context(), w.client("shop", access.Deploy)
	if _, err := c.Send(ctx, "db", "jobs", drafts(`{"id":9007199254740993,"tags":["eu"]}`, `{"id":9007199254740992}`, `{"id":1,"tags":["us"]}`)); err != nil {
		t.Fatal(err)
	}
	page, err := c.Search(ctx, "db", "jobs", "body.id:9007199254740993", "", 0)
	if err != nil || len(page.Items) != 1 || string(page.Items[0].Body) != `{"id":9007199254740993,"tags":["eu"]}` || page.Next != "" || page.Looked != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = c.Search(ctx, "db", "jobs", "-body.tags:us", "", 1)
	if err != nil || len(page.Items) != 1 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = c.Search(ctx, "db", "jobs", "-body.tags:us", page.Next, 5)
	if err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	n, err := c.CountMessages(ctx, "db", "jobs", "state:visible")
	if err != nil || *n != (client.Count{Matched: 3, Looked: 3, Complete: true}) {
		t.Errorf("%+v, %v", n, err)
	}
	_, err = c.Search(ctx, "db", "jobs", "stat:x", "", 0)
	refused(t, err, http.StatusBadRequest, "filter_invalid")
	if e, ok := errors.AsType[*client.Error](err); !ok || !strings.Contains(e.Message, "character 1") || e.Hint == "" {
		t.Errorf("%v", err)
	}
	_, err = c.Search(ctx, "db", "jobs", "x", "AAAA", 0)
	refused(t, err, http.StatusBadRequest, "cursor_invalid")
	_, err = c.CountMessages(ctx, "db", "mails-dead", "x")
	refused(t, err, http.StatusForbidden, "forbidden")
	text, _, err := w.access.Create(ctx, "raw", access.Read, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := w.raw(http.MethodGet, "/v1/databases/db/queues/jobs/messages?filter=x&state=visible", text, "", ""); status != http.StatusBadRequest {
		t.Errorf("state and filter: %d", status)
	}
}

func TestOperationsThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	ctx, c := t.Context(), w.client("shop", access.Deploy)
	if _, err := c.Send(ctx, "db", "jobs", drafts(`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`)); err != nil {
		t.Fatal(err)
	}
	kill(t, b, 4)
	start := client.StartOperation{Kind: "redrive", Database: "db", Queue: "jobs-dead", Filter: "body.n>2  source:jobs"}
	o, err := c.StartOperation(ctx, &start)
	o = ended(t, c, o, err)
	want := &client.Operation{
		ID: o.ID, Kind: "redrive", Database: "db", Queue: "jobs-dead", Filter: "body.n>2 source:jobs", State: "done", Looked: 4, Matched: 2, Done: 2,
		Skipped: map[string]int64{}, Author: "the deploy", Created: o.Created, Ended: o.Ended, Undo: o.Undo,
	}
	if diff := cmp.Diff(want, o); diff != "" || o.Ended == nil || !strings.HasPrefix(o.Undo, "operation-") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	page, err := c.Peek(ctx, "db", "jobs-dead", "", "", 0)
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	o, err = c.StartOperation(ctx, &client.StartOperation{Kind: "delete", Database: "db", Queue: "jobs-dead", IDs: []string{page.Items[0].ID, strings.Repeat("0", 32)}})
	if o = ended(t, c, o, err); o.Done != 1 || o.Skipped["missing"] != 1 || o.Named != 2 || o.Matched != 2 {
		t.Errorf("%+v", o)
	}
	// A slow one is cancelled within a step, and the other of its queue waits for it.
	if _, err := c.Send(ctx, "db", "jobs", drafts("1", "2", "3")); err != nil {
		t.Fatal(err)
	}
	slow, err := c.StartOperation(ctx, &client.StartOperation{Kind: "delete", Database: "db", Queue: "jobs", Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	next, err := c.StartOperation(ctx, &client.StartOperation{Kind: "retry_now", Database: "db", Queue: "jobs", Filter: "state:delayed"})
	if err != nil || next.State != "waiting" {
		t.Errorf("%+v, %v", next, err)
	}
	cancelled, err := c.CancelOperation(ctx, slow.ID)
	if err != nil || cancelled.State != "cancelled" || cancelled.Done > 2 {
		t.Errorf("%+v, %v", cancelled, err)
	}
	ended(t, c, next, nil)
	_, err = c.CancelOperation(ctx, o.ID)
	refused(t, err, http.StatusConflict, "operation_ended")
	// Others do not see it, and read-only tokens change nothing.
	other := w.client("mail", access.Deploy)
	if list, err := other.Operations(ctx, "", "", 0, 0); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = other.Operation(ctx, o.ID)
	refused(t, err, http.StatusNotFound, "operation_unknown")
	_, err = other.CancelOperation(ctx, next.ID)
	refused(t, err, http.StatusNotFound, "operation_unknown")
	_, err = w.client("", access.Read).StartOperation(ctx, &start)
	refused(t, err, http.StatusForbidden, "forbidden")
	if list, err := c.Operations(ctx, "db", "jobs-dead", 0, 0); err != nil || len(list) != 2 || list[0].ID != o.ID {
		t.Errorf("%+v, %v", list, err)
	}
	for code, bad := range map[string]client.StartOperation{
		"400 filter_invalid":           {Kind: "delete", Database: "db", Queue: "jobs", Filter: "a:b"},
		"400 operation_choice":         {Kind: "delete", Database: "db", Queue: "jobs", Filter: "a", IDs: []string{o.Error + strings.Repeat("0", 32)}},
		"400 operation_target":         {Kind: "delete", Database: "db", Queue: "jobs", To: "mails"},
		"400 message_id":               {Kind: "delete", Database: "db", Queue: "jobs", IDs: []string{"7"}},
		"403 redrive_target_forbidden": {Kind: "redrive", Database: "db", Queue: "jobs", To: "mails-dead"},
		"409 redrive_onto_itself":      {Kind: "redrive", Database: "db", Queue: "jobs", To: "jobs"},
		"403 forbidden":                {Kind: "delete", Database: "db", Queue: "mails-dead"},
	} {
		_, err := c.StartOperation(ctx, &bad)
		status, name, _ := strings.Cut(code, " ")
		refused(t, err, map[string]int{"400": 400, "403": 403, "409": 409}[status], name)
	}
	events, err := w.admin.Events(ctx, "", 0, 20)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range events {
		kinds[e.Kind]++
		if e.Kind == "operation.done" && e.Detail["operation"] == "1" && (e.Detail["messages"] != "2" || e.Detail["filter"] == "" || e.App != "shop") {
			t.Errorf("%+v", e)
		}
	}
	if kinds["operation.started"] < 3 || kinds["operation.done"] != 3 || kinds["operation.cancelled"] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestEditedRedriveAndHistoryThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	b, records := w.serve()
	ctx, c := t.Context(), w.client("shop", access.Deploy)
	if _, err := c.Send(ctx, "db", "jobs", drafts(`{"url":"x"}`)); err != nil {
		t.Fatal(err)
	}
	kill(t, b, 1)
	page, err := c.Peek(ctx, "db", "jobs-dead", "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	id, err := queue.ParseID(page.Items[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	records.Batch(&ledger.Record{
		ID: ledger.ID{Queue: "jobs"}, App: "shop", Start: time.Now(), Outcome: queue.Failed, Delivered: 1, Dead: 1,
		Error: &ledger.Exception{Name: "TypeError", Message: "no url", Location: "main.js:3:1"}, Fates: []ledger.Fate{{ID: id, Kind: ledger.Dead, Attempt: 1}},
	})
	var h *client.History
	for h == nil || len(h.Items) == 0 {
		if h, err = c.History(ctx, "db", "jobs-dead", page.Items[0].ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if i := h.Items[0]; i.Queue != "jobs" || i.Outcome != "failed" || i.Error.Message != "no url" || len(i.Fates) != 1 || i.Fates[0].Kind != "dead" || len(h.Missing) == 0 {
		t.Errorf("%+v", h)
	}
	edit := client.Edit{ID: page.Items[0].ID, Body: json.RawMessage(`{"url": "y"}`)}
	done, err := c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{Edit: &edit}, nil)
	if err != nil || done.Messages != 1 || done.ID == "" || done.ID == edit.ID {
		t.Fatalf("%+v, %v", done, err)
	}
	m, err := c.Message(ctx, "db", "jobs", done.ID)
	if err != nil || string(m.Body) != `{"url":"y"}` || m.Source != "jobs" {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{Edit: &edit}, nil)
	w.code(err, "message_not_found")
	_, err = c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{Edit: &client.Edit{ID: edit.ID, Body: json.RawMessage(`1`)}, Rate: 1}, nil)
	refused(t, err, http.StatusBadRequest, "edit_one")
	if h, err := c.History(ctx, "db", "jobs-dead", edit.ID); err != nil || len(h.Items) != 1 || !strings.HasPrefix(h.Missing[0], "how it left the queue") {
		t.Errorf("%+v, %v", h, err)
	}
}
