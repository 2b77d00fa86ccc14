package r2

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/r2"
)

// writerDir is the variable that makes this program put objects into a bucket until it is killed.
const writerDir = "R2_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		b := New(dir, func(string) {}, slog.New(slog.DiscardHandler))
		for n := 1; ; n++ {
			if _, err := put(context.Background(), b, strconv.Itoa(n%5), strconv.Itoa(n), nil); err != nil {
				fmt.Println("failed:", err)
				return
			}
			fmt.Println(n)
		}
	}
	goleak.VerifyTestMain(m)
}

const bucket = "files"

func open(t testing.TB, dir string, told *[]string) *Buckets {
	t.Helper()
	b := New(dir, func(bucket string) {
		if told != nil {
			*told = append(*told, bucket)
		}
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	return b
}

func put(ctx context.Context, b *Buckets, key, text string, onlyIf *r2.Condition) (*r2.Info, error) {
	body, err := b.Receive(bucket, strings.NewReader(text), "sha1")
	if err != nil {
		return nil, err
	}
	return b.Put(ctx, bucket, &r2.Put{Key: key, Body: body, OnlyIf: onlyIf, Custom: []r2.Field{{K: "k", V: text}}})
}

func read(ctx context.Context, b *Buckets, key string) (text string, found bool, err error) {
	o, err := b.Open(ctx, bucket, key)
	if err != nil || o == nil {
		return "", false, err
	}
	defer o.Close()
	body, err := o.Body(r2.Range{Offset: 0, Length: o.Info().Size})
	if err != nil {
		return "", false, err
	}
	defer body.Close()
	all, err := io.ReadAll(body)
	return string(all), true, err
}

// bodiesIn lists the files of bodies, unfinished ones too.
func bodiesIn(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(dir, bucket+folderSuffix), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return nil // a folder that is missing has none
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestBucketModel: whatever is put, deleted, listed and opened again, every answer is that of a map, and no body is left
// that no object has.
func TestBucketModel(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(base, strconv.Itoa(runs))
		start := func() *Buckets { return New(dir, func(string) {}, slog.New(slog.DiscardHandler)) }
		b := start()
		defer func() { b.Close() }()
		model := map[string]string{}
		etags := map[string]string{}
		key := rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a/d", "b", "é/x", "é/y", "/", "//"})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				name, text := key.Draw(t, "key"), rapid.StringN(0, 5, -1).Draw(t, "body")
				var onlyIf *r2.Condition
				allowed := true
				if rapid.Bool().Draw(t, "conditional") {
					expected := rapid.SampledFrom([]string{"x", etags["a"], etags[name]}).Draw(t, "etag")
					onlyIf = &r2.Condition{Matches: []r2.Etag{{Value: expected}}}
					_, there := model[name]
					allowed = there && etags[name] == expected
				}
				info, err := put(t.Context(), b, name, text, onlyIf)
				if (err == nil) != allowed {
					t.Fatalf("allowed %v: %v", allowed, err)
				}
				if err == nil {
					model[name], etags[name] = text, info.Etag
				}
			},
			"delete": func(t *rapid.T) {
				names := rapid.SliceOfN(key, 0, 3).Draw(t, "keys")
				if err := b.Delete(t.Context(), bucket, names); err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					delete(model, name)
					delete(etags, name)
				}
			},
			"get": func(t *rapid.T) {
				name := key.Draw(t, "key")
				text, found, err := read(t.Context(), b, name)
				want, there := model[name]
				if err != nil || found != there || text != want {
					t.Fatalf("%q, %v, %v; want %q", text, found, err, want)
				}
			},
			"list": func(t *rapid.T) {
				q := &r2.Query{
					Prefix: rapid.SampledFrom([]string{"", "a", "a/", "é", "x"}).Draw(t, "prefix"), Delimiter: rapid.SampledFrom([]string{"", "/"}).Draw(t, "delimiter"),
					Limit: rapid.IntRange(1, 3).Draw(t, "limit"),
				}
				var want, got []string
				for name := range model {
					rest, ok := strings.CutPrefix(name, q.Prefix)
					if at := strings.Index(rest, "/"); ok && q.Delimiter != "" && at >= 0 {
						name = "prefix " + q.Prefix + rest[:at+1]
					}
					if ok && !slices.Contains(want, name) {
						want = append(want, name)
					}
				}
				for range 20 {
					page, err := b.List(t.Context(), bucket, q)
					if err != nil || len(page.Objects)+len(page.Prefixes) > q.Limit {
						t.Fatal(page, err)
					}
					for i := range page.Objects {
						got = append(got, page.Objects[i].Key)
					}
					for _, p := range page.Prefixes {
						got = append(got, "prefix "+p)
					}
					if page.Last == "" {
						break
					}
					q.After, q.Skip = page.Last, page.LastIsPrefix
				}
				sort.Strings(want)
				sort.Strings(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
			"again": func(*rapid.T) { b.Close(); b = start() },
			"": func(t *rapid.T) {
				bodies := 0
				for _, text := range model {
					bodies += min(len(text), 1)
				}
				var left int
				_ = filepath.WalkDir(filepath.Join(dir, bucket+folderSuffix), func(_ string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() {
						left++
					}
					return nil // a folder that is missing has none
				})
				if left != bodies {
					t.Fatalf("%d bodies lie on the disk, of %d objects", left, bodies)
				}
			},
		})
	})
}

// TestKilledPut: a process that is killed loses no object that it was told is there, and none is there by half.
func TestKilledPut(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		said := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if said, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(lines.Text())
			}
			if said == 20+7*round {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		cancel()
		b := open(t, dir, nil)
		for n := said; n > said-4; n-- {
			text, found, err := read(t.Context(), b, strconv.Itoa(n%5))
			got, _ := strconv.Atoi(text)
			if !found || err != nil || got < n || got%5 != n%5 {
				t.Errorf("%d was put: %q, %v, %v", n, text, found, err)
			}
		}
		if _, err := put(t.Context(), b, "new", "x", nil); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, bucket+folderSuffix, temporaryFolder)); err != nil || len(left) > 0 {
			t.Errorf("unfinished bodies are left: %v, %v", left, err)
		}
	}
}

// TestReadersAndBackupsKeepBodies: what is read, or copied, stays until that has ended.
func TestReadersAndBackupsKeepBodies(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	for _, key := range []string{"a", "b"} {
		if _, err := put(t.Context(), b, key, "old "+key, nil); err != nil {
			t.Fatal(err)
		}
	}
	o, err := b.Open(t.Context(), bucket, "a")
	if err != nil {
		t.Fatal(err)
	}
	copied := map[string]string{}
	err = Backup(t.Context(), dir, t.TempDir(), func(name, path string) error {
		if len(copied) == 0 {
			if _, err := put(t.Context(), b, "a", "new", nil); err != nil {
				return err
			}
			if err := b.Delete(t.Context(), bucket, []string{"b"}); err != nil {
				return err
			}
		}
		text, err := os.ReadFile(path)
		copied[name] = string(text)
		return err
	})
	if err != nil || len(copied) != 3 {
		t.Fatal(len(copied), err)
	}
	body, err := o.Body(r2.Range{Offset: 1, Length: 4})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if string(text) != "ld a" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	_ = body.Close()
	// The backup is over: what it kept goes with the next write, but for what is read.
	if err := b.Delete(t.Context(), bucket, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if left := bodiesIn(t, dir); len(left) != 1 {
		t.Errorf("%v", left)
	}
	o.Close()
	restored := t.TempDir()
	for name, text := range copied {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(restored, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(restored, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, restored, nil)
	for _, key := range []string{"a", "b"} {
		if text, _, err := read(t.Context(), again, key); text != "old "+key || err != nil {
			t.Errorf("%s: %q, %v", key, text, err)
		}
	}
	// Now nobody needs them.
	if _, err := put(t.Context(), b, "c", "x", nil); err != nil {
		t.Fatal(err)
	}
	if left := bodiesIn(t, dir); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// TestEventsWaitWithTheChange: an event is noted with the change that a rule asks for, and stays until it was told.
func TestEventsWaitWithTheChange(t *testing.T) {
	dir := t.TempDir()
	var told []string
	b := open(t, dir, &told)
	rule := &r2.Rule{Database: "default", Queue: "images", Prefix: "in/", Suffix: ".png", Actions: []string{"PutObject", "DeleteObject"}}
	if err := b.AddRule(t.Context(), bucket, rule); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"in/a.png", "in/a.jpg", "a.png"} {
		if _, err := put(t.Context(), b, key, "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(t.Context(), b, "in/b.png", "x", &r2.Condition{Matches: []r2.Etag{{Value: "none"}}}); err == nil {
		t.Fatal("the condition holds")
	}
	if err := b.Delete(t.Context(), bucket, []string{"in/a.png", "in/none.png"}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	b = open(t, dir, &told)
	to := r2.Destination{Database: "default", Queue: "images"}
	if all, err := b.Destinations(t.Context(), bucket); err != nil || !slices.Equal(all, []r2.Destination{to}) {
		t.Fatal(all, err)
	}
	waiting, err := b.Outbox(t.Context(), bucket, to, 10)
	if err != nil || len(waiting) != 2 || len(told) == 0 {
		t.Fatalf("%+v, %v, told of %v", waiting, err, told)
	}
	for i, want := range []string{`"action":"PutObject","bucket":"files","object":{"key":"in/a.png","size":1,"eTag":"9dd4e461268c8034f5c8564e155c67a6"}`, `"action":"DeleteObject","bucket":"files","object":{"key":"in/a.png"}`} {
		if !bytes.Contains(waiting[i].Body, []byte(want)) {
			t.Errorf("%s", waiting[i].Body)
		}
	}
	if err := b.Told(t.Context(), bucket, []int64{waiting[0].Seq}); err != nil {
		t.Fatal(err)
	}
	if waiting, err = b.Outbox(t.Context(), bucket, to, 10); err != nil || len(waiting) != 1 {
		t.Errorf("%v, %v", waiting, err)
	}
	if found, err := b.DeleteRule(t.Context(), bucket, rule.ID); !found || err != nil {
		t.Error(found, err)
	}
}
