package servers

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// serversAt are the servers of a user who named these databases; what they are told comes back in the list.
func serversAt(urls map[string]string) (s *Servers, notices *[]string) {
	notices = &[]string{}
	return New(Options{
		URLs: urls, Log: slog.New(slog.DiscardHandler),
		Notice: func(text string) { *notices = append(*notices, text) },
	}), notices
}

// TestOwnDatabaseIsJudgedBeforeItIsUsed: each time that it is opened, by its name or as the one for any name.
func TestOwnDatabaseIsJudgedBeforeItIsUsed(t *testing.T) {
	made := clustertest.NewDatabase(t)
	url := made.OwnerURL()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, name := range []string{"shop", ""} {
		s, notices := serversAt(map[string]string{name: url})
		a, err := s.Open(t.Context(), "shop")
		if err != nil {
			t.Fatal(fault.Detail(err))
		}
		want := Access{URL: url, App: workerd.Database{
			Network: "unix", Address: clustertest.Cluster(t).SocketPath(), Name: made.Database, User: made.Owner.User, Password: made.Owner.Password,
		}}
		if got := s.InUse(); got != clustertest.Cluster(t).Version() {
			t.Errorf("version %q is in use", got)
		}
		if diff := cmp.Diff(want, a, cmp.Options{}); diff != "" || len(*notices) > 0 {
			t.Errorf("%s\nnotices %q", diff, *notices)
		}
		if _, err := conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER SET synchronous_commit = off"); err != nil {
			t.Fatal(err)
		}
		_, err = s.Open(t.Context(), "shop")
		faulttest.Want(t, err, fault.Environment, "database_synchronous_commit", made.Database)
		if _, err := conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER RESET synchronous_commit"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOwnDatabaseTakesOneName(t *testing.T) {
	s, _ := serversAt(map[string]string{"": clustertest.NewDatabase(t).OwnerURL(), "named": "postgres://127.0.0.1:1/x"})
	if s.Known("shop") || !s.Known("named") || s.Known("") {
		t.Error("before anything is opened, what is known is what a URL names")
	}
	defer func() {
		if !s.Known("shop") || s.Known("other") {
			t.Error("what is known is not what was opened")
		}
	}()
	for range 2 {
		if _, err := s.Open(t.Context(), "shop"); err != nil {
			t.Fatal(fault.Detail(err))
		}
	}
	_, err := s.Open(t.Context(), "mail")
	faulttest.Want(t, err, fault.Invalid, "database_url_ambiguous", "mail")
	// The refusal leaves the first one alone, which is opened again whenever its connection was lost.
	if _, err := s.Open(t.Context(), "shop"); err != nil {
		t.Errorf("the first one after the refusal: %v", fault.Detail(err))
	}
}

// TestAnOwnDatabaseThatWasNotOpenedIsFree: a first try that failed keeps no other name out.
func TestAnOwnDatabaseThatWasNotOpenedIsFree(t *testing.T) {
	s, _ := serversAt(map[string]string{"": clustertest.NewDatabase(t).OwnerURL()})
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.Open(gone, "shop"); err == nil {
		t.Fatal("opened without time")
	}
	if _, err := s.Open(t.Context(), "mail"); err != nil {
		t.Error(fault.Detail(err))
	}
}

func TestWarningsAboutAnOwnDatabaseAreGivenOnce(t *testing.T) {
	c, dir := clustertest.Start(t)
	made, err := c.EnsureDatabase(t.Context(), "mine")
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	made.SocketDir, _ = clustertest.Serve(t, dir, "full_page_writes=off")
	s, notices := serversAt(map[string]string{"shop": made.OwnerURL()})
	for range 2 {
		if _, err := s.Open(t.Context(), "shop"); err != nil {
			t.Fatal(fault.Detail(err))
		}
	}
	if len(*notices) != 1 || !strings.HasPrefix((*notices)[0], "database shop: full_page_writes is off") {
		t.Errorf("notices %q", *notices)
	}
}
