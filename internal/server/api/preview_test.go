package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/preview"
	"github.com/runlot/runlot/internal/engine/access"
)

// TestPreviews: a list has the beginnings of bodies, cut between two characters.
func TestPreviews(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, c := t.Context(), w.client("", access.Deploy)
	long, err := json.Marshal(strings.Repeat("ä", 1_000))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(ctx, "db", "jobs", []client.Draft{
		{Body: json.RawMessage(`{"a":1}`)},
		{Body: json.RawMessage(`{"a":"` + strings.Repeat("x", 100) + `"}`)},
		{Body: long, ContentType: "text"},
		{Body: json.RawMessage(`"AAECAwQFBgcICQoL"`), ContentType: "bytes"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`json 7 {"a":1}`, `text 108 "{\"a\":\"xxx"`, `text 2000 "ääää"`, `base64 12 "AAECAwQFBgcI"`}
	for _, o := range []preview.Options{{Limit: 10, Bytes: 9}, {Filter: "size>0", Limit: 10, Bytes: 9}, {State: "visible", Limit: 10, Bytes: 9}} {
		page, err := preview.Messages(ctx, c, "db", "jobs", &o)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(page.Items))
		for i := range page.Items {
			m := &page.Items[i]
			text, err := json.Marshal([]any{m.Encoding, m.Size})
			if err != nil {
				t.Fatal(err)
			}
			got[i] = strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(string(text)) + " " + string(m.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", o, diff)
		}
	}
}
