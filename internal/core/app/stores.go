package app

// KVNamespace is a binding in env to a KV namespace.
type KVNamespace struct {
	Binding string `json:"binding"`
	// Namespace is its identity: bindings of one identity share it, in one app and across apps. It is never "".
	Namespace string `json:"namespace"`
}

// R2Bucket is a binding in env to an R2 bucket.
type R2Bucket struct {
	Binding string `json:"binding"`
	// Bucket is its name: bindings of one name share it, in one app and across apps. It is never "".
	Bucket string `json:"bucket"`
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
	for i := range m.R2Buckets {
		stores = append(stores, Store{m.R2Buckets[i].Binding, "R2 bucket", m.R2Buckets[i].Bucket, "R2Bucket"})
	}
	if m.DurableObjects != nil {
		for _, b := range m.DurableObjects.Bindings {
			stores = append(stores, Store{b.Binding, "Durable Object", b.Class, "DurableObjectNamespace"})
		}
	}
	return stores
}
