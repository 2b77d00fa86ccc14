package access_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func keeper(t *testing.T) *access.Keeper {
	t.Helper()
	a := clustertest.NewDatabase(t)
	s, err := control.Open(t.Context(), func(context.Context) (string, error) { return a.OwnerURL(), nil })
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Cleanup(s.Close)
	return access.New(s)
}

func TestOnlyTheTextOpens(t *testing.T) {
	k := keeper(t)
	text, made, err := k.Create(t.Context(), "ci", access.Deploy, "shop", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(made.Hash), text) || !strings.HasPrefix(text, "runlot_"+made.ID+"_") {
		t.Errorf("token %q, %+v", text, made)
	}
	got, err := k.Authenticate(t.Context(), text)
	if err != nil || got.Name != "ci" || got.App != "shop" || got.Role != access.Deploy {
		t.Errorf("%+v, %v", got, err)
	}
	last := text[len(text)-1]
	other := byte('a')
	if last == other {
		other = 'b'
	}
	for _, wrong := range []string{
		"", "x", text[:len(text)-1], text[:len(text)-1] + string(other), text + "a", strings.TrimPrefix(text, "runlot_"),
		"runlot_" + made.ID, "runlot__", strings.Repeat("runlot_a_", 100), strings.ToUpper(text),
	} {
		if _, err := k.Authenticate(t.Context(), wrong); err == nil || fault.From(err).Code != access.CodeUnauthenticated {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	list, err := k.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Used.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
	if was, err := k.Revoke(t.Context(), made.ID); err != nil || was.Name != made.Name {
		t.Fatal(err)
	}
	if _, err := k.Authenticate(t.Context(), text); err == nil {
		t.Error("a revoked token opens")
	}
}

func TestATokenExpires(t *testing.T) {
	k := keeper(t)
	text, _, err := k.Create(t.Context(), "old", access.Read, "", time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Authenticate(t.Context(), text); err == nil {
		t.Error("an expired token opens")
	}
}

func TestWhatIsNoToken(t *testing.T) {
	k := keeper(t)
	for _, test := range []struct {
		name, app string
		role      access.Role
		code      string
	}{
		{"", "", access.Read, "token_name"},
		{strings.Repeat("x", 101), "", access.Read, "token_name"},
		{"x", "", "owner", "role_unknown"},
		{"x", "shop", access.Admin, "role_scope"},
	} {
		if _, _, err := k.Create(t.Context(), test.name, test.role, test.app, time.Time{}); err == nil || fault.From(err).Code != test.code {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestAllow(t *testing.T) {
	for _, test := range []struct {
		role  access.Role
		app   string
		need  access.Role
		on    string
		allow bool
	}{
		{access.Admin, "", access.Admin, "", true},
		{access.Admin, "", access.Read, "shop", true},
		{access.Deploy, "", access.Deploy, "shop", true},
		{access.Deploy, "", access.Admin, "", false},
		{access.Read, "", access.Read, "", true},
		{access.Read, "", access.Deploy, "shop", false},
		{access.Deploy, "shop", access.Deploy, "shop", true},
		{access.Deploy, "shop", access.Deploy, "other", false},
		{access.Deploy, "shop", access.Read, "", false},
		{"", "", access.Read, "", false},
	} {
		err := (&access.Token{Name: "x", Role: test.role, App: test.app}).Allow(test.need, test.on)
		if (err == nil) != test.allow || err != nil && fault.From(err).Code != access.CodeForbidden {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
