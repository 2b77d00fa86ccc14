package dashboard

import (
	"context"
	"strings"

	"github.com/runlot/runlot/internal/server/dashboard/messages"
)

// looks returns a look at the messages of a queue.
func (v *visit) looks() *messages.View {
	database, name := v.r.PathValue("database"), v.r.PathValue("queue")
	return &messages.View{
		API: v.api, Query: v.q, Here: v.here, Base: queuePath(database, name), Database: database, Queue: name, May: v.may(),
		Follows: strings.HasPrefix(v.r.URL.Path, livePrefix+"/"),
	}
}

// messages is the page of the messages of a queue.
func (d *Dashboard) messages(ctx context.Context, v *visit) (*page, error) {
	c, err := v.looks().List(ctx)
	if err != nil {
		return nil, err
	}
	p := content(v, c)
	p.Fragments = []fragment{{ID: "background", Template: "background", Data: c.Background}, {ID: "undo", Template: "undo", Data: c.Undo}}
	if c.Found == nil {
		return p, nil
	}
	found := fragment{ID: "found", Template: "found", Data: c.Found, List: "message-rows"}
	for i := range c.Found.Rows {
		r := &c.Found.Rows[i]
		found.Parts = append(found.Parts, fragment{ID: r.ID, Template: "message-row", Data: r})
	}
	p.Fragments = append(p.Fragments, fragment{ID: "states", Template: "states", Data: c.States}, found, fragment{ID: "pages", Template: "message-pages", Data: c.Found})
	return p, nil
}

// message is the page of one message.
func (d *Dashboard) message(ctx context.Context, v *visit) (*page, error) {
	c, err := v.looks().One(ctx, v.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return content(v, c), nil
}

func content(v *visit, c *messages.Content) *page {
	p := &page{Title: v.r.PathValue("queue") + " · Messages", Section: sectionQueues, Template: c.Template, Data: c.Data}
	if c.Dialog != nil {
		ask := dialog(*c.Dialog)
		p.Dialog = &ask
	}
	return p
}

// change does something to messages.
func (d *Dashboard) change(ctx context.Context, v *visit) (string, error) {
	return messages.Do(ctx, v.api, v.r.PathValue("database"), v.r.PathValue("queue"), v.r.PathValue("verb"), v.r.PostForm)
}
