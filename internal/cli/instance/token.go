package instance

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/daemon/tokens"
)

// Token makes, lists and revokes API tokens without one. fresh returns settings for each of the commands.
func Token(fresh func() Settings) *cobra.Command {
	return remote.TokenCommand(remote.TokenDoor{
		Program: "celld", Flags: " --data /var/lib/celld", Role: "admin",
		Long: `token makes, lists and revokes API tokens of the celld that runs on a data
folder, for who owns that folder: where the token of an admin is lost, or did
not come along with a backup. With a token at hand it is runlot token.`,
		Prepare: func(c *cobra.Command) func(*cobra.Command, func(remote.Tokens) error) error {
			s := fresh()
			some(c, s, "data", "database-url")
			return func(c *cobra.Command, run func(remote.Tokens) error) error {
				settings, err := s.Read(c)
				if err != nil {
					return err
				}
				t, err := tokens.Open(c.Context(), tokens.Options{Data: settings.Data, URLs: settings.DatabaseURLs})
				if err != nil {
					return err
				}
				defer t.Close()
				return run(&ownTokens{t})
			}
		},
	})
}

// ownTokens are the tokens of a data folder in the shapes of the API.
type ownTokens struct{ kept *tokens.Tokens }

// CreateToken implements remote.Tokens.
func (o *ownTokens) CreateToken(ctx context.Context, t *client.NewToken) (*client.CreatedToken, error) {
	var expires time.Time
	if t.Expires != nil {
		expires = *t.Expires
	}
	text, made, err := o.kept.Create(ctx, t.Name, t.Role, t.App, expires)
	if err != nil {
		return nil, err
	}
	return &client.CreatedToken{
		Token: client.Token{ID: made.ID, Name: made.Name, Role: string(made.Role), App: made.App, Created: made.Created, Expires: moment(made.Expires)},
		Text:  text,
	}, nil
}

// Tokens implements remote.Tokens.
func (o *ownTokens) Tokens(ctx context.Context) ([]client.Token, error) {
	kept, err := o.kept.List(ctx)
	list := make([]client.Token, len(kept))
	for i := range kept {
		t := &kept[i]
		list[i] = client.Token{ID: t.ID, Name: t.Name, Role: string(t.Role), App: t.App, Created: t.Created, Expires: moment(t.Expires), Used: moment(t.Used)}
	}
	return list, err
}

// RevokeToken implements remote.Tokens.
func (o *ownTokens) RevokeToken(ctx context.Context, id string) error { return o.kept.Revoke(ctx, id) }

// moment is a time that may be none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
