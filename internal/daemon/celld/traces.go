package celld

import (
	"context"

	"github.com/runlot/runlot/internal/adapter/otlp"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
)

// openTracer opens what the settings ask for. closing it delivers the last spans, within a bound.
func openTracer(ctx context.Context, s *Settings) (t trace.Tracer, closing func(), err error) {
	if s.TraceEndpoint == "" {
		return trace.None, func() {}, nil
	}
	opened, err := otlp.Open(ctx, otlp.Options{Endpoint: s.TraceEndpoint, Share: s.TraceShare, Version: s.Version, Log: s.Log})
	if err != nil {
		return nil, nil, err
	}
	return opened, func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.TraceExportTime)
		defer cancel()
		if err := opened.Close(closeCtx); err != nil {
			s.Log.Warn("the last spans were not delivered to the collector", "error", err)
		}
	}, nil
}
