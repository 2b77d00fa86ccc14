package wrangler

import (
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/config/source"
)

// platform are the keys that address Cloudflare's platform, or tune the build without changing what the code does. An app
// runs the same without them.
var platform = []string{
	"account_id", "cache", "cloudchamber", "compliance_region", "dev", "first_party_worker", "keep_names", "keep_vars", "legacy_env",
	"limits", "logpush", "minify", "observability", "placement", "preserve_file_names", "preview_urls", "previews",
	"route", "routes", "secrets", "send_metrics", "streaming_tail_consumers", "tail_consumers", "upload_source_maps",
	"usage_model", "workers_dev", "zone_id",
}

const unbundled = "uploading modules without bundling them is"

// unsupported is what an app would miss at run time. inherited says that a section of env takes it from the top level.
var unsupported = []struct {
	key       string
	is        string
	inherited bool
}{
	{"agent_memory", "agent memory is", false},
	{"ai", "Workers AI is", false},
	{"ai_search", "AI Search is", false},
	{"ai_search_namespaces", "AI Search is", false},
	{"alias", "module aliases are", true},
	{"analytics_engine_datasets", "Analytics Engine is", false},
	{"artifacts", "Artifacts are", false},
	{"assets", "static assets are", true},
	{"base_dir", unbundled, true},
	{"browser", "Browser Rendering is", false},
	{"build", "a build command of the project's own is", true},
	{"containers", "containers are", false},
	{"data_blobs", "data blobs are", false},
	{"define", "replacing names at build time is", false},
	{"dispatch_namespaces", "dispatch namespaces are", false},
	{"find_additional_modules", unbundled, true},
	{"flagship", "Flagship is", false},
	{"images", "Images is", false},
	{"jsx_factory", "a JSX factory of the project's own is", true},
	{"jsx_fragment", "a JSX fragment of the project's own is", true},
	{"logfwdr", "log forwarding is", false},
	{"media", "Media Transformations are", false},
	{"mtls_certificates", "client certificates are", false},
	{"no_bundle", unbundled, true},
	{"pages_build_output_dir", "Pages projects are", true},
	{"pipelines", "Pipelines are", false},
	{"python_modules", "Python is", true},
	{"ratelimits", "rate limits are", false},
	{"rules", "module rules of the project's own are", true},
	{"secrets_store_secrets", "the Secrets Store is", false},
	{"send_email", "sending e-mail is", false},
	{"services", "service bindings are", false},
	{"site", "Workers Sites is", true},
	{"stream", "Stream is", false},
	{"text_blobs", "text blobs are", false},
	{"tsconfig", "a TypeScript configuration under another name is", true},
	{"unsafe", "unsafe bindings are", false},
	{"unsafe_hello_world", "unsafe bindings are", false},
	{"vectorize", "Vectorize is", false},
	{"version_metadata", "version metadata is", false},
	{"vpc_networks", "VPC networks are", false},
	{"vpc_services", "VPC services are", false},
	{"wasm_modules", "wasm modules as bindings are", false},
	{"websearch", "web search is", false},
	{"worker_loaders", "worker loaders are", false},
	{"workflows", "Workflows are", false},
}

// foreign are all keys that are known without being offered.
var foreign = func() []string {
	keys := slices.Clone(platform)
	for i := range unsupported {
		keys = append(keys, unsupported[i].key)
	}
	return keys
}()

func (c *compiler) refuseUnsupported() {
	for i := range unsupported {
		u := &unsupported[i]
		v := c.section.Get(u.key)
		if !v.Exists() && u.inherited {
			v = c.root.Get(u.key)
		}
		if v.IsEmpty() {
			continue
		}
		v.RefuseKeyf("remove it", "`%s`: %s not in this release", u.key, u.is)
	}
}

// warnPlatform names the keys of Cloudflare's platform in one warning, at the first of them.
func (c *compiler) warnPlatform() {
	var (
		first source.Value
		found []string
	)
	sections := []source.Value{c.root}
	if c.section.Path() != "" {
		sections = append(sections, c.section)
	}
	for _, section := range sections {
		for _, m := range section.Members() {
			name := "`" + m.Key() + "`"
			if !slices.Contains(platform, m.Key()) || slices.Contains(found, name) {
				continue
			}
			if found == nil {
				first = m
			}
			found = append(found, name)
		}
	}
	if found != nil {
		first.Warnf("", "ignored, because only Cloudflare's own platform uses them: %s", strings.Join(found, ", "))
	}
}
