package celld

import (
	"context"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/server/api"
)

var _ api.Queues = (*fleet)(nil)

// Databases implements api.Queues.
func (f *fleet) Databases() []string { return f.node.Databases() }

// Database implements api.Queues.
func (f *fleet) Database(ctx context.Context, name string) (api.Database, error) {
	b, records, err := f.node.Queues(ctx, name)
	return api.Database{Broker: b, Records: records}, err
}

// Manifests implements api.Queues.
func (f *fleet) Manifests() []*app.Manifest { return f.node.Manifests() }
