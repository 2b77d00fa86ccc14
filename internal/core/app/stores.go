package app

// KVNamespace is a binding in env to a KV namespace.
type KVNamespace struct {
	Binding string `json:"binding"`
	// Namespace is its identity: bindings of one identity share it, in one app and across apps. It is never "".
	Namespace string `json:"namespace"`
}

// Store is a binding in env to something that is stored, whichever kind it is; for a person.
type Store struct {
	Binding string
	// Kind is what it is, like "KV namespace", and Name what it is called.
	Kind, Name string
	// Type is its type in TypeScript.
	Type string
}

// Stores are the bindings to stores, D1 databases first.
func (m *Manifest) Stores() []Store {
	stores := make([]Store, 0, len(m.D1Databases)+len(m.KVNamespaces))
	for i := range m.D1Databases {
		stores = append(stores, Store{m.D1Databases[i].Binding, "D1 database", m.D1Databases[i].Name, "D1Database"})
	}
	for i := range m.KVNamespaces {
		stores = append(stores, Store{m.KVNamespaces[i].Binding, "KV namespace", m.KVNamespaces[i].Namespace, "KVNamespace"})
	}
	if m.DurableObjects != nil {
		for _, b := range m.DurableObjects.Bindings {
			stores = append(stores, Store{b.Binding, "Durable Object", b.Class, "DurableObjectNamespace"})
		}
	}
	return stores
}
