package upload

import (
	"bytes"
	"cmp"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// codeNoVersions is the code of Cloudflare that a script has no version yet.
const codeNoVersions = "10222"

// registerVersions adds the calls by which clients make a version with other secrets of the one that was uploaded last. Older
// ones fetch its code and upload it again, newer ones say only what changes.
func (s *service) registerVersions(r *wire.Router) {
	const script, worker = wire.Account + "/workers/scripts/{app}", wire.Account + "/workers/workers/{app}"
	r.Handle("GET "+script+"/content/v2", access.Read, s.content)
	r.Handle("PATCH "+script+"/secrets-bulk", access.Deploy, s.changeSecrets)
	r.Handle("PATCH "+worker+"/versions/latest", access.Deploy, s.patchLatest)
}

// contentTypes are those of the kinds of module.
var contentTypes = map[app.ModuleKind]string{
	app.ESModule: "application/javascript+module", app.Text: "text/plain", app.Data: "application/octet-stream", app.Wasm: "application/wasm",
}

// content answers with the code of a version, the live one unless ?version= names another: a form with a part for each module,
// as an upload has it, or the text of a service worker.
func (s *service) content(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.latest(c)
	if id := c.URL.Query().Get("version"); err == nil && id != "" {
		v, err = s.o.Versions.Version(c.Context(), c.PathValue("app"), id)
	}
	if err != nil {
		return err
	}
	b := v.Bundle
	if b.ServiceWorker {
		w.Header().Set("Content-Type", "application/javascript")
		_, err := w.Write(b.Modules[0].Body)
		return err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	add := func(name, kind string, text []byte) error {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", "form-data; name="+strconv.Quote(name)+"; filename="+strconv.Quote(name))
		header.Set("Content-Type", kind)
		part, err := form.CreatePart(header)
		if err == nil {
			_, err = part.Write(text)
		}
		return err
	}
	for i := range b.Modules {
		if err := add(b.Modules[i].Name, contentTypes[b.Modules[i].Kind], b.Modules[i].Body); err != nil {
			return err
		}
	}
	if b.SourceMap != nil {
		if err := add(b.Modules[0].Name+".map", sourceMapType, b.SourceMap); err != nil {
			return err
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", form.FormDataContentType())
	w.Header().Set("Cf-Entrypoint", b.Modules[0].Name)
	_, err = w.Write(body.Bytes())
	return err
}

// secret is one that is set; null in its place deletes it.
type secret struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// changes are what secrets become.
func changes(given map[string]*secret) (map[string]*string, error) {
	list := map[string]*string{}
	for name, one := range given {
		switch {
		case one == nil:
			list[name] = nil
		case one.Type != typeSecret || one.Text == nil:
			return nil, fault.New(fault.Invalid, "secret_type", "%s is no secret with a text", name).WithHint("send the type %s and a text", typeSecret)
		default:
			list[name] = one.Text
		}
	}
	return list, nil
}

// changeSecrets sets and deletes several secrets of the script at once.
func (s *service) changeSecrets(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.latest(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Secrets map[string]*secret `json:"secrets"`
	}](c)
	if err != nil {
		return err
	}
	change, err := changes(in.Secrets)
	if err != nil {
		return err
	}
	if err := s.o.Deploy.ChangeSecrets(wire.Finished(c), v.App, change, c.Token.Name); err != nil {
		return err
	}
	wire.Answer(w, nil)
	return nil
}

// patchLatest makes a version with other secrets of the one that was uploaded last. Nothing that runs changes.
func (s *service) patchLatest(w http.ResponseWriter, c *wire.Call) error {
	name := c.PathValue("app")
	if _, err := s.o.Versions.App(c.Context(), name); err != nil {
		return err
	}
	in, err := wire.Body[struct {
		Env   map[string]*secret `json:"env"`
		Notes map[string]string  `json:"annotations"`
	}](c)
	if err != nil {
		return err
	}
	change, err := changes(in.Env)
	if err != nil {
		return err
	}
	newest, err := s.newest(c.Context(), name)
	if err != nil {
		return err
	}
	if newest == nil {
		return fault.New(fault.Invalid, codeNoVersions, "the script %s has no version yet", name).WithHint("upload one first: `wrangler versions upload`")
	}
	uploaded, err := s.o.Deploy.Add(wire.Finished(c), &deploy.Upload{
		Manifest: newest.Manifest, Bundle: newest.Bundle, ConfigFile: newest.ConfigFile, Author: c.Token.Name,
		Message: cmp.Or(in.Notes["workers/message"], in.Notes["workers/tag"]), Open: true, Secrets: change, Inherited: newest.Secrets,
	})
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{"id": uploaded.Version.ID, "number": uploaded.Version.Number})
	return nil
}
