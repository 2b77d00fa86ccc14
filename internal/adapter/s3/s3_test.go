package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/s3"
	"github.com/runlot/runlot/internal/adapter/s3/s3test"
	files "github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/core/r2"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(cleaning{m})
}

type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	defer s3test.Remove()
	return c.M.Run()
}

const bucket = "files"

// dying is a journal whose program dies before it settles.
type dying struct {
	s3.Journal
	dead bool
}

var errDead = errors.New("the program has died")

func (d *dying) Settle(ctx context.Context, bucket string, id int64, e *r2.Event) error {
	if d.dead {
		return errDead
	}
	return d.Journal.Settle(ctx, bucket, id, e)
}

// open opens a store with a journal.
func open(t *testing.T, address string, j s3.Journal) *s3.Buckets {
	t.Helper()
	b, err := s3.New(s3.Options{
		Place:       s3.Place{Endpoint: address, Region: s3test.Region, Bucket: s3test.Bucket, Prefix: "r2/"},
		Credentials: s3test.Credentials, Scratch: t.TempDir(), Journal: j, Doubtful: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func journal(t *testing.T) *files.Buckets {
	t.Helper()
	j := files.New(t.TempDir(), func(string) {}, slog.New(slog.DiscardHandler))
	t.Cleanup(j.Close)
	return j
}

func put(t *testing.T, b *s3.Buckets, p r2.Put, text string, checksums ...string) (*r2.Info, error) {
	t.Helper()
	body, err := b.Receive(bucket, strings.NewReader(text), checksums...)
	if err != nil {
		t.Fatal(err)
	}
	p.Body = body
	return b.Put(t.Context(), bucket, &p)
}

func read(t *testing.T, b *s3.Buckets, key string, r *r2.Range) (*r2.Info, string) {
	t.Helper()
	o, err := b.Open(t.Context(), bucket, key)
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		return nil, ""
	}
	defer o.Close()
	if r == nil {
		r = &r2.Range{Length: o.Info().Size}
	}
	body, err := o.Body(*r)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return o.Info(), string(text)
}

func TestObjects(t *testing.T) {
	b := open(t, s3test.Serve(t), journal(t))
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	about := r2.HTTP{ContentType: "text/x", ContentLanguage: "de", ContentDisposition: "inline", ContentEncoding: "gzip", CacheControl: "no-cache", CacheExpiry: "1796050296000"}
	custom := []r2.Field{{K: "Camel", V: "é"}, {K: "a_b", V: ""}, {K: "content-type", V: "x"}, {K: "plain", V: "a b"}, {K: "spaces", V: "a  b"}}
	for _, key := range []string{"a", "dir/a b+c&d=é%20?#", "\U0001F600"} {
		info, err := put(t, b, r2.Put{Key: key, HTTP: &about, Custom: custom}, "0123456789", "sha256")
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		found, text := read(t, b, key, nil)
		if diff := cmp.Diff(info, found); diff != "" || text != "0123456789" {
			t.Errorf("%q: %s\n%s", key, text, diff)
		}
		if diff := cmp.Diff(custom, found.Custom); diff != "" || !cmp.Equal(&about, found.HTTP) || len(found.Checksums) != 2 || found.Etag != "781e5e245d69b566979b86e28d23f2c7" || time.Since(found.Uploaded) > time.Hour {
			t.Errorf("%q: %+v %+v %s", key, found, found.HTTP, diff)
		}
		if _, text := read(t, b, key, &r2.Range{Offset: 2, Length: 3}); text != "234" {
			t.Errorf("%q: %s", key, text)
		}
	}
	if info, err := put(t, b, r2.Put{Key: "empty"}, ""); err != nil || info.HTTP != nil || info.Size != 0 {
		t.Errorf("%+v %v", info, err)
	}
	if info, text := read(t, b, "empty", nil); info == nil || info.HTTP != nil || text != "" {
		t.Errorf("%+v %q", info, text)
	}
	if info, _ := read(t, b, "none", nil); info != nil {
		t.Errorf("%+v", info)
	}
	for _, p := range []r2.Put{{Key: "a/../b"}, {Key: "a\nb"}, {Key: strings.Repeat("k", 1020)}, {Key: "m", Custom: []r2.Field{{K: "k", V: strings.Repeat("x", 2048)}}}} {
		if _, err := put(t, b, p, "x"); err == nil {
			t.Errorf("%.20s is taken", p.Key)
		}
	}
	if names, err := b.Names(t.Context()); err != nil || !slices.Equal(names, []string{bucket}) {
		t.Errorf("%v %v", names, err)
	}
	if objects, bytes, err := b.Totals(t.Context(), bucket); objects != 4 || bytes != 30 || err != nil {
		t.Errorf("%d %d %v", objects, bytes, err)
	}
	if err := b.Delete(t.Context(), bucket, []string{"a", "empty", "none", "\U0001F600", "a"}); err != nil {
		t.Fatal(err)
	}
	if objects, _, err := b.Totals(t.Context(), bucket); objects != 1 || err != nil {
		t.Errorf("%d %v", objects, err)
	}
}

func TestConditions(t *testing.T) {
	b := open(t, s3test.Serve(t), journal(t))
	first, err := put(t, b, r2.Put{Key: "a", OnlyIf: &r2.Condition{DoesNotMatch: []r2.Etag{{Any: true}}}}, "one")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*r2.Condition{
		"one that is there": {DoesNotMatch: []r2.Etag{{Any: true}}}, "another etag": {Matches: []r2.Etag{{Value: "x"}}}, "a time": {After: time.Now().Add(time.Hour)},
	} {
		if _, err := put(t, b, r2.Put{Key: "a", OnlyIf: c}, "two"); !precondition(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := put(t, b, r2.Put{Key: "a", OnlyIf: &r2.Condition{Matches: []r2.Etag{{Value: first.Etag}}}}, "two"); err != nil {
		t.Fatal(err)
	}
	if _, text := read(t, b, "a", nil); text != "two" {
		t.Error(text)
	}
	// Of many that want to be the first, one is.
	errs := make(chan error, 10)
	for i := range cap(errs) {
		go func() {
			_, err := put(t, b, r2.Put{Key: "race", OnlyIf: &r2.Condition{DoesNotMatch: []r2.Etag{{Any: true}}}}, fmt.Sprint(i))
			errs <- err
		}()
	}
	won := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			won++
		} else if !precondition(err) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d were the first", won)
	}
}

func precondition(err error) bool {
	refusal, ok := errors.AsType[*r2.Error](err)
	return ok && refusal.IsPrecondition()
}

func TestList(t *testing.T) {
	b := open(t, s3test.Serve(t), journal(t))
	keys := []string{"a", "b/1", "b/2/x", "b/3", "c", "d/1", "é"}
	for _, key := range keys {
		if _, err := put(t, b, r2.Put{Key: key, HTTP: &r2.HTTP{ContentType: "a/b"}}, key); err != nil {
			t.Fatal(err)
		}
	}
	walk := func(q r2.Query) (found []string) {
		t.Helper()
		for range 20 {
			page, err := b.List(t.Context(), bucket, &q)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(page.Objects) + len(page.Prefixes); n > q.Limit {
				t.Errorf("%d in a page of %d", n, q.Limit)
			}
			for i := range page.Objects {
				found = append(found, page.Objects[i].Key)
				if q.About != (page.Objects[i].HTTP != nil) {
					t.Errorf("about %+v", page.Objects[i])
				}
			}
			found = append(found, page.Prefixes...)
			if page.Last == "" {
				slices.Sort(found)
				return found
			}
			q.After, q.Skip = page.Last, page.LastIsPrefix
		}
		t.Fatal("there is no end")
		return nil
	}
	for _, limit := range []int{1, 2, 3, 100} {
		if diff := cmp.Diff(keys, walk(r2.Query{Limit: limit})); diff != "" {
			t.Errorf("%d: %s", limit, diff)
		}
		if diff := cmp.Diff([]string{"a", "b/", "c", "d/", "é"}, walk(r2.Query{Limit: limit, Delimiter: "/", About: true})); diff != "" {
			t.Errorf("%d: %s", limit, diff)
		}
		if diff := cmp.Diff([]string{"b/1", "b/2/", "b/3"}, walk(r2.Query{Limit: limit, Delimiter: "/", Prefix: "b/"})); diff != "" {
			t.Errorf("%d: %s", limit, diff)
		}
	}
	page, err := b.List(t.Context(), bucket, &r2.Query{Limit: 100, About: true})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := b.List(t.Context(), bucket, &r2.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.Objects, bare.Objects, cmpopts.IgnoreFields(r2.Info{}, "HTTP", "Checksums", "Custom")); diff != "" {
		t.Errorf("with and without metadata: %s", diff)
	}
}

func TestParts(t *testing.T) {
	b := open(t, s3test.Serve(t), journal(t))
	ctx := t.Context()
	id, err := b.Create(ctx, bucket, "big", &r2.HTTP{ContentType: "a/b"}, []r2.Field{{K: "k", V: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 5<<20)
	part := func(number int, text string) r2.Part {
		t.Helper()
		body, err := b.Receive(bucket, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		etag, err := b.UploadPart(ctx, bucket, "big", id, number, body)
		if err != nil {
			t.Fatal(err)
		}
		return r2.Part{Number: number, Etag: etag}
	}
	one, two, three := part(1, large), part(2, "end"), part(3, "end")
	for name, parts := range map[string][]r2.Part{"a small part": {two, three}, "another etag": {{Number: 1, Etag: "x"}}, "no such part": {{Number: 9, Etag: one.Etag}}, "an order": {two, one}} {
		if _, err := b.Complete(ctx, bucket, "big", id, parts); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	info, err := b.Complete(ctx, bucket, "big", id, []r2.Part{one, two})
	if err != nil || info.Size != 5<<20+3 || !strings.HasSuffix(info.Etag, "-2") || info.HTTP == nil || len(info.Custom) != 1 {
		t.Fatalf("%+v %v", info, err)
	}
	if found, text := read(t, b, "big", &r2.Range{Offset: 5<<20 - 1, Length: 4}); text != "xend" || !cmp.Equal(info, found) {
		t.Errorf("%q %+v", text, found)
	}
	if _, err := b.Complete(ctx, bucket, "big", id, []r2.Part{one, two}); err == nil {
		t.Error("an upload is completed twice")
	}
	if id, err = b.Create(ctx, bucket, "big", nil, nil); err != nil {
		t.Fatal(err)
	}
	one = part(1, "x")
	if err := b.Abort(ctx, bucket, "big", id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Complete(ctx, bucket, "big", id, []r2.Part{one}); err == nil {
		t.Error("an upload that was given up is completed")
	}
}

// TestEvents: an event is told when its object is durable, and only then, also when the program dies between the two.
func TestEvents(t *testing.T) {
	address := s3test.Serve(t)
	j := journal(t)
	ctx := t.Context()
	if err := j.AddRule(ctx, bucket, &r2.Rule{Database: "default", Queue: "q", Prefix: "in/", Actions: []string{r2.PutObject, r2.DeleteObject, r2.CompleteUpload}}); err != nil {
		t.Fatal(err)
	}
	told := func() (list []string) {
		t.Helper()
		waiting, err := j.Outbox(ctx, bucket, r2.Destination{Database: "default", Queue: "q"}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range waiting {
			var action, key string
			for part := range strings.SplitSeq(string(w.Body), ",") {
				if _, after, ok := strings.Cut(part, `"action":"`); ok {
					action = strings.TrimSuffix(after, `"`)
				}
				if _, after, ok := strings.Cut(part, `"key":"`); ok {
					key = strings.Trim(after, `"}`)
				}
			}
			list = append(list, action+" "+key)
		}
		return list
	}
	is := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, told()); diff != "" {
			t.Error(diff)
		}
	}
	b := open(t, address, j)
	for _, key := range []string{"in/a", "out/a"} {
		if _, err := put(t, b, r2.Put{Key: key}, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(t, b, r2.Put{Key: "in/a", OnlyIf: &r2.Condition{Matches: []r2.Etag{{Value: "none"}}}}, "x"); !precondition(err) {
		t.Error(err)
	}
	if err := b.Delete(ctx, bucket, []string{"in/a", "out/a", "in/none"}); err != nil {
		t.Fatal(err)
	}
	is("PutObject in/a", "DeleteObject in/a")
	if left, err := j.Intents(ctx, bucket); len(left) != 0 || err != nil {
		t.Errorf("%v %v", left, err)
	}

	// It dies behind each kind of change.
	dead := open(t, address, &dying{Journal: j, dead: true})
	if _, err := put(t, dead, r2.Put{Key: "in/b"}, "x"); err != nil {
		t.Fatal(err)
	}
	if err := func() error {
		if _, err := put(t, b, r2.Put{Key: "in/gone"}, "x"); err != nil {
			return err
		}
		return dead.Delete(ctx, bucket, []string{"in/gone"})
	}(); err != nil {
		t.Fatal(err)
	}
	// And before a put, which never comes.
	lost := []r2.Intent{{Action: r2.PutObject, Key: "in/lost", Mark: "no object has it"}, {Action: r2.PutObject, Key: "in/b", Mark: "nor this one"}}
	if err := j.Intend(ctx, bucket, lost); err != nil {
		t.Fatal(err)
	}
	is("PutObject in/a", "DeleteObject in/a", "PutObject in/gone")
	again := open(t, address, j)
	if open, err := again.Resolve(ctx, bucket); !open || err != nil {
		t.Errorf("%t %v", open, err)
	}
	got := told()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"DeleteObject in/a", "DeleteObject in/gone", "PutObject in/a", "PutObject in/b", "PutObject in/gone"}, got); diff != "" {
		t.Error(diff)
	}
	if left, err := j.Intents(ctx, bucket); len(left) != 2 || err != nil {
		t.Errorf("%v %v", left, err)
	}
	// What was left is settled before the object changes again, so that no event of a durable object is lost.
	if _, err := put(t, dead, r2.Put{Key: "in/c"}, "first"); err != nil {
		t.Fatal(err)
	}
	next := open(t, address, j)
	if _, err := put(t, next, r2.Put{Key: "in/c"}, "second"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(told(), ","), "PutObject in/c"); n != 2 {
		t.Errorf("%d events of in/c: %v", n, told())
	}
}

// TestNoStore: a store that is not there, or does not open, is told as such, and changes nothing.
func TestNoStore(t *testing.T) {
	address := s3test.Serve(t)
	o := s3.Options{
		Place: s3.Place{Endpoint: address, Region: s3test.Region, Bucket: "nothing"}, Credentials: s3test.Credentials, Scratch: t.TempDir(), Journal: journal(t),
		Doubtful: func() {}, Log: slog.New(slog.DiscardHandler),
	}
	for name, change := range map[string]func(*s3.Options){
		"no bucket": func(*s3.Options) {}, "a key": func(o *s3.Options) { o.Bucket, o.Secret = s3test.Bucket, "another" },
	} {
		mine := o
		change(&mine)
		b, err := s3.New(mine)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); err == nil {
			t.Errorf("%s is found good", name)
		}
		if _, err := put(t, b, r2.Put{Key: "a"}, "x"); err == nil {
			t.Errorf("%s takes an object", name)
		}
		b.Close()
	}
	if left, err := os.ReadDir(o.Scratch); len(left) != 0 || err != nil {
		t.Errorf("left in the scratch folder: %v %v", left, err)
	}
}
