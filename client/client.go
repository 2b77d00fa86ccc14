package client

import (
	"bytes"
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/runlot/runlot/client/internal/call"
)

// Client calls one server. It may be used from several goroutines.
type Client struct{ caller call.Caller }

// New returns a client of the operator address of a server ("http://127.0.0.1:8788") with an API token.
func New(server, token string) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(server, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, &Error{Code: "server_address", Message: "that is no address of a server", Hint: "it looks like http://127.0.0.1:8788"}
	}
	return &Client{call.Caller{Base: base, Token: token, HTTP: &http.Client{}}}, nil
}

// With returns a client of the same server with another token.
func (c *Client) With(token string) *Client {
	other := *c
	other.caller.Token = token
	return &other
}

// Through returns a client that makes its calls through a transport of the caller's, as to a server in the same program.
func (c *Client) Through(transport http.RoundTripper) *Client {
	other := *c
	other.caller.HTTP = &http.Client{Transport: transport}
	return &other
}

// Server is the address that the client calls.
func (c *Client) Server() string { return c.caller.Base.String() }

// call makes a call with a JSON body, which may be nil, and decodes the answer into result, which may be nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, result any) error {
	return c.caller.JSON(ctx, method, path, query, body, result)
}

// Call makes a call of the API that no method is for, as the packages below this one do.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body, result any) error {
	return c.call(ctx, method, path, query, body, result)
}

// Whoami says whom the token belongs to.
func (c *Client) Whoami(ctx context.Context) (*Whoami, error) {
	return get[Whoami](ctx, c, "/v1/whoami", nil)
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	var result T
	if err := c.call(ctx, http.MethodGet, path, query, nil, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

func post[T any](ctx context.Context, c *Client, path string, body any) (*T, error) {
	var result T
	if err := c.call(ctx, http.MethodPost, path, nil, body, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// list is the answer of every list.
type list[T any] struct {
	Items []T `json:"items"`
}

func items[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	l, err := get[list[T]](ctx, c, path, query)
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

func at(parts ...string) string {
	var path strings.Builder
	path.WriteString("/v1")
	for _, part := range parts {
		path.WriteString("/" + part)
	}
	return path.String()
}

// Apps lists the apps.
func (c *Client) Apps(ctx context.Context) ([]App, error) { return items[App](ctx, c, at("apps"), nil) }

// App describes one app.
func (c *Client) App(ctx context.Context, name string) (*App, error) {
	return get[App](ctx, c, at("apps", name), nil)
}

// DeleteApp is RemoveApp for an app on which no other depends.
func (c *Client) DeleteApp(ctx context.Context, name string) error {
	_, err := c.RemoveApp(ctx, name, false)
	return err
}

// RemoveApp stops an app and forgets it with its versions and secrets. Its messages stay in its database. Unless it is forced,
// an app that others depend on is refused with the code "app_needed".
func (c *Client) RemoveApp(ctx context.Context, name string, force bool) (*DeletedApp, error) {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	var left DeletedApp
	if err := c.call(ctx, http.MethodDelete, at("apps", name), q, nil, &left); err != nil {
		return nil, err
	}
	return &left, nil
}

// Upload checks code and configuration and stores them as a version, which does not run yet.
func (c *Client) Upload(ctx context.Context, u *Upload) (*Uploaded, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part := func(field, file, kind string, text []byte) error {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", multipart.FileContentDisposition(field, file))
		header.Set("Content-Type", kind)
		w, err := form.CreatePart(header)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	err := errors.Join(
		part("config", u.ConfigFile, "application/octet-stream", u.Config),
		form.WriteField("env", u.Env), form.WriteField("message", u.Message),
		form.WriteField("service_worker", strconv.FormatBool(u.ServiceWorker)), form.WriteField("check_only", strconv.FormatBool(u.CheckOnly)),
	)
	for i := range u.Modules {
		err = errors.Join(err, part("module", u.Modules[i].Name, "application/vnd.runlot."+u.Modules[i].Kind, u.Modules[i].Body))
	}
	if u.SourceMap != nil {
		err = errors.Join(err, part("source_map", "source-map", "application/json", u.SourceMap))
	}
	if err := errors.Join(err, form.Close()); err != nil {
		return nil, err
	}
	var result Uploaded
	err = c.caller.Send(ctx, http.MethodPost, at("apps", u.App, "versions"), nil, form.FormDataContentType(), body.Bytes(), &result)
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// Versions lists up to count versions of an app with numbers below before, newest first. Before 0 is all.
func (c *Client) Versions(ctx context.Context, app string, before, count int) ([]Version, error) {
	return items[Version](ctx, c, at("apps", app, "versions"), paged(int64(before), count))
}

func paged(before int64, count int) url.Values {
	q := url.Values{}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	if count > 0 {
		q.Set("limit", strconv.Itoa(count))
	}
	return q
}

// Deploy makes a version live.
func (c *Client) Deploy(ctx context.Context, app string, d *Deploy) (*Deployment, error) {
	return post[Deployment](ctx, c, at("apps", app, "deployments"), d)
}

// Deployments lists deployments as Versions lists versions.
func (c *Client) Deployments(ctx context.Context, app string, before, count int) ([]Deployment, error) {
	return items[Deployment](ctx, c, at("apps", app, "deployments"), paged(int64(before), count))
}

// Secrets lists the names of an app's secrets.
func (c *Client) Secrets(ctx context.Context, app string) ([]Secret, error) {
	return items[Secret](ctx, c, at("apps", app, "secrets"), nil)
}

// PutSecret sets a secret of an app and starts the live version again with it.
func (c *Client) PutSecret(ctx context.Context, app, name, value string) error {
	return c.call(ctx, http.MethodPut, at("apps", app, "secrets", name), nil, &PutSecret{value}, nil)
}

// DeleteSecret forgets a secret of an app and starts the live version again without it.
func (c *Client) DeleteSecret(ctx context.Context, app, name string) error {
	return c.call(ctx, http.MethodDelete, at("apps", app, "secrets", name), nil, nil, nil)
}

// Events lists up to count events with ids below before, newest first, of one app or, for "", of all. Before 0 is all.
func (c *Client) Events(ctx context.Context, app string, before int64, count int) ([]Event, error) {
	q := paged(before, count)
	if app != "" {
		q.Set("app", app)
	}
	return items[Event](ctx, c, at("events"), q)
}

// Tokens lists the API tokens.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	return items[Token](ctx, c, at("tokens"), nil)
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, t *NewToken) (*CreatedToken, error) {
	return post[CreatedToken](ctx, c, at("tokens"), t)
}

// RevokeToken makes a token worthless.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, at("tokens", id), nil, nil, nil)
}
