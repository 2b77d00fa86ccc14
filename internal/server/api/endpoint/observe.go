package endpoint

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// middleware tells how calls are answered.
func (o Observer) middleware(ctx huma.Context, next func(huma.Context)) {
	request, w := humago.Unwrap(ctx)
	seen := &observed{ResponseWriter: w, status: http.StatusOK}
	defer func() { o(ctx.Operation().OperationID, seen.status) }()
	next(humago.NewContext(ctx.Operation(), request, seen))
}

// observed remembers the status of an answer.
type observed struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *observed) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController what it can flush.
func (w *observed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
