package crons

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/engine/schedule"
	api "github.com/runlot/runlot/internal/server/api/crons"
)

// Crons describes the crons of a version, as of now.
func (k *Keeper) Crons(ctx context.Context, m *app.Manifest) ([]api.Cron, error) {
	upcoming := Upcoming(m, time.Now())
	list, at := make([]api.Cron, len(upcoming)), map[string]*api.Cron{}
	texts := make([]string, len(upcoming))
	for i := range upcoming {
		list[i] = api.Cron{Text: upcoming[i].Cron, Words: upcoming[i].Words, Next: upcoming[i].At}
		texts[i], at[list[i].Text] = list[i].Text, &list[i]
	}
	store, err := k.open(m.Database)
	if err != nil || store == nil || len(list) == 0 {
		return list, err
	}
	view, err := store.Look(ctx, m.Name)
	if err != nil {
		return nil, err
	}
	for i := range view.Crons {
		if c := at[view.Crons[i].Cron]; c != nil {
			c.State = view.Crons[i]
		}
	}
	standings, err := store.Standings(ctx, m.Name, texts)
	if err != nil {
		return nil, err
	}
	for text, standing := range standings {
		if c := at[text]; c != nil {
			c.Standing = standing
		}
	}
	return list, nil
}

// Runs returns the kept runs of a version's app.
func (k *Keeper) Runs(ctx context.Context, m *app.Manifest, f *schedule.Filter, limit int) ([]schedule.Kept, error) {
	store, err := k.open(m.Database)
	if err != nil || store == nil {
		return nil, err
	}
	return store.Runs(ctx, f, limit)
}
