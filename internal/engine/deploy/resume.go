package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Resume makes the runner run every live version, after the start of the program: several at a time, so that those of one
// database that is held wait for it together. An app that cannot be resumed is left out, for Revive, and is in the error, as are
// secrets that cannot be read.
func (e *Engine) Resume(ctx context.Context) error {
	apps, err := e.o.Store.Apps(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, len(apps))
	var all sync.WaitGroup
	slots := make(chan struct{}, queue.ResumeAtOnce)
	for i := range apps {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			problems[i] = errors.Join(e.lookAtSecrets(ctx, apps[i].Name), e.resume(ctx, &apps[i]))
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

// resume resumes one app, if it has a live version.
func (e *Engine) resume(ctx context.Context, a *App) error {
	if a.Live == "" {
		return nil
	}
	v, err := e.o.Store.Version(ctx, a.Name, a.Live)
	if err == nil {
		err = e.o.Runner.Resume(ctx, e.runnable(v))
	}
	e.left(a.Name, err != nil)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// left notes whether an app is left out.
func (e *Engine) left(appName string, is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if is {
		e.out[appName] = true
	} else {
		delete(e.out, appName)
	}
}

// Revive tries again to resume the apps that Resume left out, each after growing pauses, until it runs, is deployed or deleted,
// or ctx ends. It returns when none is left.
func (e *Engine) Revive(ctx context.Context) {
	e.mu.Lock()
	names := slices.Sorted(maps.Keys(e.out))
	e.mu.Unlock()
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { e.revive(ctx, name) })
	}
	all.Wait()
}

func (e *Engine) revive(ctx context.Context, appName string) {
	wait := queue.Backoff{First: queue.RestartFirst, Max: queue.RestartMax}
	for try := 1; ; try++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Delay(try)):
		}
		over, err := e.again(ctx, appName)
		if over || ctx.Err() != nil {
			return
		}
		e.o.Log.Debug("an app does not come back yet", "app", appName, "try", try, "error", fault.Detail(err))
	}
}

// again makes one try, in its turn. over says that there is nothing more to do for the app.
func (e *Engine) again(ctx context.Context, appName string) (over bool, err error) {
	done, err := e.turn(ctx, appName)
	if err != nil {
		return false, err
	}
	defer done()
	e.mu.Lock()
	out := e.out[appName]
	e.mu.Unlock()
	if !out {
		return true, nil // it was deployed meanwhile
	}
	a, err := e.o.Store.App(ctx, appName)
	if fault.KindOf(err) == fault.NotFound {
		e.left(appName, false)
		return true, nil
	}
	if err == nil {
		err = e.resume(ctx, &a)
	}
	if err == nil {
		e.o.Log.Info("an app that was left out at the start is back", "app", appName)
	}
	return err == nil, err
}
