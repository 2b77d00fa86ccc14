package d1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/queue"
)

// recorder stands for the databases: it answers with results and keeps what it was asked.
type recorder struct {
	identity string
	queries  []d1.Query
	results  []d1.Result
	err      error
}

func (r *recorder) Run(_ context.Context, identity string, queries []d1.Query) ([]d1.Result, error) {
	r.identity, r.queries = identity, queries
	return r.results, r.err
}

var manifest = &app.Manifest{D1Databases: []app.D1Database{{Binding: "DB", Name: "main"}, {Binding: "LOGS", Name: "logs", ID: "0000"}}}

// post makes a call as workerd does.
func post(t *testing.T, databases Databases, path, binding, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set(Header, binding)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	NewDoor(databases, slog.New(slog.DiscardHandler)).Handler(manifest).ServeHTTP(w, request)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(text)
}

func TestCalls(t *testing.T) {
	r := &recorder{results: []d1.Result{{
		Columns: []string{"a", "b", "a"},
		Rows:    [][]d1.Value{{int64(1), "x\"\\\n\x01é\xff", nil}, {1.5, []byte{0, 255}, math.Inf(1)}},
		Meta:    d1.Meta{Milliseconds: 0.25, Changes: 1, LastRowID: 2, SizeAfter: 4096, Changed: true, RowsRead: 3, RowsWritten: 4},
	}, {}}}
	const meta = `"meta":{"served_by":"runlot","served_by_primary":true,"total_attempts":1,"timings":{"sql_duration_ms":0.25},"duration":0.25,` +
		`"changes":1,"last_row_id":2,"changed_db":true,"size_after":4096,"rows_read":3,"rows_written":4}`
	const none = `"meta":{"served_by":"runlot","served_by_primary":true,"total_attempts":1,"timings":{"sql_duration_ms":0},"duration":0,` +
		`"changes":0,"last_row_id":0,"changed_db":false,"size_after":0,"rows_read":0,"rows_written":0}`
	for path, want := range map[string]string{
		"/query?resultsFormat=ROWS_AND_COLUMNS": `[{"success":true,"results":{"columns":["a","b","a"],"rows":[[1,"x\"\\\u000a\u0001é` + "\ufffd" + `",null],[1.5,[0,255],null]]},` + meta +
			`},{"success":true,"results":{"columns":[],"rows":[]},` + none + `}]`,
		"/execute?resultsFormat=NONE": `[{"success":true,"results":[{"a":1,"b":"x\"\\\u000a\u0001é` + "\ufffd" + `","a":null},{"a":1.5,"b":[0,255],"a":null}],` + meta +
			`},{"success":true,"results":[],` + none + `}]`,
	} {
		response, got := post(t, r, path, "LOGS", `{"sql":"SELECT ?","params":[1,"a",null,[1,2,256,-1,1.9],1e3,[]]}`)
		if diff := cmp.Diff(want, got); diff != "" || response.StatusCode != http.StatusOK || response.Header.Get(bookmarkHeader) != "" {
			t.Errorf("%s: %s\n%s", path, response.Status, diff)
		}
		asked := []d1.Query{{SQL: "SELECT ?", Params: []d1.Value{1.0, "a", nil, []byte{1, 2, 0, 255, 1}, 1000.0, []byte{}}}}
		if diff := cmp.Diff(asked, r.queries); diff != "" || r.identity != "0000" {
			t.Errorf("%s asked %s for\n%s", path, r.identity, diff)
		}
	}
	post(t, r, "/query", "DB", ` [{"sql":"a"},{"sql":"b","params":null},{"sql":"c","params":[]}]`)
	if diff := cmp.Diff([]d1.Query{{SQL: "a"}, {SQL: "b"}, {SQL: "c"}}, r.queries); diff != "" || r.identity != "main" {
		t.Errorf("a list asked %s for\n%s", r.identity, diff)
	}
}

func TestRefusals(t *testing.T) {
	const unreadable = "The call cannot be read: SQL is a string, and a value is null, a number, a string or bytes."
	r := &recorder{}
	for body, want := range map[string]string{
		"":                                   unreadable,
		"nonsense":                           unreadable,
		`{"sql":1}`:                          unreadable,
		`{"sql":"a","params":[true]}`:        unreadable,
		`{"sql":"a","params":[{}]}`:          unreadable,
		`{"sql":"a","params":[["a"]]}`:       unreadable,
		`{"sql":"a","params":[[[]]]}`:        unreadable,
		`{"sql":"a","params":[[null]]}`:      unreadable,
		`{"sql":"a","params":[1e999]}`:       unreadable,
		`{"sql":"a","params":1}`:             unreadable,
		`{}`:                                 "The SQL of a statement must be a string.",
		`[{"sql":"a"},{}]`:                   "The SQL of a statement must be a string.",
		strings.Repeat(" ", 32<<20) + "more": "The call is larger than 33554432 bytes.",
	} {
		response, got := post(t, r, "/query", "DB", body)
		if got != `{"success":false,"error":"`+want+`"}` || response.StatusCode != http.StatusOK || r.queries != nil {
			t.Errorf("%.40s: %s %s", body, response.Status, got)
		}
	}
	r.err = &d1.Error{Text: `no such table: "x"`}
	if _, got := post(t, r, "/query", "DB", `{"sql":"a"}`); got != `{"success":false,"error":"no such table: \"x\""}` {
		t.Error(got)
	}
	// What is not the caller's stays in the log.
	r.err = errors.New("/secret/path: broken")
	if _, got := post(t, r, "/query", "DB", `{"sql":"a"}`); got != `{"success":false,"error":"internal error; the log of the server has the details"}` {
		t.Error(got)
	}
	for _, call := range [][2]string{{"/dump", "DB"}, {"/", "DB"}, {"/query", "OTHER"}, {"/query", ""}} {
		if response, _ := post(t, &recorder{}, call[0], call[1], `{"sql":"a"}`); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s of %q: %s", call[0], call[1], response.Status)
		}
	}
}

// TestBookmarks: a session gets one with each answer, each sorts after the one before, and only a session gets one.
func TestBookmarks(t *testing.T) {
	door := NewDoor(&recorder{}, slog.New(slog.DiscardHandler))
	last := ""
	for range 1000 {
		next := door.nextBookmark()
		if next <= last || len(next) != 16 {
			t.Fatalf("%s follows %s", next, last)
		}
		last = next
	}
	if response, _ := post(t, &recorder{}, "/query", "DB", `{"sql":"a"}`, bookmarkHeader, "first-primary"); len(response.Header.Get(bookmarkHeader)) != 16 {
		t.Error(response.Header)
	}
	if response, _ := post(t, &recorder{err: &d1.Error{Text: "x"}}, "/query", "DB", `{"sql":"a"}`, bookmarkHeader, last); response.Header.Get(bookmarkHeader) != "" {
		t.Error(response.Header)
	}
}

// TestEncodingIsJSON: whatever a database returns, the answer is JSON that says the same.
func TestEncodingIsJSON(t *testing.T) {
	value := rapid.OneOf(rapid.Just(d1.Value(nil)), rapid.Map(rapid.Int64(), func(i int64) d1.Value { return i }),
		rapid.Map(rapid.Float64(), func(f float64) d1.Value { return f }), rapid.Map(rapid.String(), func(s string) d1.Value { return s }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) d1.Value { return b }))
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "columns")
		row := rapid.SliceOfN(value, len(columns), len(columns)).Draw(t, "row")
		var got []struct {
			Results struct {
				Columns []string
				Rows    [][]any
			}
		}
		decoder := json.NewDecoder(bytes.NewReader(Encode([]d1.Result{{Columns: columns, Rows: [][]d1.Value{row}}}, true)))
		decoder.UseNumber()
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(columns, got[0].Results.Columns); diff != "" {
			t.Fatal(diff)
		}
		for i, v := range row {
			var want any = v
			switch v := v.(type) {
			case []byte:
				list := make([]any, len(v))
				for j, c := range v {
					list[j] = json.Number(appendValue(nil, int64(c)))
				}
				want = list
			case float64, int64:
				text, err := json.Marshal(v)
				if want = json.Number(text); err != nil { // JSON has no infinity
					want = nil
				}
				if n, ok := got[0].Results.Rows[0][i].(json.Number); ok && want != nil {
					got, _ := n.Float64()
					exact, _ := json.Number(text).Float64()
					if got != exact {
						t.Fatalf("%v came as %v", v, n)
					}
					continue
				}
			}
			if diff := cmp.Diff(want, got[0].Results.Rows[0][i]); diff != "" {
				t.Fatal(diff)
			}
		}
		var objects []map[string]any
		if err := json.Unmarshal(Encode([]d1.Result{{Columns: columns, Rows: [][]d1.Value{row}}}, false), &objects); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecode: whatever comes, the decoder refuses it or takes what it says: values of the kinds that D1 has.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"sql":"SELECT ?","params":[1,"a",null,[1,2]]}`, `[{"sql":"a"},{"sql":"b","params":[-0,1e300]}]`, `{"sql":"a","params":[[-1,1.5,1e300]]}`,
		"", "[", "[]", "null", `{"sql":"a","params":[[1 , 2]]}`, `{"sql":"\ud800"}`, `{"params":[]}`, `[null]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		queries, err := decode(body)
		if err != nil {
			if _, ok := errors.AsType[*d1.Error](err); !ok {
				t.Fatalf("%v is no d1.Error", err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is taken", body)
		}
		for _, q := range queries {
			for _, p := range q.Params {
				switch p := p.(type) {
				case nil, string, []byte:
				case float64:
					if math.IsInf(p, 0) || math.IsNaN(p) {
						t.Fatalf("%q has the value %v", body, p)
					}
				default:
					t.Fatalf("%q has the value %T", body, p)
				}
			}
		}
		if len(queries) > len(body) || queue.D1RequestBytes < len(body) {
			t.Fatalf("%d queries", len(queries))
		}
	})
}
