package crons

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// fire runs a cron of the project that listens on an address, under runlot dev with a state folder elsewhere.
func fire(ctx context.Context, address, cron string, at *time.Time) (*client.Run, error) {
	query := url.Values{"cron": {cron}, "format": {"json"}}
	if at != nil {
		query.Set("time", strconv.FormatInt(at.UnixMilli(), 10))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+crons.TriggerPath+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "not_running", "nothing answers on %s", address).
			WithHint("start the project with \"runlot dev\", say where it listens with --port N, or name a celld with --server URL").WithCause(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, queue.MaxResultBody))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "run_lost", "the project ended before the run did").WithCause(err)
	}
	var answer crons.Answer
	if json.Unmarshal(text, &answer) != nil || answer.Run == "" {
		return nil, fault.New(fault.Unavailable, "run_refused", "%s answers: %s", address, terminal.Cut(terminal.Clean(strings.TrimSpace(string(text))), 200)).
			WithHint("it has to be a project under \"runlot dev\"")
	}
	r := &client.Run{
		Cron: answer.Cron, At: time.UnixMilli(answer.ScheduledTime).UTC(), Attempt: 1, Outcome: string(answer.Run), Milliseconds: answer.Milliseconds,
		Manual: true, Reason: answer.Reason,
	}
	if answer.Error != "" {
		name, message, _ := strings.Cut(answer.Error, ": ")
		r.Error = &client.Exception{Name: name, Message: message, Location: answer.Location}
	}
	return r, nil
}
