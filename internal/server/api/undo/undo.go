// Package undo is the calls about undoing what was done to messages.
package undo

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	wireundo "github.com/runlot/runlot/client/undo"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker/undo"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/api/endpoint"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/api/wire"
)

const (
	tag  = "Messages"
	path = "/v1/databases/{database}/queues/{queue}/undo"
)

// Register has a door answer the calls about undoing.
func Register(d *endpoint.Door, r *reach.Reach) {
	endpoint.Call(d, access.Read, huma.Operation{
		OperationID: "list-undo", Method: http.MethodGet, Path: path, Summary: "List what can be undone in a queue", Tags: []string{tag},
		Description: "Deletions, redrives and delays that were ended, of the last hour, the newest first. A purge cannot be undone, and what was done before it neither.",
		Metadata:    map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, in *reach.Path) (*endpoint.Body[wireundo.ActionList], error) {
		db, err := r.Open(ctx, in)
		if err != nil {
			return nil, err
		}
		list, err := db.Broker.Undoable(ctx, in.Queue)
		if err != nil {
			return nil, err
		}
		out := wireundo.ActionList{Items: make([]wireundo.Action, len(list))}
		for i := range list {
			a := &list[i]
			out.Items[i] = wireundo.Action{ID: a.ID, Kind: string(a.Kind), Messages: a.Messages, At: a.At.UTC(), Until: a.Until.UTC()}
		}
		return endpoint.Answer(out), nil
	})
	endpoint.Call(d, access.Deploy, huma.Operation{
		OperationID: "undo", Method: http.MethodPost, Path: path, Summary: "Undo what was done to messages", Tags: []string{tag},
		Description: "Each message is as it was before, or stays as it is because something happened to it since: the answer says which. It can be done once.",
		Metadata:    map[string]any{endpoint.AnyApp: true}, DefaultStatus: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		reach.Path

		Body wireundo.Undo
	},
	) (*endpoint.Body[wireundo.Undone], error) {
		db, err := r.Open(ctx, &in.Path)
		if err != nil {
			return nil, err
		}
		var may func(queueName string) bool
		if token := endpoint.Caller(ctx); token.App != "" {
			may = func(queueName string) bool { return r.Opens(token, in.Database, queueName) }
		}
		done, err := db.Broker.Undo(ctx, in.Queue, in.Body.ID, may)
		if err == nil || done.Done > 0 {
			r.Changed(ctx, &in.Path, deploy.EventUndone, detail(in.Body.ID, &done))
		}
		if err != nil {
			return nil, err
		}
		return endpoint.Answer(wireundo.Undone{
			Kind: string(done.Kind), Done: done.Done, InFlight: wire.Texts(done.InFlight), Changed: wire.Texts(done.Changed),
			Missing: wire.Texts(done.Missing), Forbidden: wire.Texts(done.Forbidden),
		}), nil
	})
}

// detail is what an event says of an undo.
func detail(id string, done *undo.Undone) map[string]string {
	left := len(done.InFlight) + len(done.Changed) + len(done.Missing) + len(done.Forbidden)
	return map[string]string{"undo": id, "kind": string(done.Kind), "messages": strconv.FormatInt(done.Done, 10), "left": strconv.Itoa(left)}
}
