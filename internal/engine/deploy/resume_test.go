package deploy_test

import (
	"context"
	"errors"
	"testing"

	"github.com/runlot/runlot/internal/engine/deploy"
)

// TestAnAppThatWasLeftOutComesBack by itself, once what held it is over; one that is deployed or deleted meanwhile is left alone.
func TestAnAppThatWasLeftOutComesBack(t *testing.T) {
	w := newWorld(t)
	_, err := w.deploy(w.add("one"), deploy.ActionDeploy)
	w.must(err)
	leaveOut := func(failures int64) {
		t.Helper()
		w.restart()
		w.runner.held.Store(failures)
		if err := w.Resume(t.Context()); !errors.Is(err, errHeld) {
			t.Fatalf("resumed: %v", err)
		}
	}
	leaveOut(2)
	w.Revive(t.Context())
	w.runs("one")
	w.runner.at = func() { t.Error("what runs is resumed again") }
	w.Revive(t.Context())

	leaveOut(1)
	_, err = w.deploy(w.add("two"), deploy.ActionDeploy)
	w.must(err)
	w.runner.at = func() { t.Error("what was deployed is resumed") }
	w.Revive(t.Context())
	w.runs("two")

	// A stop ends the tries.
	leaveOut(1_000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Revive(ctx)

	_, err = w.Delete(t.Context(), "shop", "ann", true)
	w.must(err)
	w.Revive(t.Context())
}
