package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/api/endpoint"
)

const (
	tagIdentity = "Identity"
	tagApps     = "Apps"
	tagSecrets  = "Secrets"
)

func (a *API) registerIdentity() {
	endpoint.Call(a.door, access.Read, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Summary: "Who am I", Tags: []string{tagIdentity},
		Metadata: map[string]any{endpoint.AnyApp: true},
	}, func(ctx context.Context, _ *struct{}) (*endpoint.Body[client.Whoami], error) {
		return endpoint.Answer(client.Whoami{Token: wireToken(endpoint.Caller(ctx)), Account: a.o.Account, Version: a.o.Version}), nil
	})
	endpoint.Call(a.door, access.Admin, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Summary: "List the API tokens", Tags: []string{tagIdentity},
	}, func(ctx context.Context, _ *struct{}) (*endpoint.List[client.Token], error) {
		tokens, err := a.o.Access.List(ctx)
		if err != nil {
			return nil, err
		}
		list := make([]client.Token, len(tokens))
		for i := range tokens {
			list[i] = wireToken(&tokens[i])
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(a.door, access.Admin, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Summary: "Make an API token", Tags: []string{tagIdentity},
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body client.NewToken }) (*endpoint.Body[client.CreatedToken], error) {
		var expires time.Time
		if in.Body.Expires != nil {
			expires = *in.Body.Expires
		}
		text, t, err := a.o.Access.Create(ctx, in.Body.Name, access.Role(in.Body.Role), in.Body.App, expires)
		if err != nil {
			return nil, err
		}
		a.noteToken(ctx, deploy.EventTokenCreated, t)
		return endpoint.Answer(client.CreatedToken{Token: wireToken(t), Text: text}), nil
	})
	endpoint.Call(a.door, access.Admin, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Summary: "Revoke an API token", Tags: []string{tagIdentity},
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	},
	) (*struct{}, error) {
		was, err := a.o.Access.Revoke(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		a.noteToken(ctx, deploy.EventTokenRevoked, was)
		return nil, nil //nolint:nilnil // a call without an answer
	})
}

// noteToken records what was done to a token, where events are kept. What was done is done, so that a failure is the log's.
func (a *API) noteToken(ctx context.Context, kind string, t *access.Token) {
	if a.o.Versions == nil {
		return
	}
	e := deploy.TokenEvent(kind, endpoint.Author(ctx), t.ID, t.Name, string(t.Role), t.App)
	if err := a.o.Versions.AddEvent(context.WithoutCancel(ctx), e, queue.KeptEvents); err != nil {
		a.o.Log.Error("an event was not recorded", "kind", kind, "token", t.ID, "error", fault.Detail(err))
	}
}

func wireToken(t *access.Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: string(t.Role), App: t.App, Created: t.Created, Expires: moment(t.Expires), Used: moment(t.Used)}
}

// moment is a time that may be none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
