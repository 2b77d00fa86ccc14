// Package otlp sends spans to a collector of OpenTelemetry, by OTLP over HTTP.
package otlp

import (
	"context"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
)

// Options are what a Tracer needs.
type Options struct {
	// Endpoint is the base address of the collector, as http://127.0.0.1:4318; "/v1/traces" is added to one without a path.
	Endpoint string
	// Share is the part of the traces that begin here and are kept, from 0 to 1. Those that a caller began follow its choice.
	Share float64
	// Version is that of the program.
	Version string
	Log     *slog.Logger
}

// Tracer implements trace.Tracer. Spans that the collector does not take in time are dropped: nothing waits for them.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
}

// CheckEndpoint refuses what is no address of a collector.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fault.New(fault.Invalid, "trace_endpoint", "%q is no address of an OpenTelemetry collector", text).
			WithHint("it looks like http://127.0.0.1:4318; headers that it asks for go into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// Open returns a tracer. The caller closes it. Further settings of the exporter, such as headers and certificates, are those of
// OpenTelemetry's environment variables.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if err := CheckEndpoint(o.Endpoint); err != nil {
		return nil, err
	}
	endpoint, _ := url.Parse(o.Endpoint)
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.String()), otlptracehttp.WithTimeout(queue.TraceExportTime))
	if err != nil {
		return nil, fault.New(fault.Invalid, "trace_endpoint", "spans cannot be sent to %s", o.Endpoint).WithCause(err)
	}
	quiet := &complaints{log: o.Log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(quiet.handle))
	provider := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Share))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "celld"), attribute.String("service.version", o.Version))),
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(queue.TraceSpans), sdk.WithExportTimeout(queue.TraceExportTime)),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: queue.TraceText, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: queue.MaxSendBatch,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("runlot")}, nil
}

// complaints are what the exporter says of itself, at most one a minute.
type complaints struct {
	log  *slog.Logger
	last atomic.Int64
}

func (c *complaints) handle(err error) {
	now, last := time.Now().UnixNano(), c.last.Load()
	if now-last > int64(time.Minute) && c.last.CompareAndSwap(last, now) {
		c.log.Warn("spans were not delivered to the collector", "error", err)
	}
}

// Close delivers what waits, until ctx ends. Twice is fine.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Enabled implements trace.Tracer.
func (t *Tracer) Enabled() bool { return true }

var kinds = map[trace.Kind]api.SpanKind{
	trace.Internal: api.SpanKindInternal, trace.Server: api.SpanKindServer, trace.Producer: api.SpanKindProducer, trace.Consumer: api.SpanKindConsumer,
}

// Begin implements trace.Tracer.
func (t *Tracer) Begin(s trace.Start) trace.Span {
	ctx := context.Background()
	if s.Parent != nil {
		ctx = api.ContextWithRemoteSpanContext(ctx, spanContext(s.Parent))
	}
	options := []api.SpanStartOption{api.WithSpanKind(kinds[s.Kind]), api.WithAttributes(attributes(s.Attributes)...)}
	if !s.At.IsZero() {
		options = append(options, api.WithTimestamp(s.At))
	}
	for _, link := range s.Links {
		if link != nil {
			options = append(options, api.WithLinks(api.Link{SpanContext: spanContext(link)}))
		}
	}
	_, span := t.tracer.Start(ctx, s.Name, options...) //nolint:spancheck // the caller ends it
	return &running{span}                              //nolint:spancheck // as above
}

func spanContext(c *trace.Context) api.SpanContext {
	return api.NewSpanContext(api.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, TraceFlags: api.TraceFlags(c.Flags), Remote: true})
}

func attributes(list []trace.Attribute) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(list))
	for _, a := range list {
		switch v := a.Value.(type) {
		case string:
			out = append(out, attribute.String(a.Key, v))
		case int64:
			out = append(out, attribute.Int64(a.Key, v))
		case bool:
			out = append(out, attribute.Bool(a.Key, v))
		case []string:
			out = append(out, attribute.StringSlice(a.Key, v))
		}
	}
	return out
}

// running implements trace.Span.
type running struct{ span api.Span }

// Context implements trace.Span.
func (r *running) Context() *trace.Context {
	c := r.span.SpanContext()
	if !c.IsSampled() {
		return nil
	}
	return &trace.Context{TraceID: c.TraceID(), SpanID: c.SpanID(), Flags: byte(c.TraceFlags())}
}

// End implements trace.Span.
func (r *running) End(err error, list ...trace.Attribute) {
	r.span.SetAttributes(attributes(list)...)
	if err != nil {
		r.span.SetStatus(codes.Error, err.Error())
	}
	r.span.End()
}
