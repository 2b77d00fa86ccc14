package messages

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/undo"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// verbUndo takes back what another verb did.
const verbUndo = "undo"

// undoShown is how many things that can be undone are shown. All are listed by the command.
const undoShown = 3

// Undoable is something that was done and can be undone.
type Undoable struct {
	undo.Action

	// Text says what was done, and Command undoes it too.
	Text, Command string
	// Back is what its messages will be.
	Back string
}

// Undoables is what can be undone in a queue: the newest, how many More there are, where the forms lead, and the command that
// lists All.
type Undoables struct {
	List            []Undoable
	More            int
	Base, Next, All string
}

// undoWords are what was done, and what undoing does, by kind.
var undoWords = map[string][2]string{
	"delete": {"Deleted ", "come back as they were"}, "retry_now": {"Hurried ", "wait as long as before"}, "redrive": {"Redrove ", "come back, where they were not delivered"},
}

// undoables are what can be undone. Whoever may not change anything is offered nothing.
func (v *View) undoables(ctx context.Context) (*Undoables, error) {
	u := &Undoables{Base: v.Base, Next: v.Here("ask", "", "id", ""), All: v.command(verbUndo)}
	if !v.May {
		return u, nil
	}
	list, err := undo.Actions(ctx, v.API, v.Database, v.Queue)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if i == undoShown {
			u.More = len(list) - i
			break
		}
		a := list[i]
		words := undoWords[a.Kind]
		u.List = append(u.List, Undoable{Action: a, Text: words[0] + count(a.Messages), Back: words[1], Command: v.command(verbUndo, view.Quote(a.ID))})
	}
	return u, nil
}

// takeBack undoes something, and says what became of each message.
func takeBack(ctx context.Context, api *client.Client, database, queue string, form url.Values) (string, error) {
	done, err := undo.Do(ctx, api, database, queue, form.Get("undo"))
	if err != nil {
		return "", err
	}
	left := []string{}
	for _, why := range []struct {
		ids   []string
		words string
	}{
		{done.InFlight, "being delivered"}, {done.Changed, "tried since"}, {done.Missing, "gone"}, {done.Forbidden, "in a queue that is not yours to change"},
	} {
		if len(why.ids) > 0 {
			left = append(left, view.Count(int64(len(why.ids)))+" "+why.words+" ("+few(why.ids)+")")
		}
	}
	late := strings.Join(left, "; ")
	switch {
	case done.Done > 0 && late == "":
		return "Undone: " + count(done.Done) + " " + agree(done.Done, "is as it was", "are as they were") + ".", nil
	case done.Done > 0:
		return "Undone for " + count(done.Done) + ". Too late for the others: " + late + ".", nil
	case late != "":
		return "", &client.Error{Status: http.StatusConflict, Code: "undo_late", Message: "it is too late to undo this: " + late}
	default:
		return "", &client.Error{Status: http.StatusNotFound, Code: "undo_unknown", Message: "it was undone already"}
	}
}

// fewShown is how many ids a sentence names.
const fewShown = 5

// few names messages in a sentence, by the ends of their ids as lists show them.
func few(ids []string) string {
	var b strings.Builder
	for i, id := range ids {
		if i == fewShown {
			b.WriteString(" and " + view.Count(int64(len(ids)-i)) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("…" + id[max(len(id)-idShown, 0):])
	}
	return b.String()
}

// idShown is how many characters of an id a list shows.
const idShown = 12

func agree(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
