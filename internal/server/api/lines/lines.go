// Package lines answers a call with lines of JSON that tell of the progress of its work.
package lines

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/runlot/runlot/client"
)

// Work is what takes its time. It may call progress as often as it likes, which never waits.
type Work func(ctx context.Context, progress func(client.Progress)) (client.Progress, error)

// Stream answers with the progress of work, whose context ends when the caller goes away. When the work has ended, ended
// is called once, with what was done, and gives the words for its error.
func Stream(work Work, ended func(ctx context.Context, done client.Progress, err error) *client.Error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		out := http.NewResponseController(w)
		// The bound of the request's arrival would end the call otherwise. A writer that has none needs no such care.
		_ = out.SetReadDeadline(time.Time{})
		hc.SetHeader("Content-Type", "application/x-ndjson")
		hc.SetStatus(http.StatusOK)
		write := func(line client.ProgressLine) {
			// A caller that has gone away ends the context.
			if json.NewEncoder(w).Encode(line) == nil {
				_ = out.Flush()
			}
		}
		ctx := hc.Context()
		done, err := follow(ctx, work, func(p client.Progress) { write(client.ProgressLine{Progress: &p}) })
		said := ended(ctx, done, err)
		if err != nil {
			write(client.ProgressLine{Error: said})
			return
		}
		write(client.ProgressLine{Done: &done})
	}}
}

// follow does the work and shows the newest progress: a reader that is slow misses some, and delays nothing.
func follow(ctx context.Context, work Work, show func(client.Progress)) (done client.Progress, err error) {
	latest, ended := make(chan client.Progress, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done, err = work(ctx, func(p client.Progress) {
			select {
			case <-latest:
			default:
			}
			latest <- p
		})
	}()
	for {
		select {
		case p := <-latest:
			show(p)
		case <-ended:
			return done, err
		}
	}
}
