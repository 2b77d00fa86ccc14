package rules

import (
	"strings"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
)

// KV reads the declarations of KV namespaces of one dialect.
type KV struct {
	// Key is the key of the namespace's identity.
	Key string
	// Keys are keys that only this dialect has; Entry reads them.
	Keys  []string
	Entry func(entry source.Value)
	// Unnamed is the identity for a binding that names none; nil says that it has to.
	Unnamed func(binding string) string
}

// Read reads the list of namespaces. An entry without a usable binding or identity is left out: it has been reported.
func (k *KV) Read(v source.Value, names Names, m *app.Manifest) {
	for _, entry := range v.Items() {
		if !entry.IsObject() {
			continue
		}
		entry.Allow(append([]string{bindingKey, k.Key}, k.Keys...)...)
		n := app.KVNamespace{Binding: names.Binding(entry, "CACHE")}
		n.Namespace, _ = entry.Get(k.Key).Text()
		if !entry.Get(k.Key).Exists() {
			if k.Unnamed == nil {
				entry.Refusef("add "+entry.Line(k.Key, `"my-cache"`), "`%s`, the namespace's name, is missing", k.Key)
			} else if n.Binding != "" {
				n.Namespace = k.Unnamed(n.Binding)
			}
		}
		if k.Entry != nil {
			k.Entry(entry)
		}
		if n.Binding != "" && n.Namespace != "" {
			m.KVNamespaces = append(m.KVNamespaces, n)
		}
	}
}

// Provisioned is the name that wrangler gives what an app binds without naming it.
func Provisioned(appName, binding string) string {
	return appName + "-" + strings.ReplaceAll(strings.ToLower(binding), "_", "-")
}
