package app

import "slices"

// ModuleKind is how a module of a bundle is loaded.
type ModuleKind string

// The kinds of module.
const (
	ESModule ModuleKind = "esModule"
	Text     ModuleKind = "text"
	Data     ModuleKind = "data"
	Wasm     ModuleKind = "wasm"
)

// Module is one file of a bundle. Name is a plain file name; the other modules import it as "./" + Name.
type Module struct {
	Name string
	Kind ModuleKind
	Body []byte
}

// Bundle is the built code of one version. Modules[0] is the main module.
type Bundle struct {
	Modules []Module
	// ServiceWorker is set when the code registers its handlers with addEventListener instead of exporting them. The one
	// module is then a classic script, not an ES module.
	ServiceWorker bool
	// SourceMap is the main module's source map (version 3); nil when there is none. Sources are relative to the project folder.
	SourceMap []byte
	// Inputs are the files that went into the bundle, absolute, for a watcher.
	Inputs []string
	// Warnings are what the build noticed, one text each with file:line:column.
	Warnings []string
}

// Handlers is what a probe found in a bundle: for each exported entrypoint ("default" or its name) the handlers it has.
type Handlers struct {
	Exports map[string]Export
	// ServiceWorker is set when the code uses addEventListener instead of exports; its handlers are under "default".
	ServiceWorker bool
}

// Export is one export of the main module.
type Export struct {
	// Kind is "object", "WorkerEntrypoint", "DurableObject", "WorkflowEntrypoint" or "class".
	Kind     string
	Handlers []string
}

// Has reports whether the default entrypoint has this handler.
func (h *Handlers) Has(handler string) bool {
	return slices.Contains(h.Exports["default"].Handlers, handler)
}
