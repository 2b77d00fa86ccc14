package replay_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/reply"
	"github.com/runlot/runlot/internal/server/api/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// server is a program with one call, POST /do, which counts, waits for a word and answers as its body says.
type server struct {
	*httptest.Server
	calls       atomic.Int64
	began, pass chan struct{} // nil lets calls pass
}

type input struct {
	Owner string `header:"Owner"`
	Body  struct {
		Status int `json:"status"`
		Size   int `json:"size"`
	}
}

type output struct {
	Status int
	Body   string
}

type ownerKey struct{}

func serve(t *testing.T, o replay.Options) *server {
	t.Helper()
	s := &server{}
	o.Log = slog.New(slog.DiscardHandler)
	o.Owner = func(ctx context.Context) string { return ctx.Value(ownerKey{}).(string) }
	o.Refuse = func(ctx huma.Context, err error) {
		_, w := humago.Unwrap(ctx)
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, fault.From(err).Code)
	}
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("test", "1"))
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		next(huma.WithValue(ctx, ownerKey{}, ctx.Header("Owner")))
	}, replay.New(o).Middleware)
	huma.Register(api, huma.Operation{OperationID: "do", Method: http.MethodPost, Path: "/do", MaxBodyBytes: 1000}, func(_ context.Context, in *input) (*output, error) {
		n := s.calls.Add(1)
		if s.began != nil {
			s.began <- struct{}{}
			<-s.pass
		}
		if in.Body.Status >= http.StatusBadRequest {
			return nil, huma.NewError(in.Body.Status, "no")
		}
		return &output{in.Body.Status, fmt.Sprintf("secret %d %s", n, strings.Repeat("x", in.Body.Size))}, nil
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) do(t *testing.T, owner, key, body string) (int, string, bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/do", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Owner", owner)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header.Get("Idempotency-Replayed") != ""
}

func ask(status, size int) string { return fmt.Sprintf(`{"status":%d,"size":%d}`, status, size) }

// want makes a call and compares its answer, of which text is a part.
func (s *server) want(t *testing.T, what, owner, key, body string, status int, text string, replayed bool, calls int64) {
	t.Helper()
	gotStatus, gotText, gotReplayed := s.do(t, owner, key, body)
	if gotStatus != status || !strings.Contains(gotText, text) || gotReplayed != replayed || s.calls.Load() != calls {
		t.Errorf("%s: %d %.60s, replayed %t, after %d calls", what, gotStatus, gotText, gotReplayed, s.calls.Load())
	}
}

// common is what holds for every store.
func common(t *testing.T, s *server) {
	t.Helper()
	s.want(t, "first", "ann", "k", ask(201, 0), 201, "secret 1", false, 1)
	s.want(t, "again", "ann", "k", ask(201, 0), 201, "secret 1", true, 1)
	s.want(t, "another call", "ann", "k", ask(200, 0), 409, "idempotency_key", false, 1)
	s.want(t, "another owner", "bob", "k", ask(201, 0), 201, "secret 2", false, 2)
	s.want(t, "a failure of the caller", "ann", "bad", ask(400, 0), 400, "no", false, 3)
	s.want(t, "it again", "ann", "bad", ask(400, 0), 400, "no", true, 3)
	s.want(t, "a failure of ours", "ann", "ours", ask(503, 0), 503, "no", false, 4)
	s.want(t, "it again", "ann", "ours", ask(503, 0), 503, "no", false, 5)
	s.want(t, "too large to be kept", "ann", "large", ask(200, queue.MaxReply), 200, "secret 6", false, 6)
	s.want(t, "it again", "ann", "large", ask(200, queue.MaxReply), 409, "answer_not_kept", false, 6)
}

func TestInMemory(t *testing.T) {
	s := serve(t, replay.Options{Store: reply.NewMemory()})
	common(t, s)
	// A second one waits for the answer of the first.
	s.began, s.pass = make(chan struct{}), make(chan struct{})
	done := make(chan string, 2)
	for range 2 {
		go func() {
			_, text, _ := s.do(t, "ann", "twice", ask(200, 0))
			done <- text
		}()
	}
	<-s.began
	s.pass <- struct{}{}
	if one, two := <-done, <-done; one != two || !strings.Contains(one, "secret 7") || s.calls.Load() != 7 {
		t.Errorf("two at a time: %s, %s, %d calls", one, two, s.calls.Load())
	}
}

func TestAnswersOutliveTheProgram(t *testing.T) {
	a := clustertest.NewDatabase(t)
	store, err := control.Open(t.Context(), func(context.Context) (string, error) { return a.OwnerURL(), nil })
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	defer store.Close()
	seal, err := sealer.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), a.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	sql := func(text string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	first := serve(t, replay.Options{Store: store.Replies(), Sealer: seal, Node: "one"})
	common(t, first)
	var readable int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM runlot_control.reply WHERE position('secret'::bytea IN answer) > 0").Scan(&readable); err != nil || readable != 0 {
		t.Errorf("%d answers can be read in the database, %v", readable, err)
	}
	second := serve(t, replay.Options{Store: store.Replies(), Sealer: seal, Node: "one"})
	second.want(t, "after a restart", "ann", "k", ask(201, 0), 201, "secret 1", true, 0)
	second.want(t, "too large, after a restart", "ann", "large", ask(200, queue.MaxReply), 409, "answer_not_kept", false, 0)
	other, err := sealer.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, replay.Options{Store: store.Replies(), Sealer: other, Node: "one"}).
		want(t, "with another key", "ann", "k", ask(201, 0), 409, "answer_not_kept", false, 0)
	// A program that ended under a call leaves it without an answer.
	sql("UPDATE runlot_control.reply SET status = NULL, answer = NULL WHERE status = 201")
	second.want(t, "cut off", "ann", "k", ask(201, 0), 409, "call_interrupted", false, 0)
	elsewhere := serve(t, replay.Options{Store: store.Replies(), Sealer: seal, Node: "two"})
	elsewhere.want(t, "under way elsewhere", "ann", "k", ask(201, 0), 409, "call_under_way", false, 0)
	// After a day a key is new again.
	sql("UPDATE runlot_control.reply SET began_at = began_at - interval '25 hours'")
	second.want(t, "after a day", "ann", "k", ask(201, 0), 201, "secret 1", false, 1)
	// What is too old or too much goes.
	sql(`INSERT INTO runlot_control.reply (key, digest, node, boot, began_at)
		SELECT sha256(n::text::bytea), sha256(''), '', '', now() - interval '1 minute' FROM generate_series(1, $1::int) n`, queue.KeptReplies+50)
	third := serve(t, replay.Options{Store: store.Replies(), Sealer: seal, Node: "one"})
	third.want(t, "another", "ann", "new", ask(200, 0), 200, "secret 1", false, 1)
	var kept, old int
	if err := conn.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE began_at < now() - interval '24 hours') FROM runlot_control.reply").Scan(&kept, &old); err != nil ||
		old != 0 || kept > queue.KeptReplies+1 {
		t.Errorf("%d are kept, %d of them old, %v", kept, old, err)
	}
}
