// Package messages is what the page shows of the messages of a queue, and what it does to them.
package messages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/preview"
	"github.com/runlot/runlot/internal/server/dashboard/jsontree"
)

// Rows is how many messages a list shows, and Operations how many of the last operations.
const (
	Rows       = 50
	Operations = 5
	// previewRunes is how much of a body a list shows, and previewBytes how much of it is read for that.
	previewRunes = 140
	previewBytes = 4 * previewRunes
	// dumpBytes is how much of a body of bytes is shown.
	dumpBytes = 16 << 10
)

// View is a look at the messages of a queue.
type View struct {
	API   *client.Client
	Query url.Values
	// Here is the address of this view with parameters changed, and Base that of the queue.
	Here func(pairs ...string) string
	Base string

	Database, Queue string
	// May says that whoever looks changes things.
	May bool
	// Follows says that the view is open already and is only to be kept up to date: what does not change by itself is left out.
	Follows bool
}

// Content is what a view shows.
type Content struct {
	Template string
	Data     any
	// Background is what goes on in the background, Undo what can be undone, States how many messages are in each state, and Found the list; they change
	// by themselves. Found is nil for what is not looked at again by itself.
	Background any
	Undo       *Undoables
	States     []Choice
	Found      *Found
	Dialog     *Dialog
}

// Found is a list of messages.
type Found struct {
	Base, Filter, Queue string
	// Failed says that the filter cannot be read, and Settled that the messages left the queue.
	Failed, Settled bool
	Rows            []Row
	// Kept are the parameters of the list, and Of what can be done to those that are ticked.
	Kept map[string]string
	Of   []ask
	// First and Next are the addresses of other pages; "" for none.
	First, Next string
}

// Row is a message in a list.
type Row struct {
	ID            string
	M             client.Message
	Path, Preview string
	// Batch is the address of the batch by which it left the queue; "" while it is there.
	Batch string
	// Chosen says that its box is ticked, and May that it has one.
	Chosen, May bool
}

// Choice is a filter that is offered as a link, with how many messages it finds.
type Choice struct {
	Title, Path string
	// N is -1 when that is not known.
	N      int64
	Chosen bool
}

// List shows the messages that a filter finds, or all.
func (v *View) List(ctx context.Context) (*Content, error) {
	within := v.within()
	background, err := v.background(ctx)
	if err != nil {
		return nil, err
	}
	undoables, err := v.undoables(ctx)
	if err != nil {
		return nil, err
	}
	filter, cursor := strings.TrimSpace(v.Query.Get("filter")), v.Query.Get("cursor")
	state, peeks := stateOf(filter)
	if v.Follows && !peeks {
		// A search looks at many messages: it is made when somebody asks, not every second.
		return &Content{Background: background, Undo: undoables}, nil
	}
	q, err := v.API.Queue(ctx, v.Database, v.Queue)
	if err != nil {
		return nil, err
	}
	dead := len(q.DeadLettersOf) > 0
	data := map[string]any{"Q": q, "Base": v.Base, "Filter": filter, "Problem": "", "Counted": (*client.Count)(nil), "More": "", "May": v.May, "Background": background, "Undo": undoables, "Asks": v.asks(filter, q)}
	c := &Content{Template: "messages", Data: data, Background: background, Undo: undoables, States: choices(v, q, filter), Found: &Found{Base: v.Base, Filter: filter, Queue: q.Name}}
	data["States"], data["Found"] = c.States, c.Found
	look := preview.Options{State: state, Cursor: cursor, Limit: Rows, Bytes: previewBytes, Within: within}
	if !peeks {
		look.State, look.Filter = "", filter
	}
	page, err := preview.Messages(ctx, v.API, v.Database, v.Queue, &look)
	if e, ok := errors.AsType[*client.Error](err); ok && filter != "" && e.Status == http.StatusBadRequest {
		data["Problem"], data["Asks"], c.Found.Failed = e.Error(), v.asksOfNone(), true
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Found.Kept = map[string]string{"filter": filter, "cursor": cursor}
	c.Found.Settled = state == settled
	may := v.May && !c.Found.Settled
	if c.Found.Settled {
		data["Asks"] = v.asksOfNone()
	}
	if may {
		c.Found.Of = v.asksOfChosen(dead)
	}
	// Who follows a list ticks in the browser; what the address says was so when the view was opened.
	var ids []string
	if !v.Follows {
		ids = v.Query["id"]
	}
	for i := range page.Items {
		m := &page.Items[i]
		c.Found.Rows = append(c.Found.Rows, Row{Batch: v.batch(m), ID: "message." + m.ID, M: *m, Path: v.path(m.ID), Preview: beginning(m), Chosen: slices.Contains(ids, m.ID), May: may})
	}
	if page.Next != "" {
		c.Found.Next = v.Here("cursor", page.Next)
	}
	if cursor != "" {
		c.Found.First = v.Here("cursor", "")
	}
	var counted *client.Count
	switch {
	case v.Follows || filter == "":
	case peeks:
		if n := inState(q, state); n >= 0 {
			counted = &client.Count{Matched: int(n), Complete: true}
		}
	default:
		if counted, err = preview.Count(ctx, v.API, v.Database, v.Queue, filter, within); err != nil {
			return nil, err
		}
		data["Counted"] = counted
		if within > 0 && (!counted.Complete || page.Next != "" && len(page.Items) < Rows) {
			data["More"] = v.further()
		}
	}
	c.Dialog = v.dialog(q, filter, counted)
	return c, nil
}

// effortParameter asks for a search that takes its time.
const effortParameter = "effort"

// searchTime is how long somebody waits for what a search has found by then; counting takes as long again, at most.
const searchTime = 40 * time.Millisecond

// within is how long a search may take: a moment, unless the address says that it may take its time. No other address of the
// view says so.
func (v *View) within() time.Duration {
	here := v.Here
	v.Here = func(pairs ...string) string { return here(append(pairs, effortParameter, "")...) }
	if v.Query.Get(effortParameter) == "full" {
		return 0
	}
	return searchTime
}

// further is the address of the same search that takes its time.
func (v *View) further() string {
	at := v.Here()
	if strings.Contains(at, "?") {
		return at + "&" + effortParameter + "=full"
	}
	return at + "?" + effortParameter + "=full"
}

// stateOf is the state that a filter asks for and nothing else, "" for no filter. Such a list is read as it is, without a
// search; false for any other filter.
func stateOf(filter string) (state string, ok bool) {
	state, ok = strings.CutPrefix(filter, "state:")
	return state, filter == "" || ok && slices.Contains(states, state)
}

// settled is the state of messages that left their queue.
const settled = "settled"

// states are those of a message.
var states = []string{"visible", "delayed", "in_flight", settled}

// inState is how many messages of a queue are in a state, "" for any; -1 when that is not known.
func inState(q *client.Queue, state string) int64 {
	switch {
	case q.Unsettled < 0 || state == settled:
		return -1
	case state == "visible":
		return q.Visible
	case state == "delayed":
		return q.Delayed
	case state == "in_flight":
		return q.InFlight
	default:
		return q.Unsettled
	}
}

// background are the last operations of the queue. Whoever may not see them sees none.
func (v *View) background(ctx context.Context) (any, error) {
	list, err := v.API.Operations(ctx, v.Database, v.Queue, 0, Operations)
	if err != nil {
		return nil, err
	}
	return map[string]any{"List": list, "May": v.May, "Base": v.Base, "Next": v.Here("ask", "")}, nil
}

// choices are the filters by state, with how many messages each has.
func choices(v *View, q *client.Queue, filter string) []Choice {
	list := make([]Choice, 0, 1+len(states))
	for _, state := range append([]string{""}, states...) {
		c := Choice{Title: strings.ReplaceAll(cmp.Or(state, "all"), "_", " "), N: inState(q, state)}
		by := ""
		if state != "" {
			by = "state:" + state
		}
		c.Path, c.Chosen = v.Here("filter", by, "cursor", "", "ask", "", "id", ""), filter == by
		list = append(list, c)
	}
	return list
}

// batch is the address of the batch by which a message left the queue.
func (v *View) batch(m *client.Message) string {
	if m.Settled == nil {
		return ""
	}
	return v.Base + "?batch=" + url.QueryEscape(v.Database+"/"+m.Settled.Batch) + "#batches"
}

func (v *View) path(id string) string { return v.Base + "/messages/" + url.PathEscape(id) }

// One shows a message whole.
func (v *View) One(ctx context.Context, id string) (*Content, error) {
	if v.Follows {
		return &Content{}, nil
	}
	m, err := v.API.Message(ctx, v.Database, v.Queue, id)
	if err != nil {
		return nil, err
	}
	undoables, err := v.undoables(ctx)
	if err != nil {
		return nil, err
	}
	history, err := v.API.History(ctx, v.Database, v.Queue, id)
	if err != nil {
		return nil, err
	}
	if m.Settled != nil {
		return &Content{Template: "message", Data: map[string]any{
			"M": m, "Database": v.Database, "Queue": v.Queue, "Base": v.Base, "Body": "", "Language": "", "Tree": nil, "History": history, "Asks": nil,
			"Batch": v.batch(m), "Undo": undoables,
		}}, nil
	}
	body, language := whole(m)
	var tree []jsontree.Node
	if m.Encoding == "json" {
		tree, _ = jsontree.Of(m.Body)
	}
	return &Content{
		Template: "message", Dialog: v.dialogOf(m), Data: map[string]any{
			"M": m, "Database": v.Database, "Queue": v.Queue, "Base": v.Base, "Body": body, "Language": language, "Tree": tree, "History": history, "May": v.May,
			"Asks": v.asksOf(m), "Undo": undoables,
		},
	}, nil
}

// text is the body of a message that is a text, or its JSON.
func text(m *client.Message) string {
	if m.Encoding == "json" {
		return string(m.Body)
	}
	var s string
	if json.Unmarshal(m.Body, &s) != nil {
		return string(m.Body)
	}
	return s
}

// whole is a body as a person reads it, and what it is. Numbers stay as they were sent, however long.
func whole(m *client.Message) (body, language string) {
	switch m.Encoding {
	case "json":
		var b bytes.Buffer
		if json.Indent(&b, m.Body, "", "  ") != nil {
			return string(m.Body), "JSON"
		}
		return b.String(), "JSON"
	case "text":
		return text(m), "text"
	}
	raw, err := base64.StdEncoding.DecodeString(text(m))
	if err != nil {
		return text(m), "base64"
	}
	shown := raw[:min(len(raw), dumpBytes)]
	dump := hex.Dump(shown)
	if len(shown) < len(raw) {
		dump += "…\n"
	}
	return dump, "bytes"
}

// beginning is that of a body, in one line.
func beginning(m *client.Message) string {
	if m.Settled != nil {
		return ""
	}
	s := strings.ToValidUTF8(text(m), "\uFFFD")
	if m.Encoding == "base64" {
		raw, _ := base64.StdEncoding.DecodeString(s)
		s = hex.EncodeToString(raw[:min(len(raw), previewRunes/2)])
	}
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > previewRunes {
		return string([]rune(s)[:previewRunes]) + "…"
	}
	if m.Size > previewBytes {
		s += "…"
	}
	return s
}
