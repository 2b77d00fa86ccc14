package render

import "github.com/runlot/runlot/internal/core/app"

// stores renders the services that the bindings of stores call; host is the address of the host's socket as a literal.
func (r *Files) stores(m *app.Manifest, host string) {
	for i := range m.KVNamespaces {
		r.printf("  (name = \"kv-%d\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = %s)]))),\n",
			i, host, quote(KVHeader), quote(m.KVNamespaces[i].Binding))
	}
}

// storeBindings renders the bindings of stores in env, which are workerd's own.
func (r *Files) storeBindings(m *app.Manifest) {
	for i := range m.KVNamespaces {
		r.printf("    (name = %s, kvNamespace = \"kv-%d\"),\n", quote(m.KVNamespaces[i].Binding), i)
	}
}
