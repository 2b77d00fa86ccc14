package queues

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/delivery"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/queues/bulk"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// inFlight is the state of messages that are being delivered, and settled that of those that left the queue.
const (
	inFlight = "in_flight"
	settled  = "settled"
)

func peek() *cobra.Command {
	var f choice
	var state, filter string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "peek NAME",
		Short: "Look at the messages of a queue without taking them",
		Long: `peek shows the messages of a queue in the order in which they become visible. It
takes none: deliveries go on, and no retry is spent. Of a dead letter it shows
where it came from and why it failed. --filter chooses by state: id: age>
attempts>= size> source: reason: body.NAME: and "text" in the body; all of them
have to match, and - before one turns it around. --state settled shows those
that left the queue by a delivery, the last ones first: how, and in which batch.`,
		Example: "  runlot queue peek jobs --filter 'age>5m body.user.id:42 -state:delayed'\n  runlot queue peek jobs --limit 5\n  runlot queue peek jobs-dead --json | jq '.[].body'\n  runlot queue peek jobs --state delayed",
		Args:    command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			if limit < 1 {
				return command.Usage("--limit takes a number of 1 or more, not %d", limit)
			}
			if state == "in-flight" {
				state = inFlight
			}
			if state != "" && state != "visible" && state != "delayed" && state != inFlight && state != settled {
				return command.Usage("--state takes visible, delayed, in-flight or settled, not %s", command.Quoted(state))
			}
			if state == settled && filter != "" {
				return command.Usage("--state settled and --filter exclude each other: bodies are not kept")
			}
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			if state != "" && filter != "" {
				filter += " state:" + state
			}
			list, more, err := look(c, api, q, state, filter, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			talk := terminal.New(command.Stderr(c))
			if len(list) == 0 {
				switch {
				case filter != "":
					talk.Printf("No message of %s matches.\n", q.Name)
				case state == settled:
					talk.Printf("No message is recorded that left %s; records are kept for 7 days.\n", q.Name)
				default:
					talk.Printf("There is nothing in %s.\n", q.Name)
				}
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(list))
			head, row := []string{"ID", "STATE", "TRIES", "SENT", "SIZE", "BODY"}, messageRow
			if state == settled {
				head, row = []string{"ID", "LEFT", "TRIES", "BATCH"}, settledRow
			}
			for i := range list {
				rows = append(rows, row(&list[i]))
			}
			terminal.New(command.Stdout(c)).Table(head, rows)
			if more {
				talk.Printf("There are more; --limit shows them.\n")
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().StringVar(&state, "state", "", "only in this `STATE`: visible, delayed, in-flight\nor settled")
	c.Flags().StringVar(&filter, "filter", "", "only those that match this `FILTER`")
	c.Flags().IntVar(&limit, "limit", 10, "at most `N`")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// settledRow shows how a message left its queue.
func settledRow(m *client.Message) []terminal.Cell {
	left, batch := m.State, ""
	if s := m.Settled; s != nil {
		left, batch = s.As+" "+age(s.At), s.Batch+"\nwaited "+span.Text(bulk.Waited(m))
	}
	if m.Reason != "" {
		batch += "\n" + terminal.Clean(m.Reason)
	}
	return remote.Cells(m.ID, left, strconv.Itoa(m.Attempts), batch)
}

// look reads up to limit messages, and reports whether there are more.
func look(c *cobra.Command, api *client.Client, q *client.Queue, state, filter string, limit int) (list []client.Message, more bool, err error) {
	list = []client.Message{}
	for cursor := ""; len(list) < limit; {
		var page *client.Messages
		if rows := min(limit-len(list), queue.PeekRows); filter == "" {
			page, err = api.Peek(c.Context(), q.Database, q.Name, state, cursor, rows)
		} else {
			page, err = api.Search(c.Context(), q.Database, q.Name, filter, cursor, rows)
		}
		if err != nil {
			return nil, false, err
		}
		list = append(list, page.Items...)
		if cursor = page.Next; cursor == "" {
			return list, false, nil
		}
	}
	return list, true, nil
}

func messageRow(m *client.Message) []terminal.Cell {
	const longest = 400
	state := m.State
	switch state {
	case inFlight:
		state = "in flight"
	case "delayed":
		state = "in " + span.Text(time.Until(m.Visible).Round(time.Second))
	}
	text := string(m.Body)
	switch m.Encoding {
	case "text":
		_ = json.Unmarshal(m.Body, &text) // it is a string
	case "base64":
		text = fmt.Sprintf("%s, %s", m.Format, remote.Size(int64(m.Size)))
	}
	text = terminal.Cut(terminal.Clean(text), longest)
	if m.Wait != nil && m.Wait.Cause != delivery.Sent {
		text += "\n" + terminal.Cut(bulk.Why(m.Wait), longest)
	}
	if m.Source != "" {
		text += "\nfrom " + m.Source + ": " + terminal.Cut(terminal.Clean(m.Reason), longest)
	}
	return remote.Cells(m.ID, state, strconv.Itoa(m.Attempts), age(m.Sent), remote.Size(int64(m.Size)), text)
}

func send() *cobra.Command {
	var f choice
	var delay time.Duration
	var asText, asLines bool
	c := &cobra.Command{
		Use:   "send NAME BODY|-",
		Short: "Send a message to a queue",
		Long: `send stores a message with a JSON body and returns when it is committed. For -
the body comes from standard input; with --json-lines each line of it is a
message, and up to 100 of them are stored at a time, all or none.`,
		Example: `  runlot queue send jobs '{"url": "https://example.com"}'
  runlot queue send jobs --text 'good morning' --delay 10m
  runlot queue send jobs - --json-lines < jobs.jsonl`,
		Args: command.Args(2, 2, "the name of a queue and a body"),
		RunE: func(c *cobra.Command, given []string) error {
			switch {
			case asText && asLines:
				return command.Usage("--text and --json-lines exclude each other")
			case asLines && given[1] != "-":
				return command.Usage("--json-lines reads standard input: give - as the body")
			case delay < 0 || delay > queue.MaxDelay:
				return command.Usage("--delay takes a time of 0 to %s, not %s", span.Text(queue.MaxDelay), span.Text(delay))
			}
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			draft := func(body []byte) client.Draft {
				return client.Draft{Body: body, ContentType: "json", DelaySeconds: delay.Seconds()}
			}
			if asLines {
				return sendLines(c, api, q, draft)
			}
			body := []byte(given[1])
			if given[1] == "-" {
				if body, err = io.ReadAll(io.LimitReader(command.Stdin(c), queue.MaxAPIBody)); err != nil {
					return fault.New(fault.Environment, "body_read", "the body cannot be read from standard input").WithCause(err)
				}
			}
			d := draft(body)
			switch {
			case asText:
				d.ContentType = "text"
				if d.Body, err = json.Marshal(string(body)); err != nil {
					return err
				}
			case !json.Valid(body):
				return command.Usage("the body is no JSON; --text sends it as it is")
			}
			if _, err := api.Send(c.Context(), q.Database, q.Name, []client.Draft{d}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Sent to %s\n", q.Name)
			return err
		},
	}
	f.flags(c)
	c.Flags().DurationVar(&delay, "delay", 0, "`TIME` before it can be delivered, like 90s or 2h\n")
	c.Flags().BoolVar(&asText, "text", false, "the body is text, not JSON")
	c.Flags().BoolVar(&asLines, "json-lines", false, "each line of standard input is a message")
	return c
}

// sendLines sends each line of standard input, in groups that a call takes.
func sendLines(c *cobra.Command, api *client.Client, q *client.Queue, draft func([]byte) client.Draft) error {
	lines := bufio.NewScanner(command.Stdin(c))
	lines.Buffer(nil, queue.MaxAPIBody)
	most := queue.LimitsOf(queue.Wrangler).BatchBytes
	var group []client.Draft
	size, sent, line := 0, 0, 0
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		if _, err := api.Send(c.Context(), q.Database, q.Name, group); err != nil {
			if e, ok := errors.AsType[*client.Error](err); ok && sent > 0 {
				e.Message += fmt.Sprintf(" (%s before it are sent)", plural(int64(sent)))
			}
			return err
		}
		sent += len(group)
		group, size = nil, 0
		return nil
	}
	for lines.Scan() {
		line++
		text := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(text) == 0 {
			continue
		}
		if !json.Valid(text) {
			return command.Usage("line %d of standard input is no JSON; %s before it are sent", line, plural(int64(sent)))
		}
		if len(group) == queue.MaxSendBatch || size+len(text) > most {
			if err := flush(); err != nil {
				return err
			}
		}
		group, size = append(group, draft(text)), size+len(text)
	}
	if err := lines.Err(); err != nil {
		return fault.New(fault.Environment, "body_read", "standard input cannot be read; %s are sent", plural(int64(sent))).WithCause(err)
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(command.Stdout(c), "Sent %s to %s\n", plural(int64(sent)), q.Name)
	return err
}

// plural is a number of messages.
func plural(n int64) string { return terminal.Plural(int(n), "message") }
