// Package settings says how a queue is delivered and kept, and who said so.
package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/server/dashboard/view"
)

// Setting is one of them.
type Setting struct {
	Name, Value string
	// Queue is the queue that the value names, and App the app; "" for neither. The page links to them.
	Queue, App string
	// By is who said so, and Operator that this was an operator, over what an app's version declares.
	By       string
	Operator bool
	// Undo is the command that takes back what the operator said; "" where there is none.
	Undo string
}

// Of are the settings of a queue.
func Of(q *client.Queue) []Setting {
	var list []Setting
	if q.PausedSince != nil {
		list = append(list, Setting{Name: "Delivery", Value: "paused since " + q.PausedSince.UTC().Format("2006-01-02 15:04 UTC"), By: operator, Operator: true, Undo: command("resume", q)})
	}
	list = append(list, consumer(q)...)
	kept := Setting{Name: "Messages are kept", Value: span(float64(q.RetentionSeconds)), By: "the usual"}
	if q.Consumer != nil && q.Consumer.App != "" {
		kept.By = declared(q.Consumer.App)
	}
	if q.RetentionSet {
		kept.By, kept.Operator, kept.Undo = operator, true, command("retention", q, "default")
	}
	return append(list, kept)
}

const operator = "an operator"

func declared(app string) string { return "the live version of " + app }

// consumer are the settings of who drains the queue.
func consumer(q *client.Queue) []Setting {
	c := q.Consumer
	if c == nil {
		return []Setting{{Name: "Consumer", Value: "none: messages wait until an app declares one", By: "no app"}}
	}
	by, isOperator := declared(c.App), false
	if c.App == "" {
		by, isOperator = operator, true
	}
	say := func(name, value string) Setting {
		return Setting{Name: name, Value: value, By: by, Operator: isOperator}
	}
	first := say("Consumer", "the handler queue() of "+c.App)
	if c.Pull {
		first.Value = "over HTTP (http_pull), with a token"
	}
	first.App = c.App
	list := []Setting{first, say("Batch size", "up to "+number(c.BatchSize, "message"))}
	if !c.Pull {
		concurrency := "by itself, as the backlog asks"
		if c.MaxConcurrency > 0 {
			concurrency = "up to " + number(c.MaxConcurrency, "handler call")
		}
		list = append(list, say("Batch timeout", span(c.BatchTimeoutSeconds)), say("Concurrency", concurrency))
	}
	list = append(list, say("Retries", "up to "+strconv.Itoa(c.MaxRetries)))
	dead := say("Dead-letter queue", "none: what fails too often is deleted")
	if c.DeadLetterQueue != "" {
		dead.Value, dead.Queue = c.DeadLetterQueue, c.DeadLetterQueue
	}
	return append(list, dead)
}

func command(verb string, q *client.Queue, rest ...string) string {
	words := append([]string{"runlot queue", verb, view.Quote(q.Name)}, rest...)
	return strings.Join(append(words, "--database", view.Quote(q.Database)), " ")
}

func number(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return view.Count(n) + " " + one + "s"
}

// span is a time in seconds, in the largest unit that it is a whole number of.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d >= u.size && d%u.size == 0 {
			return number(int(d/u.size), u.name)
		}
	}
	return fmt.Sprintf("%g seconds", seconds)
}
