package r2

import (
	"errors"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/r2"
)

// TestDrop: a bucket goes when it has no objects and no event waits; nothing of it is left.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	var told []string
	b := open(t, dir, &told)
	ctx := t.Context()
	if err := b.Drop(ctx, bucket); err != nil {
		t.Errorf("what does not exist: %v", err)
	}
	if err := b.Make(ctx, bucket); err != nil {
		t.Fatal(err)
	}
	if at, err := b.Created(ctx, bucket); err != nil || at.IsZero() {
		t.Errorf("%v %v", at, err)
	}
	if names, err := b.Names(); err != nil || len(names) != 1 || names[0] != bucket {
		t.Errorf("%v %v", names, err)
	}
	if _, err := put(ctx, b, "a", "body", nil); err != nil {
		t.Fatal(err)
	}
	if objects, bytes, err := b.Totals(ctx, bucket); objects != 1 || bytes != 4 || err != nil {
		t.Errorf("%d %d %v", objects, bytes, err)
	}
	if refusal, ok := errors.AsType[*r2.Error](b.Drop(ctx, bucket)); !ok || refusal.Text != r2.NotEmpty().Error() {
		t.Errorf("%v", refusal)
	}
	id, err := b.Create(ctx, bucket, "u", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := b.Receive(bucket, strings.NewReader("part"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.UploadPart(ctx, bucket, "u", id, 1, body); err != nil {
		t.Fatal(err)
	}
	rule := &r2.Rule{Database: "default", Queue: "q", Actions: []string{r2.DeleteObject}}
	if err := b.AddRule(ctx, bucket, rule); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(ctx, bucket, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Drop(ctx, bucket); fault.KindOf(err) != fault.Conflict {
		t.Errorf("with an event that waits: %v", err)
	}
	if err := b.Told(ctx, bucket, []int64{1}); err != nil {
		t.Fatal(err)
	}
	// A body that is on its way becomes an object of the next bucket of the name.
	late, err := b.Receive(bucket, strings.NewReader("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Drop(ctx, bucket); err != nil {
		t.Fatal(err)
	}
	if b.Exists(bucket) || len(bodiesIn(t, dir)) != 1 {
		t.Errorf("left: %v", bodiesIn(t, dir))
	}
	if _, err := b.Put(ctx, bucket, &r2.Put{Key: "late", Body: late}); err != nil {
		t.Fatal(err)
	}
	if text, _, err := read(ctx, b, "late"); text != "late" || err != nil {
		t.Errorf("%s %v", text, err)
	}
	if rules, err := b.Rules(ctx, bucket); len(rules) != 0 || err != nil {
		t.Errorf("%v %v", rules, err)
	}
}
