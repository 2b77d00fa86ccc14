package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/delivery"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// finish acks all but the last of n messages of the queue jobs and drops that one, and records it as a dispatcher does.
func finish(t *testing.T, b *broker.Broker, l *ledger.Ledger, n int) {
	t.Helper()
	lane, err := b.Lane("jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	batch, err := lane.Next(t.Context(), n, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r := &ledger.Record{
		ID: ledger.ID{Queue: "jobs"}, App: "shop", Version: "v1", Delivery: "d", Start: time.Now(), Duration: time.Second, Outcome: queue.Failed,
		Delivered: n, Acked: n - 1, Dropped: 1, Error: &ledger.Exception{Name: "Error", Message: "no"},
	}
	decisions := make([]queue.Decision, n)
	for i := range decisions {
		m := &batch.Messages[i]
		decisions[i] = queue.Decision{Seq: m.Seq, Verdict: queue.Ack}
		if i == n-1 {
			decisions[i].Verdict = queue.Drop
			r.Fates = []ledger.Fate{{ID: m.ID, Kind: ledger.Dropped, Attempt: 4}}
			continue
		}
		r.Acks = append(r.Acks, queue.Acked{ID: m.ID, Attempt: 2})
	}
	done := make(chan error, 1)
	lane.Settle(batch, decisions, "", func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.Batch(r)
}

// TestWhyAMessageWaits: one that was sent with a delay, one whose handler failed, and one in flight say so.
func TestWhyAMessageWaits(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	ctx, c := t.Context(), w.admin
	if _, err := c.Send(ctx, "db", "jobs", append(drafts("1", "2"), client.Draft{Body: []byte("3"), DelaySeconds: 3600})); err != nil {
		t.Fatal(err)
	}
	lane, err := b.Lane("jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	until := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	for i, outcome := range []queue.Outcome{queue.Failed, queue.OK} {
		batch, err := lane.Next(ctx, 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		lane.Held(batch, &queue.Holder{App: "shop", Version: "v1", Delivery: "d", Until: until})
		page, err := c.Peek(ctx, "db", "jobs", "in_flight", "", 0)
		if err != nil || len(page.Items) != 1 || page.Items[0].Wait != nil {
			t.Fatalf("%+v, %v", page, err)
		}
		want := &delivery.Lease{App: "shop", Version: "v1", Delivery: "d", Messages: 1, Until: until.UTC()}
		if diff := cmp.Diff(want, page.Items[0].Lease); diff != "" {
			t.Error(diff)
		}
		done := make(chan error, 1)
		lane.Settle(batch, []queue.Decision{{
			Seq: batch.Messages[0].Seq, Verdict: queue.Retry, Delay: time.Duration(i+1) * 10 * time.Minute, Failures: 1, Outcome: outcome, Reason: "Error: no",
		}}, "", func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Peek(ctx, "db", "jobs", "delayed", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]delivery.Wait, 0, len(page.Items))
	for i := range page.Items {
		got = append(got, *page.Items[i].Wait)
	}
	want := []delivery.Wait{{Cause: "failed", Reason: "Error: no"}, {Cause: "asked"}, {Cause: "sent"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettledMessages(t *testing.T) {
	w := newWorld(t)
	b, l := w.serve()
	ctx, c := t.Context(), w.client("shop", access.Read)
	before := time.Now().Add(-time.Minute)
	if _, err := w.admin.Send(ctx, "db", "jobs", drafts("1", "2", "3")); err != nil {
		t.Fatal(err)
	}
	held, err := b.Peek(ctx, "jobs", operate.PeekOptions{})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, b, l, 3)
	list := &client.Messages{}
	for deadline := time.After(time.Minute); len(list.Items) == 0; {
		if list, err = c.Peek(ctx, "db", "jobs", "settled", "", 2); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("no message is listed")
		}
	}
	rest, err := c.Peek(ctx, "db", "jobs", "settled", list.Next, 2)
	if err != nil || len(list.Items) != 2 || list.Next == "" || rest.Next != "" {
		t.Fatalf("%+v and %+v, %v", list, rest, err)
	}
	all := slices.Concat(list.Items, rest.Items)
	got, want := make([]string, 0, len(all)), make([]string, 0, len(all))
	for i := range all {
		m := &all[i]
		got = append(got, m.ID+" "+m.State+" "+m.Settled.As+" "+m.Reason)
		if one, err := c.Message(ctx, "db", "jobs", m.ID); err != nil || cmp.Diff(m, one) != "" {
			t.Errorf("the message alone is %+v, %v", one, err)
		}
		batch, err := c.Batch(ctx, "db", m.Settled.Batch)
		if err != nil || len(batch.Acks) != 2 || batch.Acks[0] != (client.Fate{ID: all[0].ID, Kind: "acked", Attempt: 2}) {
			t.Errorf("the batch is %+v, %v", batch, err)
		}
		if m.Sent.Before(before) || m.Settled.Delivered.Before(m.Sent.Add(-time.Second)) || m.Settled.At.Sub(m.Settled.Delivered) != time.Second || m.Settled.App != "shop" {
			t.Errorf("%+v %+v", m, m.Settled)
		}
		h, err := c.History(ctx, "db", "jobs", m.ID)
		if err != nil || len(h.Items) != 1 || len(h.Items[0].Fates) != 1 || h.Items[0].Fates[0].Kind != m.Settled.As || strings.HasPrefix(h.Missing[0], "how it left") {
			t.Errorf("the history is %+v, %v", h, err)
		}
	}
	for i, how := range []string{"acked ", "acked ", "dropped Error: no"} {
		want = append(want, held.Messages[i].ID.String()+" settled "+how)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(all) == 3 && (all[0].Attempts != 2 || all[2].Attempts != 4 || all[0].Body != nil) {
		t.Errorf("%+v", all)
	}
	status := func(query string) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/v1/databases/db/queues/"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := w.access.Create(ctx, "looks", access.Read, "mail", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+text)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for query, want := range map[string]int{
		"mails/messages?state=settled": http.StatusOK, "mails/messages?state=settled&filter=x": http.StatusBadRequest, "mails/messages?state=settled&cursor=x": http.StatusBadRequest,
		"jobs/messages?state=settled": http.StatusForbidden, "jobs/messages/" + all[0].ID: http.StatusForbidden, "mails/messages/" + all[0].ID: http.StatusNotFound,
	} {
		if got := status(query); got != want {
			t.Errorf("%s gives status %d instead of %d", query, got, want)
		}
	}
}
