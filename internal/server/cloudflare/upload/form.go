package upload

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// metadata is what an upload says of its code.
type metadata struct {
	MainModule string            `json:"main_module"`
	BodyPart   string            `json:"body_part"` // of a service worker
	Bindings   []binding         `json:"bindings"`
	Date       string            `json:"compatibility_date"`
	Flags      []string          `json:"compatibility_flags"`
	Keep       []string          `json:"keep_bindings"`
	Notes      map[string]string `json:"annotations"`
	Migrations *migrations       `json:"migrations"`
	Assets     any               `json:"assets"`
}

// main is the name of the part that is started.
func (m *metadata) main() string {
	if m.BodyPart != "" {
		return m.BodyPart
	}
	return m.MainModule
}

// onlySecrets reports whether the script is to have no other secrets than those among the bindings. As a rule secrets stay:
// a deployment names none. Clients that delete one keep the other kind of secret, and name the secrets that stay.
func (m *metadata) onlySecrets() bool {
	return slices.Contains(m.Keep, "secret_key") && !slices.Contains(m.Keep, typeSecret)
}

// kinds are the content types of modules.
var kinds = map[string]app.ModuleKind{
	"application/javascript+module": app.ESModule, "application/javascript": app.ESModule, "text/javascript": app.ESModule,
	"text/javascript+module": app.ESModule, "text/plain": app.Text, "application/octet-stream": app.Data, "application/wasm": app.Wasm,
}

const sourceMapType = "application/source-map"

// parts reads a form, each part by its name. The names of files are not used: they are cut where they have folders.
func parts(r *http.Request, each func(name, contentType string, body []byte) error) error {
	form, err := r.MultipartReader()
	if err != nil {
		return fault.New(fault.Invalid, queue.CodeBodyInvalid, "the body is no form of several parts").WithCause(err)
	}
	for n := 0; ; n++ {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var body []byte
		if err == nil {
			body, err = io.ReadAll(part)
		}
		if err != nil {
			return fault.New(fault.Limit, "upload_size", "the upload cannot be read, or has more than %d bytes", queue.MaxUpload).WithCause(err)
		}
		if n > queue.MaxModules {
			return fault.New(fault.Limit, "upload_modules", "an upload has at most %d modules", queue.MaxModules)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")) // what it cannot read is no kind
		if err := each(part.FormName(), kind, body); err != nil {
			return err
		}
	}
}

// read reads the form of an upload.
func read(r *http.Request) (*metadata, *app.Bundle, error) {
	var about *metadata
	b := &app.Bundle{}
	err := parts(r, func(name, kind string, body []byte) (err error) {
		switch {
		case name == "metadata":
			about, err = wire.Value[metadata](body)
			return err
		case kind == sourceMapType:
			b.SourceMap = body // that of the main module; wrangler makes no other
			return nil
		case kinds[kind] == "":
			return fault.New(fault.Invalid, "upload_module_kind", "the module %s has the content type %q, which cannot run here", name, kind)
		}
		plain := strings.TrimPrefix(name, "./")
		if plain == "" || path.Base(plain) != plain || plain == ".." {
			return fault.New(fault.Invalid, "upload_module_name", "the module %s is in a folder", name).
				WithHint("let wrangler bundle the script: leave no_bundle out")
		}
		b.Modules = append(b.Modules, app.Module{Name: plain, Kind: kinds[kind], Body: body})
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case about == nil:
		return nil, nil, fault.New(fault.Invalid, queue.CodeBodyInvalid, "the upload has no part `metadata`")
	}
	b.ServiceWorker = about.BodyPart != ""
	for i := range b.Modules {
		if b.Modules[i].Name == strings.TrimPrefix(about.main(), "./") {
			b.Modules[0], b.Modules[i] = b.Modules[i], b.Modules[0]
			return about, b, nil
		}
	}
	return nil, nil, fault.New(fault.Invalid, "upload_modules", "the upload has no module %q, which its metadata names as the main one", about.main())
}
