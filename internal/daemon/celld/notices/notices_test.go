package notices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/smtp/smtptest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/notify"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/reach"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// waitTime bounds each wait for something to happen.
const waitTime = 60 * time.Second

// nothing are no queues.
type nothing struct{}

func (nothing) Databases() []string            { return nil }
func (nothing) Series(string) *series.Recorder { return nil }
func (nothing) Manifests() []*app.Manifest     { return nil }
func (nothing) Database(context.Context, string) (reach.Database, error) {
	return reach.Database{}, errors.New("none")
}

// open opens a store as a node does, on a database.
func open(t *testing.T, url string) *control.Store {
	t.Helper()
	store, err := control.Open(t.Context(), func(context.Context) (string, error) { return url, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func start(t *testing.T, s *Settings, store *control.Store) *Notices {
	t.Helper()
	n, err := New(s, "127.0.0.1:8788", "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n.Start(store, nothing{})
	t.Cleanup(n.Stop)
	return n
}

func mailbox(t *testing.T, o smtptest.Options) (server *smtptest.Server, address string) {
	t.Helper()
	server, err := smtptest.Start(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server, fmt.Sprintf("smtp+plain://127.0.0.1:%d", server.Port)
}

func subjects(t *testing.T, server *smtptest.Server, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	mails := server.Wait(n, ctx.Done())
	list := make([]string, 0, len(mails))
	for _, m := range mails {
		subject, _, err := m.Read()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, subject)
	}
	return list
}

func record(outcome queue.Outcome) *dispatch.Record {
	return &dispatch.Record{
		App: "shop", Queue: "jobs", Start: time.Now(), Duration: time.Second, Outcome: outcome, Error: &dispatch.Exception{Name: "Error", Message: "no", Location: "a.ts:1:1"},
	}
}

// TestTwoNodesOverOneDatabase: what both notice is mailed once, and each kind of fact comes through.
func TestTwoNodesOverOneDatabase(t *testing.T) {
	server, address := mailbox(t, smtptest.Options{})
	url := clustertest.NewDatabase(t).OwnerURL()
	s := &Settings{SMTPURL: address, To: []string{"ann@example.com"}, Rules: AllRules}
	store := open(t, url)
	nodes := []*Notices{start(t, s, store), start(t, s, open(t, url))}
	for range 4 {
		for _, n := range nodes {
			n.Batch("shop", "jobs-dead", record(queue.Failed))
		}
	}
	day := time.Now().UTC().Truncate(24 * time.Hour)
	for _, n := range nodes {
		n.Operations("shop", time.Now(), usage.Alert{Percent: 90, Used: 90, Cap: 100, Day: day, Resets: day.Add(24 * time.Hour)})
		n.Run(&schedule.Record{App: "shop", Cron: "0 * * * *", At: day, Attempt: 1, Start: time.Now(), Outcome: queue.Failed, Error: &schedule.Exception{Name: "Error"}})
		n.Run(&schedule.Record{App: "shop", Cron: "1 * * * *", At: day, Attempt: 1, Start: time.Now(), Outcome: queue.Failed, Manual: true})
	}
	want := []string{
		"[celld] jobs: three batches failed in a row", "[celld] shop: 90 % of the day's queue operations are used", "[celld] shop: the cron 0 * * * * failed",
	}
	got := subjects(t, server, len(want))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("mails %q", got)
	}
	for _, n := range nodes {
		n.Stop()
	}
	if list := subjects(t, server, 0); len(list) != len(want) {
		t.Errorf("mails %q", list)
	}
	stored, err := store.Outbox().Notices(t.Context(), 0, 10)
	if err != nil || len(stored) != len(want) || stored[0].Ways[0].State != "sent" {
		t.Errorf("stored %+v, error %v", stored, err)
	}
}

// TestWhatCannotBeSentIsAnEvent, and a receiver that is refused keeps no other from being told.
func TestWhatCannotBeSentIsAnEvent(t *testing.T) {
	server, address := mailbox(t, smtptest.Options{Rcpt: func(to string) error {
		if to == "gone@example.com" {
			return smtptest.Refusal(550, "nobody of this name")
		}
		return nil
	}})
	store := open(t, clustertest.NewDatabase(t).OwnerURL())
	n := start(t, &Settings{SMTPURL: address, To: []string{"gone@example.com", "ann@example.com"}, Rules: DefaultRules}, store)
	for range 3 {
		n.Batch("shop", "", record(queue.Errored))
	}
	if got := subjects(t, server, 1); len(got) != 1 {
		t.Errorf("mails %q", got)
	}
	var events []deploy.Event
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(waitTime); len(events) == 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("there is no event")
		}
		var err error
		if events, err = store.Events(t.Context(), "shop", 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	if len(events) != 1 || events[0].Kind != EventFailed || events[0].Detail["name"] != "queue_failed" || events[0].Detail["about"] != "queue shop/jobs" {
		t.Errorf("events %+v", events)
	}
}

// TestKilledBetween: a node dies when the server has the mail and before that is noted; another one sends it again, as the same
// mail. The lease is over at once here.
func TestKilledBetween(t *testing.T) {
	server, address := mailbox(t, smtptest.Options{})
	url := clustertest.NewDatabase(t).OwnerURL()
	s := &Settings{SMTPURL: address, To: []string{"ann@example.com"}, Rules: DefaultRules}
	ways, err := s.Ways("127.0.0.1:8788", "v1")
	if err != nil {
		t.Fatal(err)
	}
	dying := open(t, url)
	notice := &notify.Notice{Rule: notify.QueueFailed, At: time.Now(), Database: "shop", Queue: "jobs", Count: 3}
	if _, err := dying.Outbox().Add(t.Context(), notice, ways[0].Ways(), 10); err != nil {
		t.Fatal(err)
	}
	d, _, err := dying.Outbox().Claim(t.Context(), ways[0].Ways(), 0)
	if err != nil || d == nil {
		t.Fatal(d, err)
	}
	if err := ways[0].Send(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	dying.Close()
	next := open(t, url)
	n := start(t, s, next)
	if got := subjects(t, server, 2); len(got) != 2 {
		t.Fatalf("mails %q", got)
	}
	n.Stop()
	ids := make([]string, 0, 2)
	for _, m := range server.Wait(0, nil) {
		msg, err := mail.ReadMessage(strings.NewReader(m.Text))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, msg.Header.Get("Message-Id"))
	}
	if len(ids) != 2 || ids[0] != ids[1] || ids[0] == "" {
		t.Errorf("the mails are %q", ids)
	}
	if d, _, err := next.Outbox().Claim(t.Context(), ways[0].Ways(), 0); d != nil || err != nil {
		t.Errorf("after that %+v is due, error %v", d, err)
	}
}

// shop is a node with the queues of one broker, and a database that is away.
type shop struct {
	b        *broker.Broker
	manifest *app.Manifest
}

func (q *shop) Databases() []string            { return []string{"away", "shop"} }
func (q *shop) Series(string) *series.Recorder { return nil }
func (q *shop) Manifests() []*app.Manifest     { return []*app.Manifest{q.manifest} }
func (q *shop) Database(_ context.Context, name string) (reach.Database, error) {
	if name != "shop" {
		return reach.Database{}, errors.New("away")
	}
	return reach.Database{Broker: q.b}, nil
}

func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		b := broker.New(broker.Options{Store: memory.NewDatabase().Open(), Log: log})
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Stop(context.Background()) }()
		if err := b.Declare(t.Context(), []string{"jobs", "dead", "paused", "empty", "fresh"}); err != nil {
			t.Fatal(err)
		}
		send := func(name string) {
			if _, err := b.Send(t.Context(), name, []queue.Draft{{Body: []byte("1"), Format: queue.JSON}}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for _, name := range []string{"jobs", "dead", "paused"} {
			send(name)
		}
		if err := b.Pause(t.Context(), "paused"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		send("fresh")
		n := &Notices{old: time.Hour, log: log, queues: &shop{b, &app.Manifest{
			Name: "shop", Database: "shop", Consumers: []queue.Consumer{{Queue: "jobs", DeadLetterQueue: "dead"}},
		}}}
		got := map[string]notify.Age{}
		for _, a := range n.ages(t.Context()) {
			got[a.Queue] = a
		}
		if len(got) != 2 || !got["jobs"].Oldest.Equal(began.Truncate(time.Millisecond)) || got["jobs"].Database != "shop" || !got["jobs"].PausedSince.IsZero() || got["paused"].PausedSince.IsZero() {
			t.Errorf("ages %+v", got)
		}
	})
}
