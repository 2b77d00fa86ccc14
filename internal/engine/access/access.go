// Package access says who may do what: API tokens, their roles, and the check of each call.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Role is what a token allows.
type Role string

// The roles, each with all that the ones before it allow.
const (
	// Read looks at everything but the values of secrets.
	Read Role = "read"
	// Deploy changes apps, their queues and their messages.
	Deploy Role = "deploy"
	// Admin makes and revokes tokens too.
	Admin Role = "admin"
)

var rank = map[Role]int{Read: 1, Deploy: 2, Admin: 3}

// Token is an API token as it is kept: without its text.
type Token struct {
	ID   string
	Name string
	Role Role
	// App, when set, is the only app that the token opens.
	App     string
	Created time.Time
	// Expires and Used are zero for never.
	Expires time.Time
	Used    time.Time
	// Hash is the SHA-256 of the token's text.
	Hash []byte
}

// Store keeps tokens. Faults: NotFound with CodeTokenUnknown, Unavailable.
type Store interface {
	AddToken(ctx context.Context, t *Token) error
	Token(ctx context.Context, id string) (*Token, error)
	Tokens(ctx context.Context) ([]Token, error)
	DeleteToken(ctx context.Context, id string) error
	// UseToken notes when a token was last used.
	UseToken(ctx context.Context, id string, at time.Time) error
}

// Codes of the faults of this package.
const (
	CodeTokenUnknown    = "token_unknown"
	CodeUnauthenticated = "unauthenticated"
	CodeForbidden       = "forbidden"
)

// prefix begins every token, so that a leaked one is recognised.
const prefix = "runlot_"

// Lengths of the two random parts of a token, in bytes.
const (
	idBytes     = 5
	secretBytes = 25
)

// usedEvery is how exactly it is noted when a token was used.
const usedEvery = time.Minute

var letters = base32.NewEncoding("abcdefghjkmnpqrstuvwxyz023456789").WithPadding(base32.NoPadding)

// Keeper makes, lists, revokes and checks tokens.
type Keeper struct{ store Store }

// New returns a keeper over a store.
func New(s Store) *Keeper { return &Keeper{s} }

// Create makes a token and returns its text, which is not kept.
func (k *Keeper) Create(ctx context.Context, name string, role Role, appName string, expires time.Time) (text string, t *Token, err error) {
	if rank[role] == 0 {
		return "", nil, fault.New(fault.Invalid, "role_unknown", "there is no role %q", role).WithHint("use read, deploy or admin")
	}
	if role == Admin && appName != "" {
		return "", nil, fault.New(fault.Invalid, "role_scope", "an admin is not bound to one app").WithHint("give the token the role deploy")
	}
	const longest = 100
	if n := utf8.RuneCountInString(name); n == 0 || n > longest {
		return "", nil, fault.New(fault.Invalid, "token_name", "a token has a name of 1 to %d characters", longest).
			WithHint("say who or what it is for")
	}
	known, err := k.store.Tokens(ctx)
	if err != nil {
		return "", nil, err
	}
	if len(known) >= queue.MaxTokens {
		return "", nil, fault.New(fault.Limit, "token_count", "there are %d tokens, and more are not possible", len(known)).
			WithHint("revoke those that are not used")
	}
	random := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(random) // it never fails
	id := letters.EncodeToString(random[:idBytes])
	text = prefix + id + "_" + letters.EncodeToString(random[idBytes:])
	hash := sha256.Sum256([]byte(text))
	t = &Token{ID: id, Name: name, Role: role, App: appName, Created: time.Now().UTC().Truncate(time.Microsecond), Expires: expires, Hash: hash[:]}
	if err := k.store.AddToken(ctx, t); err != nil {
		return "", nil, err
	}
	return text, t, nil
}

// List returns every token, the oldest first.
func (k *Keeper) List(ctx context.Context) ([]Token, error) { return k.store.Tokens(ctx) }

// Revoke makes a token worthless at once, and returns what it was.
func (k *Keeper) Revoke(ctx context.Context, id string) (*Token, error) {
	t, err := k.store.Token(ctx, id)
	if err != nil {
		return nil, err
	}
	return t, k.store.DeleteToken(ctx, id)
}

// Authenticate finds the token with this text. What is wrong with another is not told.
func (k *Keeper) Authenticate(ctx context.Context, text string) (*Token, error) {
	refused := fault.New(fault.Invalid, CodeUnauthenticated, "the token is not valid").
		WithHint("log in again with `runlot login`; an admin makes tokens with `runlot token create`")
	id, _, ok := strings.Cut(strings.TrimPrefix(text, prefix), "_")
	if !ok || !strings.HasPrefix(text, prefix) || len(text) > 200 {
		return nil, refused
	}
	t, err := k.store.Token(ctx, id)
	if fault.KindOf(err) == fault.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(text))
	now := time.Now()
	if subtle.ConstantTimeCompare(hash[:], t.Hash) != 1 || !t.Expires.IsZero() && !now.Before(t.Expires) {
		return nil, refused
	}
	if now.Sub(t.Used) >= usedEvery {
		if err := k.store.UseToken(ctx, t.ID, now); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Valid fails with NotFound for the id of a token that was revoked or has expired.
func (k *Keeper) Valid(ctx context.Context, id string) error {
	t, err := k.store.Token(ctx, id)
	if err == nil && !t.Expires.IsZero() && !time.Now().Before(t.Expires) {
		err = fault.New(fault.NotFound, CodeTokenUnknown, "the token %q has expired", t.Name)
	}
	return err
}

// Allow refuses a call that needs a role, for an app or, for "", for the whole instance.
func (t *Token) Allow(need Role, appName string) error {
	if rank[t.Role] < rank[need] {
		return fault.New(fault.Invalid, CodeForbidden, "the token %q has the role %s; this needs %s", t.Name, t.Role, need).
			WithHint("use another token, or ask an admin for one")
	}
	if t.App != "" && t.App != appName {
		if appName == "" {
			return fault.New(fault.Invalid, CodeForbidden, "the token %q is for the app %s only", t.Name, t.App).WithHint("use a token for the whole instance")
		}
		return fault.New(fault.Invalid, CodeForbidden, "the token %q is for the app %s, not for %s", t.Name, t.App, appName).
			WithHint("use another token, or ask an admin for one")
	}
	return nil
}

// Opens reports whether the token opens a queue: one for one app opens those that the version names which runs of the app.
func (t *Token) Opens(running []*app.Manifest, database, queueName string) bool {
	return t.App == "" || slices.ContainsFunc(running, func(m *app.Manifest) bool {
		return m.Name == t.App && m.Names(database, queueName)
	})
}
