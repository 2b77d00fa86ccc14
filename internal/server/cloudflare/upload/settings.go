package upload

import (
	"net/http"
	"slices"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// latest is the version that settings are read from.
func (s *service) latest(c *wire.Call) (*deploy.Version, error) {
	if _, err := s.o.Versions.App(c.Context(), c.PathValue("app")); err != nil {
		return nil, err
	}
	v, err := s.base(c.Context(), c.PathValue("app"))
	if err == nil && v == nil {
		err = fault.New(fault.NotFound, deploy.CodeVersionUnknown, "the script %s has no version", c.PathValue("app"))
	}
	return v, err
}

func (s *service) settings(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.latest(c)
	if err != nil {
		return err
	}
	secrets, err := s.o.Deploy.Secrets(c.Context(), v.App)
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{
		"migration_tag": MigrationTag(v.Manifest), "bindings": append(Bindings(v.Manifest), SecretBindings(secrets)...), "compatibility_date": v.Manifest.CompatibilityDate,
		"compatibility_flags": append([]string{}, v.Manifest.CompatibilityFlags...),
	})
	return nil
}

// patchSettings sets the secrets that are given. It is how several are set at once; bindings are those of an upload.
func (s *service) patchSettings(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.latest(c)
	if err != nil {
		return err
	}
	var in *struct {
		Bindings []binding `json:"bindings"`
	}
	err = parts(c.Request, func(name, _ string, body []byte) (err error) {
		if name == "settings" {
			in, err = wire.Value[struct {
				Bindings []binding `json:"bindings"`
			}](body)
		}
		return err
	})
	if err != nil {
		return err
	}
	if in == nil {
		return fault.New(fault.Invalid, queue.CodeBodyInvalid, "the form has no part `settings`")
	}
	known := Bindings(v.Manifest)
	for i := range in.Bindings {
		b := &in.Bindings[i]
		if b.Type != typeSecret && !slices.ContainsFunc(known, func(k map[string]any) bool { return k["name"] == b.Name }) {
			return fault.New(fault.Invalid, "settings_binding", "the binding %s cannot be added by a change of settings", b.Name).
				WithHint("add it to the configuration and deploy")
		}
	}
	change := map[string]*string{}
	for i := range in.Bindings {
		if b := &in.Bindings[i]; b.Type == typeSecret && b.Text != nil {
			change[b.Name] = b.Text
		}
	}
	if err := s.o.Deploy.ChangeSecrets(wire.Finished(c), v.App, change, c.Token.Name); err != nil {
		return err
	}
	wire.Answer(w, nil)
	return nil
}

// schedule is a cron.
type schedule struct {
	Cron string `json:"cron"`
}

func (s *service) schedules(w http.ResponseWriter, c *wire.Call) error {
	v, err := s.latest(c)
	if err != nil {
		return err
	}
	list := make([]schedule, len(v.Manifest.Crons))
	for i := range list {
		list[i].Cron = v.Manifest.Crons[i]
	}
	wire.Answer(w, map[string]any{"schedules": list})
	return nil
}

// setSchedules replaces the crons of a script: a new version of it with the code of the live one, like a consumer that is set
// through the API.
func (s *service) setSchedules(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[[]schedule](c)
	if err != nil {
		return err
	}
	if len(*in) > queue.MaxCrons {
		return fault.New(fault.Limit, "crons_many", "a script has at most %d crons; these are %d", queue.MaxCrons, len(*in))
	}
	var crons []string
	for _, one := range *in {
		parsed, err := cron.Parse(one.Cron)
		if err != nil {
			return err
		}
		if !slices.Contains(crons, parsed.String()) {
			crons = append(crons, parsed.String())
		}
	}
	err = s.o.Deploy.Revise(wire.Finished(c), &deploy.Revision{
		App: c.PathValue("app"), Author: c.Token.Name, Message: "schedules set through the API", Change: func(m *app.Manifest) error {
			m.Crons = crons
			if len(crons) > 0 && m.Database == "" {
				m.Database = app.DefaultDatabase
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	list := append([]schedule{}, *in...)
	wire.Answer(w, map[string]any{"schedules": list})
	return nil
}
