// Package messages is what the page shows of the messages of a queue, and what it does to them.
package messages

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/runlot/runlot/client"
)

// Rows is how many messages a list shows, and Operations how many of the last operations.
const (
	Rows       = 50
	Operations = 5
	// previewRunes is how much of a body a list shows.
	previewRunes = 140
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
	// Background is what goes on in the background; it changes by itself.
	Background any
	Dialog     *Dialog
}

// row is a message in a list.
type row struct {
	M             client.Message
	Path, Preview string
	// Chosen says that its box is ticked.
	Chosen bool
}

// choice is a filter that is offered as a link.
type choice struct {
	Title, Path string
	// N is how many messages of the queue it finds; -1 when that is not known.
	N      int64
	Chosen bool
}

// List shows the messages that a filter finds, or all.
func (v *View) List(ctx context.Context) (*Content, error) {
	background, err := v.background(ctx)
	if err != nil {
		return nil, err
	}
	if v.Follows {
		return &Content{Background: background}, nil
	}
	q, err := v.API.Queue(ctx, v.Database, v.Queue)
	if err != nil {
		return nil, err
	}
	filter, cursor := strings.TrimSpace(v.Query.Get("filter")), v.Query.Get("cursor")
	data := map[string]any{
		"Q": q, "Base": v.Base, "Filter": filter, "Problem": "", "Rows": []row{}, "Next": "", "First": "", "Counted": (*client.Count)(nil), "May": v.May, "Of": []ask{}, "Kept": map[string]string{},
		"Choices": choices(v, q, filter), "Background": background, "Asks": v.asks(filter, len(q.DeadLettersOf) > 0),
	}
	var page *client.Messages
	if filter == "" {
		page, err = v.API.Peek(ctx, v.Database, v.Queue, "", cursor, Rows)
	} else {
		page, err = v.API.Search(ctx, v.Database, v.Queue, filter, cursor, Rows)
	}
	if e, ok := errors.AsType[*client.Error](err); ok && filter != "" && e.Status == http.StatusBadRequest {
		data["Problem"], data["Asks"] = e.Error(), v.asksOfNone()
		return &Content{Template: "messages", Data: data, Background: background}, nil
	}
	if err != nil {
		return nil, err
	}
	rows, ids := make([]row, len(page.Items)), v.Query["id"]
	for i := range page.Items {
		rows[i] = row{M: page.Items[i], Path: v.path(page.Items[i].ID), Preview: preview(&page.Items[i]), Chosen: slices.Contains(ids, page.Items[i].ID)}
	}
	data["Rows"] = rows
	if page.Next != "" {
		data["Next"] = v.Here("cursor", page.Next)
	}
	if cursor != "" {
		data["First"] = v.Here("cursor", "")
	}
	if filter != "" {
		if data["Counted"], err = v.API.CountMessages(ctx, v.Database, v.Queue, filter); err != nil {
			return nil, err
		}
	}
	if v.May {
		data["Of"] = v.asksOfChosen(len(q.DeadLettersOf) > 0)
	}
	data["Kept"] = map[string]string{"filter": filter, "cursor": cursor}
	counted, _ := data["Counted"].(*client.Count)
	return &Content{Template: "messages", Data: data, Background: background, Dialog: v.dialog(q, filter, counted)}, nil
}

// background are the last operations of the queue. Whoever may not see them sees none.
func (v *View) background(ctx context.Context) (any, error) {
	list, err := v.API.Operations(ctx, v.Database, v.Queue, 0, Operations)
	if err != nil {
		return nil, err
	}
	return map[string]any{"List": list, "May": v.May, "Base": v.Base, "Next": v.Here("ask", "")}, nil
}

// choices are the filters by state.
func choices(v *View, q *client.Queue, filter string) []choice {
	list := []choice{{Title: "all", N: q.Unsettled}, {Title: "visible", N: q.Visible}, {Title: "delayed", N: q.Delayed}, {Title: "in flight", N: q.InFlight}}
	known := q.Unsettled >= 0
	for i := range list {
		by := ""
		if !known {
			list[i].N = -1
		}
		if i > 0 {
			by = "state:" + strings.ReplaceAll(list[i].Title, " ", "_")
		}
		list[i].Path, list[i].Chosen = v.Here("filter", by, "cursor", "", "ask", ""), filter == by
	}
	return list
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
	history, err := v.API.History(ctx, v.Database, v.Queue, id)
	if err != nil {
		return nil, err
	}
	body, language := whole(m)
	return &Content{
		Template: "message", Dialog: v.dialogOf(m), Data: map[string]any{
			"M": m, "Database": v.Database, "Queue": v.Queue, "Base": v.Base, "Body": body, "Language": language, "History": history, "May": v.May,
			"Asks": v.asksOf(m),
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

// preview is the beginning of a body, in one line.
func preview(m *client.Message) string {
	s := strings.ToValidUTF8(text(m), "\uFFFD")
	if m.Encoding == "base64" {
		raw, _ := base64.StdEncoding.DecodeString(s)
		s = hex.EncodeToString(raw[:min(len(raw), previewRunes/2)])
	}
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > previewRunes {
		s = string([]rune(s)[:previewRunes]) + "…"
	}
	return s
}
