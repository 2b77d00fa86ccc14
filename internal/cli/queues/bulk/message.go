package bulk

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/delivery"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/span"
)

// whole is a message with its history, as JSON has it. Message is nil when the queue does not hold it any more.
type whole struct {
	Message *client.Message `json:"message"`
	History *client.History `json:"history"`
}

// Message shows one message whole.
func Message(f Chooser) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "message NAME ID",
		Short: "Show all about a message",
		Long: `message shows the state of a message and until when it lasts, its whole body,
and the batches in which it was delivered, as far as they are recorded; also of
a message that has left the queue.`,
		Example: "  runlot queue message jobs-dead 5f0c6b2a9d1e4f00000190c5e8a00001",
		Args: func(c *cobra.Command, given []string) error {
			if len(given) != 2 {
				return command.Usage("%s needs the name of a queue and the id of a message", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.Open(c.Context(), given[0])
			if err != nil {
				return err
			}
			m, err := api.Message(c.Context(), q.Database, q.Name, given[1])
			if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || e.Status != http.StatusNotFound) {
				return err
			}
			h, historyErr := api.History(c.Context(), q.Database, q.Name, given[1])
			switch {
			case historyErr != nil:
				return historyErr
			case err != nil && len(h.Items) == 0:
				return err
			case asJSON:
				return command.JSON(c, whole{m, h})
			}
			out := terminal.New(command.Stdout(c))
			if m != nil {
				describe(out, m)
			} else {
				out.Printf("%s is not in %s any more.\n", given[1], q.Name)
			}
			showHistory(out, h)
			return nil
		},
	}
	f.Flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// labelWidth is the room for the names of lines, in columns.
const labelWidth = 12

// describe writes all but the history.
func describe(out *terminal.Output, m *client.Message) {
	state := "visible since " + remote.Clock(m.Visible)
	switch {
	case m.State == "delayed":
		state = fmt.Sprintf("delayed until %s, in %s", remote.Clock(m.Visible), span.Text(time.Until(m.Visible).Round(time.Second)))
	case m.State == "in_flight" && m.Leased != nil:
		state = "in flight since " + remote.Clock(*m.Leased) + ", " + remote.Ago(*m.Leased)
	case m.Settled != nil:
		state = m.Settled.As + " at " + remote.Clock(m.Settled.At) + ", " + remote.Ago(m.Settled.At)
	}
	lines := [][2]string{
		{"Message", m.ID},
		{"State", state},
		{"Sent", remote.Clock(m.Sent) + ", " + remote.Ago(m.Sent)},
		{"Attempts", strconv.Itoa(m.Attempts)},
	}
	if m.Wait != nil {
		lines = append(lines, [2]string{"Waits", Why(m.Wait)})
	}
	if l := m.Lease; l != nil {
		who := "pulled over HTTP"
		if l.App != "" {
			who = fmt.Sprintf("version %.8s of %s, in a batch of %d; delivery %s", l.Version, l.App, l.Messages, l.Delivery)
		}
		lines = append(lines, [2]string{"Held by", who}, [2]string{"Lease", "until " + remote.Clock(l.Until)})
	}
	if m.Losses > 0 {
		lines = append(lines, [2]string{"Lost", fmt.Sprintf("%d times in a row its process died", m.Losses)})
	}
	if m.Source != "" {
		lines = append(lines, [2]string{"Came from", m.Source})
	}
	if m.Reason != "" {
		lines = append(lines, [2]string{"Failed", terminal.Clean(m.Reason)})
	}
	if s := m.Settled; s != nil {
		lines = append(lines, [2]string{"Waited", span.Text(Waited(m)) + " until its last delivery"}, [2]string{"Batch", s.Batch}, [2]string{"Body", "not kept"})
	} else {
		lines = append(lines, [2]string{"Body", m.Format + ", " + remote.Size(int64(m.Size))})
	}
	for _, line := range lines {
		for n, part := range out.Fold(line[1], labelWidth) {
			label := line[0]
			if n > 0 {
				label = ""
			}
			out.Printf("%s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-*s", labelWidth, label)), part)
		}
	}
	if m.Settled == nil {
		out.Printf("%s", body(m))
	}
}

// Why says in words why a message is delayed.
func Why(w *delivery.Wait) string {
	text := map[string]string{
		delivery.Sent: "it was sent with a delay", delivery.Asked: "the handler asked for a retry", delivery.Failed: "back-off after a failure",
		delivery.Timeout: "back-off after a handler that did not finish in time", delivery.Lost: "back-off after its process ended",
		delivery.Errored: "back-off until the handler can run",
	}[w.Cause]
	if w.Reason != "" {
		text += ": " + terminal.Clean(w.Reason)
	}
	return text
}

// Waited is the time from when a message was sent until its last delivery began.
func Waited(m *client.Message) time.Duration {
	return max(0, m.Settled.Delivered.Sub(m.Sent)).Round(time.Millisecond)
}

// body shows a body in lines: JSON indented, text as it is, and bytes with their numbers.
func body(m *client.Message) string {
	var text string
	switch m.Encoding {
	case "text":
		_ = json.Unmarshal(m.Body, &text) // it is a string
	case "base64":
		_ = json.Unmarshal(m.Body, &text)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			text = strings.TrimSuffix(hex.Dump(raw), "\n")
		}
	default:
		var b bytes.Buffer
		text = string(m.Body)
		if json.Indent(&b, m.Body, "", "  ") == nil {
			text = b.String()
		}
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("  " + terminal.Clean(line) + "\n")
	}
	return b.String()
}

func showHistory(out *terminal.Output, h *client.History) {
	if len(h.Items) > 0 {
		rows := make([][]terminal.Cell, 0, len(h.Items))
		for i := range h.Items {
			b := &h.Items[i]
			why := b.Reason
			if b.Error != nil {
				why = b.Error.Name + ": " + b.Error.Message
				if b.Error.Location != "" {
					why += " at " + b.Error.Location
				}
			}
			for _, fate := range b.Fates {
				rows = append(rows, remote.Cells(b.ID, remote.Ago(b.Start), b.Outcome, fmt.Sprintf("%s, attempt %d", fate.Kind, fate.Attempt), terminal.Clean(why)))
			}
		}
		out.Table([]string{"BATCH", "BEGAN", "OUTCOME", "FATE", "WHY"}, rows)
	}
	for _, missing := range h.Missing {
		out.Printf("%s\n", out.Paint(terminal.Dim, "Not recorded: "+missing))
	}
}
