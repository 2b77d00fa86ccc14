// Package render writes what a workerd process is started on: its configuration as Cap'n Proto text, the modules of the
// app, and the JavaScript modules of the product that stand around them. It starts nothing.
package render

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

const (
	// ConfigFile is the file of a folder of Files that workerd is started with; its constant is called config.
	ConfigFile = "config.capnp"
	// BindingHeader is the header of every request that comes from a queue binding, with the binding's name. User code
	// cannot set it.
	BindingHeader = "Runlot-Binding"
	// D1Header is the header of every request that comes from a D1 binding, with the binding's name. User code cannot set
	// it.
	D1Header = "Runlot-D1"
	// KVHeader is the header of every request that comes from a KV binding, with the binding's name. User code cannot set
	// it.
	KVHeader = "Runlot-Kv"
	// R2Header is the header of every request that comes from an R2 binding, with the binding's name. User code cannot set
	// it.
	R2Header = "Runlot-R2"
	// TailHeader marks the posts of the tail and of the front. User code cannot set it.
	TailHeader = "Runlot-Tail"
	// EntryModule stands before the user's main module.
	EntryModule = "runlot-entry.mjs"
	// ProbeModule reads the exports in a probe.
	ProbeModule = "runlot-probe.mjs"
	// InternalModules begins the names of the modules that are behind the bindings of env.
	InternalModules = "runlot-internal:"
	// toolDate is the compatibility date of the workers of this package.
	toolDate = "2026-11-17"
	// codesDefault is the compatibility date from which on send errors show their code without a flag.
	codesDefault = "2026-03-12"
	// announceBinding is the global of service workers through which a delivery is announced.
	announceBinding = "__runlot_announce"
	// announcePrefix begins a service-worker script. It has no line break, so that only the columns of the first line move.
	announcePrefix = "{const announce=globalThis." + announceBinding + ";delete globalThis." + announceBinding + ";announce()}"
	// newRegistry is the flag without which a service worker cannot have the wrapped bindings of this package.
	newRegistry = "new_module_registry"
	// registryDefault is the compatibility date from which on they have it without the flag.
	registryDefault = "2026-11-17"
	// noWait is the flag with which the trace of a delivery lacks what its handler throws, and ends long after its result.
	noWait = "queue_consumer_no_wait_for_wait_until"
)

// A service-worker script is probed between these two: the first notes its listeners instead of adding them, the last
// adds the one that answers. The first has no line break, so that only the columns of the first line move.
const (
	probePrefix = `{const types=new Set(),add=globalThis.addEventListener;globalThis.addEventListener=(type)=>{types.add(type)};` +
		`globalThis.__runlot_probe=()=>add("fetch",(event)=>event.respondWith(Response.json({default:{kind:"object",handlers:[...types]}})))}`
	probeSuffix = "\n;__runlot_probe();\n"
)

//go:embed js/*.mjs
var scripts embed.FS

// Worker is what a process runs, as far as its configuration says it.
type Worker struct {
	Manifest *app.Manifest
	Bundle   *app.Bundle
	// Secrets are values of env that no file may hold; they win over a variable of the same name. A value has at most
	// queue.MaxSecret bytes and no NUL.
	Secrets map[string]string
	// Database is what env.<Manifest.DatabaseBinding> connects to; nil leaves the binding out.
	Database *Database
	// AllowPrivate lets the worker reach private and loopback addresses too, not only public ones.
	AllowPrivate bool
	// Public says that the worker takes requests at the socket "http", which the process inherits.
	Public bool
	// Develop puts the front before the public socket, which tells of requests and answers with errors.
	Develop bool
	// Trace, unless it is "", has producers say which code sends: their messages begin with it then. No message of a user
	// may begin so, and it is 26 letters and digits that the worker does not know.
	Trace string
	// HostSocket is the path of the unix socket that takes the calls of the queue bindings and the posts of the tail.
	HostSocket string
	// Objects is the folder of what Durable Objects store; it exists. "" is right for a worker without them.
	Objects string
	// HeapMiB bounds the heap of the process.
	HeapMiB int
}

// Database is a PostgreSQL database that a worker may connect to.
type Database struct {
	// Network is "unix" or "tcp"; Address is the path of the socket, or host:port.
	Network, Address     string
	Name, User, Password string
}

// Files are a configuration on its way to a folder.
type Files struct {
	// Env are the variables that the process needs, as NAME=value; they hold what no file may.
	Env []string
	// Prefix is how many characters stand before a service-worker script on its first line.
	Prefix int

	files map[string][]byte
	text  strings.Builder
}

// Write puts the files into dir, readable by the owner only.
func (r *Files) Write(dir string) error {
	r.files[ConfigFile] = []byte(r.text.String())
	for name, body := range r.files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			return fmt.Errorf("configuration of a worker process: %w", err)
		}
	}
	return nil
}

func (r *Files) printf(format string, args ...any) { fmt.Fprintf(&r.text, format, args...) }

// script adds a file of this package and returns its embed expression.
func (r *Files) script(name string) string {
	body, err := scripts.ReadFile("js/" + name)
	if err != nil {
		panic("render: an embedded script is missing: " + err.Error())
	}
	return r.file(name, body)
}

// file adds a file and returns the expression that embeds it.
func (r *Files) file(name string, body []byte) string {
	r.files[name] = body
	return "embed " + quote(name)
}

// quote writes s as a Cap'n Proto text literal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Process renders the configuration of a worker process, whose sockets are "router" for deliveries and "http" for the
// public. What has no rendering is a fault of kind Invalid or Limit.
func Process(w *Worker) (*Files, error) {
	r := &Files{files: map[string][]byte{}}
	if err := checkBundle(w.Bundle); err != nil {
		return nil, err
	}
	host := quote("unix:" + w.HostSocket)
	r.printf("using Workerd = import \"/workerd/workerd.capnp\";\nconst config :Workerd.Config = (\n services = [\n")
	if w.AllowPrivate {
		r.printf("  (name = \"internet\", network = (allow = [\"public\", \"private\"], deny = [\"unix\", \"unix-abstract\"], tlsOptions = (trustBrowserCas = true))),\n")
	}
	r.printf("  (name = \"worker\", worker = (%s,\n", r.code(w.Bundle, handlers(w)))
	r.printf("   compatibilityDate = %s, compatibilityFlags = %s, tails = [\"tail\"]%s%s,\n   bindings = [\n",
		quote(w.Manifest.CompatibilityDate), quoteAll(flags(w.Manifest, w.Bundle)), stream(w.Manifest), objectClasses(w.Manifest))
	if err := r.bindings(w); err != nil {
		return nil, err
	}
	r.printf("   ])),\n")
	for i := range w.Manifest.Producers {
		r.printf("  (name = \"queue-%d\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = %s)]))),\n",
			i, host, quote(BindingHeader), quote(w.Manifest.Producers[i].Binding))
	}
	for i := range w.Manifest.D1Databases {
		r.printf("  (name = \"d1-%d\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = %s)]))),\n",
			i, host, quote(D1Header), quote(w.Manifest.D1Databases[i].Binding))
	}
	r.stores(w, host)
	if bound(w) {
		address := w.Database.Address
		if w.Database.Network == "unix" {
			address = "unix:" + address
		}
		r.printf("  (name = \"database\", external = (address = %s, tcp = ())),\n", quote(address))
	}
	r.printf("  (name = \"router\", worker = (modules = [(name = \"router.mjs\", esModule = %s)], compatibilityDate = %s,\n"+
		"   compatibilityFlags = [\"service_binding_extra_handlers\"],\n"+
		"   bindings = [(name = \"WORKER\", service = \"worker\"), (name = \"CHECK\", service = (name = \"router\", entrypoint = \"check\")), (name = \"TAIL\", service = \"tail\")])),\n",
		r.script("router.mjs"), quote(toolDate))
	var awaited string
	if w.Develop {
		awaited = ", (name = \"AWAITED\", text = \"1\")"
	}
	r.printf("  (name = \"tail\", worker = (modules = [(name = \"tail.mjs\", esModule = %s)], compatibilityDate = %s,\n"+
		"   bindings = [(name = \"HOST\", service = \"tail-host\")%s])),\n", r.script("tail.mjs"), quote(toolDate), awaited)
	if w.Develop {
		r.printf("  (name = \"front\", worker = (modules = [(name = \"front.mjs\", esModule = %s)], compatibilityDate = %s,\n"+
			"   bindings = [(name = \"WORKER\", service = \"worker\"), (name = \"HOST\", service = \"tail-host\")])),\n", r.script("front.mjs"), quote(toolDate))
	}
	r.printf("  (name = \"tail-host\", external = (address = %s, http = (injectRequestHeaders = [(name = %s, value = \"1\")]))),\n", host, quote(TailHeader))
	r.printf(" ],\n sockets = [")
	if w.Public {
		service := "worker"
		if w.Develop {
			service = "front"
		}
		r.printf("(name = \"http\", http = (forwardedProtoHeader = \"X-Forwarded-Proto\"), service = %s), ", quote(service))
	}
	r.printf("(name = \"router\", http = (), service = \"router\")],\n v8Flags = [%s],\n", heapFlag(w.HeapMiB))
	r.printf(" extensions = [(modules = [\n")
	for _, name := range []string{"setup", "handler", "trace", "errors", "queue", "database"} {
		r.printf("  (name = %s, internal = true, esModule = %s),\n", quote(InternalModules+name), r.script(name+".mjs"))
	}
	r.printf("  (name = \"runlot:handler\", esModule = %s),\n", quote(`export { mark } from "runlot-internal:handler"; export { follow } from "runlot-internal:trace";`))
	r.printf("  (name = \"runlot:queues\", esModule = %s) ])]);\n", quote(`export { QueueLimitError } from "runlot-internal:errors";`))
	return r, nil
}

func heapFlag(mib int) string { return quote("--max-heap-size=" + strconv.Itoa(mib)) }

// bound reports whether the app's database is a binding.
func bound(w *Worker) bool { return w.Database != nil && w.Manifest.DatabaseBinding != "" }

// checkBundle refuses what has no rendering.
func checkBundle(b *app.Bundle) error {
	size := 0
	for i := range b.Modules {
		size += len(b.Modules[i].Body)
	}
	switch {
	case len(b.Modules) == 0:
		return fault.New(fault.Invalid, "bundle_empty", "the app has no module to run").WithHint("name its entry module in `main`")
	case b.ServiceWorker && len(b.Modules) > 1:
		return fault.New(fault.Invalid, "bundle_service_worker", "%s uses addEventListener and imports %s; a service worker is one script",
			b.Modules[0].Name, b.Modules[1].Name).WithHint("export the handlers instead: export default { async queue(batch, env, ctx) {} }")
	case size > queue.MaxBundle:
		return fault.New(fault.Limit, "bundle_size", "the bundle of %d bytes exceeds the limit of %d", size, queue.MaxBundle)
	}
	return nil
}

// flags returns the compatibility flags of the user's worker: errors of producers always show their code, and a service
// worker has the module registry that its bindings need.
func flags(m *app.Manifest, b *app.Bundle) []string {
	const codes = "queue_expose_error_codes"
	list := slices.DeleteFunc(slices.Clone(m.CompatibilityFlags), func(f string) bool { return f == codes || f == "no_"+codes })
	slices.Sort(list)
	list = slices.Compact(list)
	if m.CompatibilityDate < codesDefault {
		list = append(list, codes)
	}
	if b.ServiceWorker && m.CompatibilityDate < registryDefault && !slices.Contains(list, newRegistry) {
		list = append(list, newRegistry)
	}
	return list
}

// handlers is the default export of the module that stands before the user's.
func handlers(w *Worker) string {
	expression := "mark(user.default)"
	switch {
	case len(w.Manifest.Consumers) == 0:
		expression = "user.default ?? {}"
	case tells(w.Manifest):
		expression = "mark(user.default, true)"
	}
	if w.Trace != "" {
		expression = "follow(" + expression + ")"
	}
	return expression
}

// traceBindings are what a producer needs to say which code sends.
func traceBindings(w *Worker) string {
	if w.Trace == "" {
		return ""
	}
	return fmt.Sprintf(", (name = \"trace\", text = %s), (name = \"format\", text = %s)", quote(w.Trace), quote(defaultFormat(w.Manifest)))
}

// jsonDefault is the compatibility date from which on messages are JSON unless their sender says otherwise.
const jsonDefault = "2024-03-18"

func defaultFormat(m *app.Manifest) string {
	const flag = "queues_json_messages"
	switch {
	case slices.Contains(m.CompatibilityFlags, "no_"+flag):
		return "v8"
	case m.CompatibilityDate >= jsonDefault || slices.Contains(m.CompatibilityFlags, flag):
		return "json"
	}
	return "v8"
}

// tells reports whether the handlers of queues have to tell by themselves what they throw.
func tells(m *app.Manifest) bool {
	return len(m.Consumers) > 0 && slices.Contains(m.CompatibilityFlags, noWait)
}

// stream makes the tail hear of what handlers tell while their invocation goes on.
func stream(m *app.Manifest) string {
	if !tells(m) {
		return ""
	}
	return `, streamingTails = ["tail"]`
}

// code renders the modules or the script of the user's worker, with what stands around it; handlers is the expression of
// its default export.
func (r *Files) code(b *app.Bundle, handlers string) string {
	if b.ServiceWorker {
		r.Prefix = len(announcePrefix)
		return "serviceWorkerScript = " + r.file("script.js", slices.Concat([]byte(announcePrefix), b.Modules[0].Body))
	}
	main := quote("./" + b.Modules[0].Name)
	entry := fmt.Sprintf("import { follow, mark } from \"runlot:handler\";\nimport * as user from %s;\nexport * from %s;\nexport default %s;\n", main, main, handlers)
	modules := append([]string{fmt.Sprintf("(name = %s, esModule = %s)", quote(EntryModule), r.file("entry.mjs", []byte(entry)))}, r.modules(b)...)
	return "modules = [" + strings.Join(modules, ", ") + "]"
}

// modules renders each module of the bundle.
func (r *Files) modules(b *app.Bundle) []string {
	list := make([]string, len(b.Modules))
	for i := range b.Modules {
		m := &b.Modules[i]
		list[i] = fmt.Sprintf("(name = %s, %s = %s)", quote(m.Name), m.Kind, r.file("module-"+strconv.Itoa(i)+path.Ext(path.Base(m.Name)), m.Body))
	}
	return list
}

// bindings renders env.
func (r *Files) bindings(w *Worker) error {
	m := w.Manifest
	for i := range m.Producers {
		r.printf("    (name = %s, wrapped = (moduleName = \"runlot-internal:queue\", innerBindings = [(name = \"queue\", queue = \"queue-%d\"), (name = \"limit\", json = \"%d\")%s])),\n",
			quote(m.Producers[i].Binding), i, queue.MaxProducerCalls, traceBindings(w))
	}
	// The client library is workerd's own.
	for i := range m.D1Databases {
		r.printf("    (name = %s, wrapped = (moduleName = \"cloudflare-internal:d1-api\", innerBindings = [(name = \"fetcher\", service = \"d1-%d\")])),\n",
			quote(m.D1Databases[i].Binding), i)
	}
	r.storeBindings(m)
	for _, name := range slices.Sorted(maps.Keys(m.Vars)) {
		if _, ok := w.Secrets[name]; ok {
			continue
		}
		var text string
		if json.Unmarshal(m.Vars[name], &text) == nil && string(m.Vars[name]) != "null" {
			r.printf("    (name = %s, text = %s),\n", quote(name), quote(text))
		} else {
			r.printf("    (name = %s, json = %s),\n", quote(name), quote(string(m.Vars[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Secrets)) {
		variable, err := r.secret("secret "+name, w.Secrets[name])
		if err != nil {
			return err
		}
		r.printf("    (name = %s, fromEnvironment = %s),\n", quote(name), quote(variable))
	}
	if bound(w) {
		variable, err := r.secret("the database password", w.Database.Password)
		if err != nil {
			return err
		}
		r.printf("    (name = %s, wrapped = (moduleName = \"runlot-internal:database\", innerBindings = [\n"+
			"     (name = \"native\", hyperdrive = (designator = \"database\", database = %s, user = %s, password = \"\", scheme = \"postgresql\")),\n"+
			"     (name = \"password\", fromEnvironment = %s)])),\n",
			quote(m.DatabaseBinding), quote(w.Database.Name), quote(w.Database.User), quote(variable))
	}
	if w.Bundle.ServiceWorker {
		r.printf("    (name = %s, wrapped = (moduleName = \"runlot-internal:handler\", innerBindings = [(name = \"tells\", json = \"%t\")])),\n",
			quote(announceBinding), tells(m))
	}
	return nil
}

// secret puts a value into the environment of the process and returns the name of its variable.
func (r *Files) secret(what, value string) (string, error) {
	if len(value) > queue.MaxSecret {
		return "", fault.New(fault.Limit, "secret_size", "%s has %d bytes; the limit is %d", what, len(value), queue.MaxSecret)
	}
	if strings.ContainsRune(value, 0) {
		return "", fault.New(fault.Invalid, "secret_nul", "%s contains a NUL character", what).WithHint("encode it, for example in base64")
	}
	name := "RUNLOT_SECRET_" + strconv.Itoa(len(r.Env))
	r.Env = append(r.Env, name+"="+value)
	return name, nil
}

// Probe renders the configuration of a throw-away process that inspects a bundle: no bindings, no network. Its socket
// "router" answers with the exports. Errors are those of Process.
func Probe(m *app.Manifest, b *app.Bundle) (*Files, error) {
	r := &Files{files: map[string][]byte{}}
	if err := checkBundle(b); err != nil {
		return nil, err
	}
	var code string
	if b.ServiceWorker {
		code = "serviceWorkerScript = " + r.file("script.js", slices.Concat([]byte(probePrefix), b.Modules[0].Body, []byte(probeSuffix)))
		r.Prefix = len(probePrefix)
	} else {
		main := quote("./" + b.Modules[0].Name)
		entry := fmt.Sprintf("import * as user from %s;\nimport { inspect } from \"./%s\";\nexport default { fetch() { return Response.json(inspect(user)); } };\n", main, ProbeModule)
		modules := append([]string{
			fmt.Sprintf("(name = %s, esModule = %s)", quote(EntryModule), r.file("entry.mjs", []byte(entry))),
			fmt.Sprintf("(name = %s, esModule = %s)", quote(ProbeModule), r.script("probe.mjs")),
		}, r.modules(b)...)
		code = "modules = [" + strings.Join(modules, ", ") + "]"
	}
	r.printf("using Workerd = import \"/workerd/workerd.capnp\";\nconst config :Workerd.Config = (\n services = [\n"+
		"  (name = \"internet\", network = (allow = [])),\n"+
		"  (name = \"worker\", worker = (%s,\n   compatibilityDate = %s, compatibilityFlags = %s)) ],\n"+
		" sockets = [(name = \"router\", http = (), service = \"worker\")],\n v8Flags = [%s]);\n",
		code, quote(m.CompatibilityDate), quoteAll(flags(m, b)), heapFlag(queue.HeapMiB))
	return r, nil
}
