package apps

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/api/endpoint"
)

// SecretPath is the input of a call about one secret.
type SecretPath struct {
	endpoint.AppPath

	Name string `path:"name" maxLength:"128"`
}

func (c *calls) registerSecrets() {
	endpoint.Call(c.d, access.Read, huma.Operation{
		OperationID: "list-secrets", Method: http.MethodGet, Path: "/v1/apps/{app}/secrets", Summary: "List the names of an app's secrets",
		Tags: []string{tagSecrets},
	}, func(ctx context.Context, in *endpoint.AppPath) (*endpoint.List[client.Secret], error) {
		secrets, err := c.o.Deploy.Secrets(ctx, in.App)
		if err != nil {
			return nil, err
		}
		list := make([]client.Secret, len(secrets))
		for i := range secrets {
			list[i] = client.Secret{Name: secrets[i].Name, Updated: secrets[i].Updated}
		}
		return endpoint.ListOf(list), nil
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "put-secret", Method: http.MethodPut, Path: "/v1/apps/{app}/secrets/{name}", Summary: "Set a secret",
		Description: "The live version is started again with it, new before old.", Tags: []string{tagSecrets}, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		SecretPath

		Body client.PutSecret
	},
	) (*struct{}, error) {
		return nil, c.o.Deploy.PutSecret(context.WithoutCancel(ctx), in.App, in.Name, in.Body.Value, endpoint.Author(ctx))
	})
	endpoint.Call(c.d, access.Deploy, huma.Operation{
		OperationID: "delete-secret", Method: http.MethodDelete, Path: "/v1/apps/{app}/secrets/{name}", Summary: "Delete a secret",
		Description: "The live version is started again without it, new before old.", Tags: []string{tagSecrets}, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *SecretPath) (*struct{}, error) {
		return nil, c.o.Deploy.DeleteSecret(context.WithoutCancel(ctx), in.App, in.Name, endpoint.Author(ctx))
	})
}
