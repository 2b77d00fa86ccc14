package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/runlot/runlot/internal/adapter/workerd/place"
	"github.com/runlot/runlot/internal/adapter/workerd/reach"
	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Probe loads a bundle in a throw-away process, without bindings, network or experimental flags, and returns the handlers
// that it exports. It takes at most queue.ProbeTime. A bundle that does not load is a fault of kind Invalid (Timeout when
// it does not come to an end), with file:line:column and workerd's reason; mapStack, which may be nil, maps it to the sources.
func (r *Runtime) Probe(ctx context.Context, manifest *app.Manifest, bundle *app.Bundle, mapStack MapStack) (*app.Handlers, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	config, err := render.Probe(manifest, bundle)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.probeTime)
	defer cancel()
	where, err := place.New("", routerSocket)
	if err != nil {
		return nil, err
	}
	defer where.Remove()
	if err := config.Write(where.Dir); err != nil {
		return nil, err
	}
	router, err := where.Inherit(routerSocket)
	if err != nil {
		return nil, err
	}
	defer router.Close()
	if bundle.ServiceWorker {
		mapStack = reason.Script(mapStack, bundle.Modules[0].Name, config.Prefix)
	}
	c, err := r.launch(ctx, where.Dir, nil, []socket{{"router", router}})
	if err != nil {
		return nil, startError(err, c, mapStack)
	}
	defer func() {
		c.kill()
		<-c.exited
	}()
	handlers, err := ask(ctx, where)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, startError(err, c, mapStack)
	case err != nil:
		return nil, fault.New(fault.Environment, "worker_probe", "the exports of the app could not be read").WithCause(err)
	}
	handlers.ServiceWorker = bundle.ServiceWorker
	return handlers, nil
}

// ask gets the probe's answer.
func ask(ctx context.Context, where *place.Place) (*app.Handlers, error) {
	client := reach.Client(where.Socket(routerSocket), 1)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("request to the probe: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request to the probe: %w", err)
	}
	defer resp.Body.Close()
	var handlers app.Handlers
	if err := json.NewDecoder(io.LimitReader(resp.Body, queue.MaxResultBody)).Decode(&handlers.Exports); err != nil {
		return nil, fmt.Errorf("answer of the probe, status %d: %w", resp.StatusCode, err)
	}
	return &handlers, nil
}
