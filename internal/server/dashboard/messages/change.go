package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// Input is a field that somebody fills in.
type Input struct {
	Name, Label, Value string
	// Kind is "area", "number", "text" or "choice", which has Options.
	Kind    string
	Options []string
	// Flag is how the command is told a value other than Without, with Suffix after it; "" for one that is its argument. A
	// choice has the flag when it is not Without. NoFlag says that the command is not told.
	Flag, Without, Suffix string
	NoFlag                bool
}

// Dialog asks before something is done.
type Dialog struct {
	Title, Text string
	// Action is the path that does it, Fields what is sent along, Inputs what is asked for, and Verb what its button says.
	Action, Verb string
	Fields       map[string]string
	Inputs       []Input
	Danger       bool
	// Command does the same.
	Command string
	// Back is the address without the dialog, and Next where the action leads.
	Back, Next string
}

// The verbs: what a dialog asks for, and the end of the path that does it.
const (
	verbSend    = "send"
	verbPurge   = "purge"
	verbRedrive = "redrive"
	verbDelete  = "delete"
	verbRetry   = "retry"
	verbRemove  = "remove"
)

// kinds are those of operations, by verb.
var kinds = map[string]string{verbRedrive: "redrive", verbDelete: "delete", verbRetry: "retry_now"}

// ask is a button that opens a dialog.
type ask struct{ Title, Path, ID string }

// asks are the buttons of a list.
func (v *View) asks(filter string, q *client.Queue) []ask {
	if !v.May {
		return nil
	}
	of := "all"
	if filter != "" {
		of = "all that match"
	}
	list := []ask{{Title: "Send a message", ID: verbSend}, {Title: "Retry " + of + " now", ID: verbRetry}}
	if len(q.DeadLettersOf) > 0 {
		list = append(list, ask{Title: "Redrive " + of, ID: verbRedrive})
	}
	if filter == "" {
		list = append(list, ask{Title: "Purge", ID: verbPurge})
		if unnamed(q) {
			list = append(list, ask{Title: "Delete the queue", ID: verbRemove})
		}
	} else {
		list = append(list, ask{Title: "Delete " + of, ID: verbDelete})
	}
	for i := range list {
		list[i].Path = v.Here("ask", list[i].ID)
	}
	return list
}

// asksOfNone are the buttons beside a filter that cannot be read: what it would find is not known.
func (v *View) asksOfNone() []ask {
	if !v.May {
		return nil
	}
	return []ask{{Title: "Send a message", ID: verbSend, Path: v.Here("filter", "", "ask", verbSend)}}
}

// asksOfChosen are the buttons for the messages of a list whose boxes are ticked.
func (v *View) asksOfChosen(dead bool) []ask {
	list := []ask{{Title: "Retry these now", ID: verbRetry}, {Title: "Delete these", ID: verbDelete}}
	if dead {
		list = append([]ask{{Title: "Redrive these", ID: verbRedrive}}, list...)
	}
	return list
}

// asksOf are the buttons of one message.
func (v *View) asksOf(m *client.Message) []ask {
	if !v.May || m.State == "in_flight" {
		return nil
	}
	list := []ask{{Title: "Delete", ID: verbDelete}}
	if m.State == "delayed" {
		list = append([]ask{{Title: "Retry now", ID: verbRetry}}, list...)
	}
	if m.Source != "" {
		list = append([]ask{{Title: "Redrive", ID: verbRedrive}}, list...)
	}
	for i := range list {
		list[i].Path = v.Here("ask", list[i].ID)
	}
	return list
}

// command is what does the same: a verb of runlot queue, with what follows the name of the queue.
func (v *View) command(verb string, rest ...string) string {
	words := append([]string{"runlot queue", verb, view.Quote(v.Queue)}, rest...)
	return strings.Join(append(words, "--database", view.Quote(v.Database)), " ")
}

// new returns the dialog of a verb.
func (v *View) new(verb string) *Dialog {
	back := v.Here("ask", "")
	return &Dialog{Action: v.Base + "/messages/" + verb, Fields: map[string]string{}, Back: back, Next: back}
}

// dialog is what the parameter ask wants to be asked about a list.
func (v *View) dialog(q *client.Queue, filter string, counted *client.Count) *Dialog {
	verb := v.Query.Get("ask")
	if verb == "" || !v.May {
		return nil
	}
	if ids := v.Query["id"]; len(ids) > 0 {
		return v.dialogOfChosen(verb, ids)
	}
	d := v.new(verb)
	if filter == "" {
		return v.dialogOfAll(d, verb, q)
	}
	d.Fields["filter"] = filter
	which, n := "all messages of "+q.Name+" that match", "Those that match"
	if counted != nil {
		n = exactly(int64(counted.Matched), counted.Complete) + " that match"
	}
	rest := []string{"--filter", view.Quote(filter)}
	switch verb {
	case verbSend:
		delete(d.Fields, "filter")
		return v.dialogOfSend(d)
	case verbRedrive:
		d.Title, d.Verb = "Redrive "+which+"?", "Redrive"
		d.Text = n + ": back to the queue that each came from, or to the one named here, with their retries anew. Those in flight stay. It goes on in the background. " + undoHint
		d.Inputs = redriveInputs()
		d.Command = v.command("redrive", rest...)
	case verbDelete:
		d.Title, d.Verb, d.Danger = "Delete "+which+"?", "Delete them", true
		d.Text = n + ": deleted, but for those in flight. It goes on in the background, and the last 1,000 of them, up to 64 MiB, can be brought back for an hour."
		d.Command = v.command("delete", rest...)
	case verbRetry:
		d.Title, d.Verb = "Retry "+which+" now?", "Retry now"
		d.Text = n + ": visible at once where they are delayed. Their attempts stay. It goes on in the background. " + undoHint
		d.Command = v.command("retry", rest...)
	default:
		return nil
	}
	return d
}

// dialogOfAll is what a verb asks about all messages of a queue.
func (v *View) dialogOfAll(d *Dialog, verb string, q *client.Queue) *Dialog {
	switch verb {
	case verbSend:
		return v.dialogOfSend(d)
	case verbPurge:
		d.Title, d.Verb, d.Danger = "Purge "+q.Name+"?", "Delete all", true
		d.Text = "It holds " + held(q.Unsettled) + ": all are deleted. This cannot be undone, and what was deleted before cannot be brought back any more."
		if q.InFlight > 0 {
			d.Text += " The handlers of those in flight (" + view.Count(q.InFlight) + ") finish, and they are not delivered again."
		}
		d.Command = v.command("purge")
	case verbRemove:
		return v.dialogOfRemoval(d, q)
	case verbRedrive:
		d.Title, d.Verb = "Redrive all messages of "+q.Name+"?", "Redrive"
		d.Text = "It holds " + held(q.Unsettled) + ": back to the queue that each came from, or to the one named here, with their retries anew. Those in flight stay. It goes on in the background. " + undoHint
		d.Inputs = redriveInputs()
		d.Command = v.command("redrive")
	case verbRetry:
		d.Title, d.Verb = "Retry all delayed messages of "+q.Name+" now?", "Retry now"
		d.Text = "It has " + held(inState(q, "delayed")) + " that are delayed: visible at once, with the attempts that they have. It goes on in the background. " + undoHint
		d.Fields["filter"] = delayed
		d.Command = v.command("retry", "--filter", delayed)
	default:
		return nil // to delete all is a purge
	}
	return d
}

// delayed is the filter that finds all that a retry changes.
const delayed = "state:delayed"

// dialogOfSend asks for a message.
func (v *View) dialogOfSend(d *Dialog) *Dialog {
	d.Title, d.Verb, d.Text = "Send a message to "+v.Queue, "Send", "It is delivered like any other."
	d.Inputs = []Input{
		{Name: "body", Label: "Body", Kind: "area", Value: "{}"},
		{Name: "type", Label: "Format", Kind: "choice", Options: []string{kindJSON, kindText}, Flag: "--text", Without: kindJSON},
		{Name: "delay", Label: "Delay in seconds", Kind: "number", Value: "0", Flag: "--delay", Without: "0", Suffix: "s"},
	}
	d.Command = v.command("send") + " '{}'"
	return d
}

// redriveInputs are where messages go, and how fast.
func redriveInputs() []Input {
	return []Input{
		{Name: "to", Label: "To queue (empty: back to its source)", Kind: "text", Flag: "--to"},
		{Name: "rate", Label: "At most a second (0: as many as go)", Kind: "number", Value: "0", Flag: "--rate", Without: "0"},
	}
}

// undoHint says that it can be undone.
const undoHint = "For an hour it can be undone, for each message to which nothing happened since."

// held is how many messages a queue has; those below 0 are not counted yet.
func held(n int64) string {
	if n < 0 {
		return "messages that are not counted yet"
	}
	return count(n)
}

// exactly is a number of messages, or that there may be more.
func exactly(n int64, complete bool) string {
	if complete {
		return count(n)
	}
	return view.Count(n) + " or more messages"
}

// dialogOfChosen is what a verb asks about the messages whose boxes are ticked.
func (v *View) dialogOfChosen(verb string, ids []string) *Dialog {
	if len(ids) > Rows {
		return nil
	}
	d := v.new(verb)
	d.Fields["ids"], d.Next = strings.Join(ids, ","), v.Here("ask", "", "id", "")
	these := count(int64(len(ids)))
	switch verb {
	case verbRedrive:
		d.Title, d.Verb, d.Text = "Redrive "+these+"?", "Redrive", "Each goes back to the queue that it came from, or to the one named here, with its retries anew. Those in flight stay. "+undoHint
		d.Inputs = redriveInputs()
		d.Command = v.command("redrive", "--ids", strings.Join(ids, ","))
	case verbDelete:
		d.Title, d.Verb, d.Danger, d.Text = "Delete "+these+"?", "Delete", true, "Those in flight stay. "+undoHint
		d.Command = v.command("delete", ids...)
	case verbRetry:
		d.Title, d.Verb, d.Text = "Retry "+these+" now?", "Retry now", "Those that are delayed become visible at once. Their attempts stay. "+undoHint
		d.Command = v.command("retry", ids...)
	default:
		return nil
	}
	return d
}

// dialogOf is what the parameter ask wants to be asked about one message.
func (v *View) dialogOf(m *client.Message) *Dialog {
	verb := v.Query.Get("ask")
	if verb == "" || !v.May {
		return nil
	}
	d := v.new(verb)
	d.Fields["id"], d.Next = m.ID, v.Base+"/messages"
	switch verb {
	case verbDelete:
		d.Title, d.Verb, d.Danger, d.Text = "Delete this message?", "Delete it", true, undoHint
		d.Command = v.command("delete", m.ID)
	case verbRetry:
		d.Title, d.Verb, d.Text, d.Next = "Retry this message now?", "Retry now", "It becomes visible at once. Its attempts stay. "+undoHint, d.Back
		d.Command = v.command("retry", m.ID)
	case verbRedrive:
		d.Title, d.Verb = "Redrive this message?", "Redrive"
		d.Text = "It goes back to " + m.Source + " with its retries anew. For an hour this can be undone, if nothing happened to it since. With another body it becomes a new message with an id of its own, and that cannot be undone."
		d.Command = v.command("redrive", "--ids", m.ID)
		d.Inputs = redriveInputs()[:1]
		if m.Encoding != "base64" {
			// The encoding says what the body is: that of another format, as v8, is JSON too.
			body, _ := whole(m)
			edit := Input{Name: "body", Label: "Body", Kind: "area", Flag: "--body", NoFlag: m.Encoding != kindJSON}
			d.Fields["type"] = m.Encoding
			if m.Encoding == kindText && !typeable(body) {
				body, edit.Label, d.Fields["type"] = string(m.Body), "Body, a text written as a JSON string", kindQuoted
			}
			edit.Value, edit.Without = body, body
			d.Inputs = append([]Input{edit}, d.Inputs...)
			d.Fields["was"] = body
		}
	default:
		return nil
	}
	return d
}

// invalid is a form that cannot be done.
func invalid(format string, args ...any) error {
	return &client.Error{Status: http.StatusBadRequest, Code: "form_invalid", Message: fmt.Sprintf(format, args...)}
}

// Do does what a dialog asked about, and says what was done.
func Do(ctx context.Context, api *client.Client, database, queue, verb string, form url.Values) (string, error) {
	id, to := form.Get("id"), strings.TrimSpace(form.Get("to"))
	rate, err := strconv.Atoi("0" + strings.TrimSpace(form.Get("rate")))
	if err != nil {
		return "", invalid("%q is no number of messages a second", form.Get("rate"))
	}
	if ids := form.Get("ids"); ids != "" {
		return some(ctx, api, database, queue, verb, &client.Redrive{IDs: strings.Split(ids, ","), To: to, Rate: rate})
	}
	switch {
	case verb == verbUndo:
		return takeBack(ctx, api, database, queue, form)
	case verb == verbSend:
		return send(ctx, api, database, queue, form)
	case verb == verbPurge:
		p, err := api.Purge(ctx, database, queue, nil)
		if err != nil {
			return "", err
		}
		return "Deleted " + count(p.Messages) + ".", nil
	case verb == verbRemove:
		return remove(ctx, api, database, queue)
	case verb == verbRedrive && id != "" && sameLines(form.Get("body")) != sameLines(form.Get("was")):
		body, kind, err := draft(form.Get("body"), form.Get("type"))
		if err != nil {
			return "", err
		}
		if _, err := api.Redrive(ctx, database, queue, &client.Redrive{To: to, Edit: &client.Edit{ID: id, Body: body, ContentType: kind}}, nil); err != nil {
			return "", err
		}
		return "Redrove the message with another body.", nil
	case verb == verbRedrive && id != "":
		p, err := api.Redrive(ctx, database, queue, &client.Redrive{IDs: []string{id}, To: to}, nil)
		if err != nil {
			return "", err
		}
		return "Redrove " + count(p.Messages) + ".", nil
	case verb == verbDelete && id != "":
		c, err := api.DeleteMessages(ctx, database, queue, []string{id})
		return chosen("Deleted", c, err)
	case verb == verbRetry && id != "":
		c, err := api.RetryMessages(ctx, database, queue, []string{id})
		return chosen("Hurried", c, err)
	case verb == "cancel":
		return cancel(ctx, api, database, queue, form.Get("operation"))
	}
	kind, ok := kinds[verb]
	if !ok {
		return "", &client.Error{Status: http.StatusNotFound, Code: "page_unknown", Message: "there is no such action"}
	}
	o, err := api.StartOperation(ctx, &client.StartOperation{
		Kind: kind, Database: database, Queue: queue, Filter: form.Get("filter"), To: to, Rate: rate,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Operation %d has begun.", o.ID), nil
}

// some does something to messages that were chosen one by one, and says what became of them. Only a redrive asks for more
// than their ids.
func some(ctx context.Context, api *client.Client, database, queue, verb string, r *client.Redrive) (string, error) {
	ids := r.IDs
	var done int64
	var c *client.Chosen
	var err error
	switch verb {
	case verbRedrive:
		p, err := api.Redrive(ctx, database, queue, r, nil)
		if err != nil {
			return "", err
		}
		done, c = p.Messages, &client.Chosen{Missing: p.Missing}
	case verbDelete:
		c, err = api.DeleteMessages(ctx, database, queue, ids)
	case verbRetry:
		c, err = api.RetryMessages(ctx, database, queue, ids)
	default:
		err = invalid("%q is not done to chosen messages", verb)
	}
	if err != nil {
		return "", err
	}
	if verb != verbRedrive {
		done = int64(c.Done)
	}
	words := map[string]string{verbRedrive: "Redrove ", verbDelete: "Deleted ", verbRetry: "Hurried "}[verb] + count(done) + "."
	if left := len(ids) - int(done); left > 0 {
		words += " " + view.Count(left) + " were in flight, visible already, or gone."
	}
	return words, nil
}

func send(ctx context.Context, api *client.Client, database, queue string, form url.Values) (string, error) {
	body, kind, err := draft(form.Get("body"), form.Get("type"))
	if err != nil {
		return "", err
	}
	delay, err := strconv.ParseFloat("0"+strings.TrimSpace(form.Get("delay")), 64)
	if err != nil {
		return "", invalid("%q is no number of seconds", form.Get("delay"))
	}
	if _, err := api.Send(ctx, database, queue, []client.Draft{{Body: body, ContentType: kind, DelaySeconds: delay}}); err != nil {
		return "", err
	}
	return "Sent a message to " + queue + ".", nil
}

// The kinds of body that a form has: JSON, a text, or a text written as a JSON string.
const (
	kindJSON   = "json"
	kindText   = "text"
	kindQuoted = "quoted"
)

// typeable reports whether a field of a form gives a text back as it is: lines end with a line feed there, and most control
// characters have no place.
func typeable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// draft is a body as the API takes it.
func draft(body, kind string) (json.RawMessage, string, error) {
	if kind == kindQuoted {
		var text string
		if json.Unmarshal([]byte(body), &text) != nil {
			return nil, "", invalid("the body is no JSON string: it begins and ends with a quote, and \\r is a carriage return")
		}
		return json.RawMessage(body), kindText, nil
	}
	if kind == kindJSON {
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(body)); err != nil {
			return nil, "", invalid("the body is no JSON: %s; send it as text, or mend it", err)
		}
		return compact.Bytes(), kind, nil
	}
	quoted, err := json.Marshal(sameLines(body))
	return quoted, kindText, err
}

// sameLines is a text with the line feeds that it had before a form was sent.
func sameLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func count(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return view.Count(n) + " messages"
}

func chosen(done string, c *client.Chosen, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case c.Done > 0:
		return done + " the message.", nil
	case len(c.InFlight) > 0:
		return "", &client.Error{Status: http.StatusConflict, Code: "in_flight", Message: "it is being delivered, and was left alone"}
	case len(c.Unchanged) > 0:
		return "It was visible already.", nil
	default:
		return "", &client.Error{Status: http.StatusNotFound, Code: "message_unknown", Message: "it is not there any more"}
	}
}
