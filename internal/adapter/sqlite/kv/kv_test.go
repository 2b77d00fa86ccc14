package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "cache"

func open(t testing.TB, dir string) *Namespaces {
	t.Helper()
	n := New(dir, slog.New(slog.DiscardHandler))
	t.Cleanup(n.Close)
	return n
}

// TestModel: whatever is put, deleted, expired and opened again, every answer is that of a map.
func TestModel(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(base, fmt.Sprint(runs))
		now := time.Unix(1_000_000, 0)
		start := func() *Namespaces {
			n := New(dir, slog.New(slog.DiscardHandler))
			n.now = func() time.Time { return now }
			return n
		}
		n := start()
		defer func() { n.Close() }()
		model := map[string]kv.Entry{}
		live := func() []string {
			var names []string
			for name, e := range model {
				if e.Expiration == 0 || e.Expiration > now.Unix() {
					names = append(names, name)
				}
			}
			sort.Strings(names)
			return names
		}
		key := rapid.SampledFrom([]string{"a", "ab", "abc", "b", "\x7f", "é", "éa", "\U0010ffff", "\U0010ffffz", "a\x00b", "%", "A"})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				e := kv.Entry{Key: kv.Key{Name: key.Draw(t, "key")}, Value: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "value")}
				if rapid.Bool().Draw(t, "has metadata") {
					e.Metadata = []byte(`{"a":"é\u0000"}`)
				}
				if rapid.Bool().Draw(t, "expires") {
					e.Expiration = now.Unix() + rapid.Int64Range(1, 100).Draw(t, "in")
				}
				if err := n.Put(t.Context(), id, &e); err != nil {
					t.Fatal(err)
				}
				model[e.Name] = e
			},
			"delete": func(t *rapid.T) {
				name := key.Draw(t, "key")
				if err := n.Delete(t.Context(), id, name); err != nil {
					t.Fatal(err)
				}
				delete(model, name)
			},
			"get": func(t *rapid.T) {
				name := key.Draw(t, "key")
				most := rapid.IntRange(0, 9).Draw(t, "most")
				got, size, err := n.Get(t.Context(), id, name, most)
				if err != nil {
					t.Fatal(err)
				}
				var want *kv.Entry
				if slices.Contains(live(), name) {
					e := model[name]
					if len(e.Value) != size {
						t.Fatalf("size %d of %d bytes", size, len(e.Value))
					}
					if size > most {
						e.Value = nil
					}
					want = &e
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
			"get many": func(t *rapid.T) {
				names := rapid.SliceOfN(key, 0, 5).Draw(t, "keys")
				got, err := n.GetMany(t.Context(), id, names, 1000)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]*kv.Entry{}
				for _, name := range names {
					if slices.Contains(live(), name) {
						e := model[name]
						want[name] = &e
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
			"list": func(t *rapid.T) {
				q := kv.Query{
					Prefix: rapid.SampledFrom([]string{"", "a", "ab", "é", "\U0010ffff", "x", "\xff"}).Draw(t, "prefix"),
					Limit:  rapid.IntRange(1, 4).Draw(t, "limit"),
				}
				var want, got []kv.Key
				for _, name := range live() {
					if strings.HasPrefix(name, q.Prefix) {
						want = append(want, model[name].Key)
					}
				}
				for range 100 {
					page, err := n.List(t.Context(), id, q)
					if err != nil {
						t.Fatal(err)
					}
					if len(page.Keys) != q.Limit && !page.Complete || page.Complete != (len(got)+len(page.Keys) == len(want)) {
						t.Fatalf("%d keys of %d, complete %v", len(page.Keys), q.Limit, page.Complete)
					}
					got = append(got, page.Keys...)
					if page.Complete {
						break
					}
					q.After = got[len(got)-1].Name
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
			"time":  func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second) },
			"again": func(*rapid.T) { n.Close(); n = start() },
		})
	})
}

// TestExpiredKeysGo: what has expired is deleted by later writes, a few at a time.
func TestExpiredKeysGo(t *testing.T) {
	n := open(t, t.TempDir())
	now := time.Unix(1_000_000, 0)
	n.now = func() time.Time { return now }
	for i := range 100 {
		if err := n.Put(t.Context(), id, &kv.Entry{Key: kv.Key{Name: fmt.Sprint(i), Expiration: now.Unix() + 60}}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	for range 2 {
		if err := n.Delete(t.Context(), id, "none"); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(-time.Hour) // what is left would be there again
	page, err := n.List(t.Context(), id, kv.Query{Limit: 1000})
	if err != nil || len(page.Keys) != 0 {
		t.Errorf("%d keys are left, %v", len(page.Keys), err)
	}
}

// TestTogether: many writers at a time lose nothing, and a bulk read sees one moment.
func TestTogether(t *testing.T) {
	n := open(t, t.TempDir())
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := range 25 {
				e := kv.Entry{Key: kv.Key{Name: fmt.Sprintf("%d-%d", w, i)}, Value: bytes.Repeat([]byte{byte(w)}, i)}
				if err := n.Put(t.Context(), id, &e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	page, err := n.List(t.Context(), id, kv.Query{Limit: 1000})
	if err != nil || len(page.Keys) != 16*25 {
		t.Fatalf("%d keys, %v", len(page.Keys), err)
	}
	_, err = n.GetMany(t.Context(), id, []string{"3-24", "3-23"}, 46)
	if refusal, ok := errors.AsType[*kv.Error](err); !ok || refusal.Status != 413 {
		t.Errorf("more than there is room for: %v", err)
	}
	if many, err := n.GetMany(t.Context(), id, []string{"3-24", "3-23"}, 47); err != nil || len(many) != 2 {
		t.Errorf("%v, %v", many, err)
	}
}

// TestCalledOff: a write whose caller has gone does nothing.
func TestCalledOff(t *testing.T) {
	n := open(t, t.TempDir())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Put(gone, id, &kv.Entry{Key: kv.Key{Name: "a"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := n.Get(gone, id, "a", 1); !errors.Is(err, context.Canceled) && n.Exists(id) {
		t.Error(err)
	}
	if e, _, err := n.Get(t.Context(), id, "a", 1); e != nil || err != nil {
		t.Errorf("%v, %v", e, err)
	}
	n.Close()
	if err := n.Put(t.Context(), id, &kv.Entry{Key: kv.Key{Name: "a"}}); err == nil {
		t.Error("a put after the close")
	}
}

// TestBackup: a copy that is made while somebody writes is whole.
func TestBackup(t *testing.T) {
	n := open(t, t.TempDir())
	if err := n.Put(t.Context(), id, &kv.Entry{Key: kv.Key{Name: "a", Metadata: []byte("1")}, Value: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	names, err := n.Files()
	if err != nil || !slices.Equal(names, []string{"cache.sqlite"}) {
		t.Fatalf("%v, %v", names, err)
	}
	copied := t.TempDir()
	if err := n.Backup(t.Context(), names[0], filepath.Join(copied, names[0])); err != nil {
		t.Fatal(err)
	}
	got, _, err := open(t, copied).Get(t.Context(), id, "a", 100)
	want := &kv.Entry{Key: kv.Key{Name: "a", Metadata: []byte("1")}, Value: []byte("b")}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
