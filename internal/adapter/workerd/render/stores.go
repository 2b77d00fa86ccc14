package render

import (
	"fmt"
	"strings"

	"github.com/runlot/runlot/internal/adapter/workerd/objects"
	"github.com/runlot/runlot/internal/core/app"
)

// stores renders the services that the bindings of stores call; host is the address of the host's socket as a literal.
func (r *Files) stores(w *Worker, host string) {
	m := w.Manifest
	for i := range m.KVNamespaces {
		r.printf("  (name = \"kv-%d\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = %s)]))),\n",
			i, host, quote(KVHeader), quote(m.KVNamespaces[i].Binding))
	}
	for i := range m.R2Buckets {
		r.printf("  (name = \"r2-%d\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = %s)]))),\n",
			i, host, quote(R2Header), quote(m.R2Buckets[i].Binding))
	}
	if hasClasses(m) {
		r.printf("  (name = \"objects\", disk = (path = %s, writable = true)),\n", quote(w.Objects))
	}
}

func hasClasses(m *app.Manifest) bool {
	return m.DurableObjects != nil && len(m.DurableObjects.Classes) > 0
}

// objectClasses renders the classes of Durable Objects and where they store.
func objectClasses(m *app.Manifest) string {
	if !hasClasses(m) {
		return ""
	}
	list := make([]string, len(m.DurableObjects.Classes))
	for i, c := range m.DurableObjects.Classes {
		list[i] = fmt.Sprintf("(className = %s, uniqueKey = %s, enableSql = %t)", quote(c.Class), quote(objects.UniqueKey(m.Name, c.Key)), c.SQL)
	}
	return ",\n   durableObjectNamespaces = [" + strings.Join(list, ", ") + "], durableObjectStorage = (localDisk = \"objects\")"
}

// storeBindings renders the bindings of stores in env, which are workerd's own.
func (r *Files) storeBindings(m *app.Manifest) {
	for i := range m.KVNamespaces {
		r.printf("    (name = %s, kvNamespace = \"kv-%d\"),\n", quote(m.KVNamespaces[i].Binding), i)
	}
	for i := range m.R2Buckets {
		r.printf("    (name = %s, r2Bucket = \"r2-%d\"),\n", quote(m.R2Buckets[i].Binding), i)
	}
	if m.DurableObjects != nil {
		for _, b := range m.DurableObjects.Bindings {
			r.printf("    (name = %s, durableObjectNamespace = %s),\n", quote(b.Binding), quote(b.Class))
		}
	}
}
