package control_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/postgres/control/subscriptions"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// subscribed stores a subscription to scripts.
func subscribed(t *testing.T, s subscriptions.Store, kind, script, to string, events ...string) *subscribe.Subscription {
	t.Helper()
	one := &subscribe.Subscription{
		Name: "n", Enabled: true, Source: subscribe.Source{Type: kind, Script: script}, Events: events,
		Target: subscribe.Place{Database: "db", Queue: to}, Created: day, Modified: day,
	}
	must(t, s.AddSubscription(t.Context(), one, queue.Subscriptions))
	return one
}

// waiting are the events that wait for a subscription, each with one value of its payload.
func waiting(t *testing.T, s subscriptions.Store, one *subscribe.Subscription, key string) []string {
	t.Helper()
	list, err := s.WaitingEvents(t.Context(), one.ID, 100)
	must(t, err)
	got := make([]string, 0, len(list))
	for i := range list {
		payload := map[string]any{}
		must(t, json.Unmarshal(list[i].Payload, &payload))
		text, err := json.Marshal(payload[key])
		must(t, err)
		got = append(got, list[i].Kind+" "+string(text))
	}
	return got
}

// TestFactsRaiseEvents in their own transactions, for those who ask for them.
func TestFactsRaiseEvents(t *testing.T) {
	s, url := open(t)
	subs := subscriptions.New(s.Pool())
	all := subscribed(t, subs, subscribe.Scripts, "", "told", subscribe.EventsOf(subscribe.Scripts)...)
	shop := subscribed(t, subs, subscribe.Builds, "shop", "told", subscribe.VersionDeployed)
	other := subscribed(t, subs, subscribe.Scripts, "other", "told", subscribe.VersionUploaded)
	off := subscribed(t, subs, subscribe.Scripts, "", "told", subscribe.VersionUploaded)
	off.Enabled = false
	must(t, subs.ChangeSubscription(t.Context(), off))

	one, two := upload("shop", "1"), upload("shop", "2")
	must(t, s.AddVersion(t.Context(), one, 10))
	must(t, s.AddVersion(t.Context(), two, 10))
	live := func(v *deploy.Version, action deploy.Action, was string) error {
		return s.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: v.ID, Action: action, Created: day, Author: "ann"}, was)
	}
	must(t, live(two, deploy.ActionDeploy, ""))
	code(t, live(one, deploy.ActionDeploy, ""), deploy.CodeLiveChanged) // what is taken back raises nothing
	must(t, live(one, deploy.ActionRollback, two.ID))
	must(t, s.DeleteApp(t.Context(), "shop"))
	code(t, s.DeleteApp(t.Context(), "shop"), deploy.CodeAppUnknown)

	// Another process finds them.
	s.Close()
	s, err := control.Open(t.Context(), at(url))
	must(t, err)
	defer s.Close()
	subs = subscriptions.New(s.Pool())
	for _, c := range []struct {
		of   *subscribe.Subscription
		want []string
	}{
		{all, []string{"version.uploaded 1", "version.uploaded 2", "version.deployed 2", "version.rolled_back 1", "script.deleted null"}},
		{shop, []string{"version.deployed 2"}},
		{other, []string{}},
		{off, []string{}},
	} {
		if diff := cmp.Diff(c.want, waiting(t, subs, c.of, "versionNumber")); diff != "" {
			t.Errorf("%s of %q: %s", c.of.Source.Type, c.of.Source.Script, diff)
		}
	}
	list, err := subs.WaitingEvents(t.Context(), all.ID, 3)
	must(t, err)
	if len(list) != 3 || !list[2].At.Equal(day) {
		t.Fatalf("%d events, the last at %v", len(list), list[2].At)
	}
	must(t, subs.EventsSent(t.Context(), []int64{list[0].Seq, list[1].Seq}))
	if n, err := subs.ExpireEvents(t.Context(), day.Add(time.Second)); n != 3 || err != nil {
		t.Errorf("%d events are too old, %v", n, err)
	}
	if diff := cmp.Diff([]string{"script.deleted null"}, waiting(t, subs, all, "versionNumber")); diff != "" {
		t.Error(diff)
	}
}

// TestSubscriptionsGoWithTheAppOfTheirQueue and with nothing else.
func TestSubscriptionsGoWithTheAppOfTheirQueue(t *testing.T) {
	s, _ := open(t)
	subs := subscriptions.New(s.Pool())
	deployed := func(appName string, queues ...string) {
		t.Helper()
		v := upload(appName, "x")
		v.Manifest.Consumers = nil
		for _, q := range queues {
			v.Manifest.Consumers = append(v.Manifest.Consumers, queue.Consumer{Queue: q})
		}
		must(t, s.AddVersion(t.Context(), v, 10))
		must(t, s.SetLive(t.Context(), &deploy.Deployment{App: appName, Version: v.ID, Action: deploy.ActionDeploy, Created: day}, ""))
	}
	deployed("shop", "jobs", "shared")
	v := upload("mail", "x")
	v.Manifest.Consumers, v.Manifest.Producers = nil, []app.Producer{{Queue: "shared"}}
	must(t, s.AddVersion(t.Context(), v, 10))
	must(t, s.SetLive(t.Context(), &deploy.Deployment{App: "mail", Version: v.ID, Action: deploy.ActionDeploy, Created: day}, ""))
	subscribed(t, subs, subscribe.Scripts, "", "jobs", subscribe.ScriptDeleted)
	shared := subscribed(t, subs, subscribe.Scripts, "shop", "shared", subscribe.ScriptDeleted)
	nobodys := subscribed(t, subs, subscribe.Scripts, "", "nobodys", subscribe.ScriptDeleted)
	must(t, s.DeleteApp(t.Context(), "shop"))
	list, err := subs.Subscriptions(t.Context())
	must(t, err)
	if diff := cmp.Diff([]subscribe.Subscription{*shared, *nobodys}, list); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`script.deleted "shop"`}, waiting(t, subs, shared, "scriptName")); diff != "" {
		t.Error(diff)
	}
	// What is gone is raised nothing, and not found.
	must(t, subs.DeleteSubscription(t.Context(), shared.ID))
	must(t, subs.RaiseEvents(t.Context(), []subscribe.Event{
		{Subscription: shared.ID, Kind: "k", At: day, Payload: json.RawMessage("{}")}, {Subscription: nobodys.ID, Kind: "k", At: day, Payload: json.RawMessage("{}")},
	}))
	if diff := cmp.Diff([]string{`script.deleted "shop"`, "k null"}, waiting(t, subs, nobodys, "scriptName")); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{shared.ID, "x"} {
		code(t, subs.DeleteSubscription(t.Context(), id), subscribe.CodeUnknown)
		code(t, subs.ChangeSubscription(t.Context(), &subscribe.Subscription{ID: id, Events: []string{"e"}}), subscribe.CodeUnknown)
	}
	code(t, subs.AddSubscription(t.Context(), shared, 1), subscribe.CodeCount)
}
