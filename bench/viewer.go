package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"
)

// viewer is an operator who is signed in to the page.
type viewer struct {
	base   string
	client http.Client
	// updated gets the times between two updates of a view, when it is set.
	updated *times

	closing context.CancelFunc
	streams sync.WaitGroup
}

// signIn signs in to the page at base, the URL of an operator's address.
func signIn(ctx context.Context, base, token string) (*viewer, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &viewer{base: base, client: http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}, closing: func() {}}
	form := url.Values{"token": {token}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	return v, response.Body.Close()
}

// open keeps views of the page up to date, as windows that are left open do.
func (v *viewer) open(ctx context.Context, paths []string) error {
	ctx, v.closing = context.WithCancel(context.WithoutCancel(ctx))
	for _, path := range paths {
		stream, err := v.get(ctx, "/live"+path, "text/event-stream")
		if err != nil {
			return err
		}
		v.streams.Go(func() {
			defer stream.Close()
			v.follow(bufio.NewReader(stream))
		})
	}
	return nil
}

// follow reads a stream to its end. An update is what comes at once: it ends with an empty line, after which nothing is
// there to read.
func (v *viewer) follow(lines *bufio.Reader) {
	var last time.Time
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		if len(line) > 1 || lines.Buffered() > 0 || v.updated == nil {
			continue
		}
		now := time.Now()
		if !last.IsZero() {
			v.updated.add(now.Sub(last))
		}
		last = now
	}
}

// load loads a page whole and returns how long that took.
func (v *viewer) load(ctx context.Context, path string) (time.Duration, error) {
	began := time.Now()
	body, err := v.get(ctx, path, "text/html")
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, body)
	return time.Since(began), errors.Join(err, body.Close())
}

func (v *viewer) get(ctx context.Context, path, kind string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	got := response.Header.Get("Content-Type")
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(got, kind) {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers with %s and %s", path, response.Status, got)
	}
	return response.Body, nil
}

// close ends the views.
func (v *viewer) close() {
	v.closing()
	v.streams.Wait()
	v.client.CloseIdleConnections()
}
