package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// function is a process of one function.
type function func(r *http.Request) (*http.Response, error)

func (f function) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers is a process that answers with its name and the request's body.
func answers(name string) function {
	return func(r *http.Request) (*http.Response, error) {
		body := name
		if r.Body != nil {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			_ = r.Body.Close()
			body += " " + string(text)
		}
		return response(body), nil
	}
}

func response(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}
}

// open starts a door on an address of its own.
func open(t *testing.T) (door *Ingress, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door = New(slog.New(slog.DiscardHandler))
	var serving sync.WaitGroup
	serving.Go(func() { door.Serve(listener) })
	t.Cleanup(func() {
		door.Stop(context.Background())
		serving.Wait()
	})
	return door, listener.Addr().String()
}

func post(t *testing.T, client *http.Client, address, body string) (status int, text string) {
	t.Helper()
	r, err := client.Post("http://"+address, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(all)
}

// TestARequestForAProcessThatIsGoneGoesToTheNext, whole: a body too, although the first process has closed it.
func TestARequestForAProcessThatIsGoneGoesToTheNext(t *testing.T) {
	door, address := open(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	called := make(chan struct{})
	door.Set(function(func(r *http.Request) (*http.Response, error) {
		_ = r.Body.Close()
		close(called)
		return nil, fmt.Errorf("%w: stopped", dispatch.ErrGone)
	}))
	go func() {
		<-called
		door.Set(nil)
		door.Set(answers("two"))
	}()
	if status, text := post(t, client, address, "body"); status != http.StatusOK || text != "two body" {
		t.Errorf("answer %d %q", status, text)
	}
}

func TestWhatCannotBeAnswered(t *testing.T) {
	door, address := open(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	door.Set(function(func(*http.Request) (*http.Response, error) { return nil, dispatch.ErrLost }))
	if status, text := post(t, client, address, "x"); status != http.StatusBadGateway || !strings.Contains(text, "ended before it answered") {
		t.Errorf("a process that died: %d %q", status, text)
	}
	came := make(chan struct{})
	door.Set(function(func(*http.Request) (*http.Response, error) {
		close(came)
		return nil, dispatch.ErrGone
	}))
	go func() {
		<-came
		door.Stop(context.Background())
	}()
	if status, text := post(t, client, address, "x"); status != http.StatusServiceUnavailable || !strings.Contains(text, "not running") {
		t.Errorf("no process until the stop: %d %q", status, text)
	}
}

func TestAnswersAreCounted(t *testing.T) {
	door, address := open(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func() {
		t.Helper()
		r, err := client.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
	}
	for _, status := range []int{200, 204, 302, 404, 500, 999} {
		door.Set(function(func(*http.Request) (*http.Response, error) {
			r := response("")
			r.StatusCode = status
			return r, nil
		}))
		ask()
	}
	door.Set(function(func(*http.Request) (*http.Response, error) { return nil, dispatch.ErrLost }))
	ask()
	if got, want := door.Answers(), [6]int64{2: 2, 3: 1, 4: 1, 5: 2}; got != want {
		t.Errorf("answers %v, want %v", got, want)
	}
}

// TestTheRequestArrivesAsItWasWritten, and the answer as the worker gave it.
func TestTheRequestArrivesAsItWasWritten(t *testing.T) {
	door, address := open(t)
	var got *http.Request
	door.Set(function(func(r *http.Request) (*http.Response, error) {
		got = r.Clone(context.Background())
		return response("<html>"), nil
	}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET //a%2Fb/?x=1;y=%zz& HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.2.3.4\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	want := http.Header{"X-Forwarded-Proto": {"https"}, "Forwarded": {"for=1.2.3.4"}, "User-Agent": {""}}
	if diff := cmp.Diff(want, got.Header); diff != "" || got.Host != "shop.example" || got.URL.RequestURI() != "//a%2Fb/?x=1;y=%zz&" {
		t.Errorf("%s %s %s", diff, got.Host, got.URL.RequestURI())
	}
	if kind, ok := answer.Header["Content-Type"]; ok {
		t.Errorf("a type was guessed: %q", kind)
	}
}

// TestAWorkerMayAnswerWhileTheRequestComesIn: both directions stream.
func TestAWorkerMayAnswerWhileTheRequestComesIn(t *testing.T) {
	door, address := open(t)
	door.Set(function(func(r *http.Request) (*http.Response, error) {
		answer := response("")
		answer.ContentLength, answer.Body = -1, io.NopCloser(r.Body)
		return answer, nil
	}))
	body, write := io.Pipe()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(write, "one")
		sent <- err
	}()
	r, err := client.Post("http://"+address, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	part := make([]byte, 3)
	if _, err := io.ReadFull(r.Body, part); err != nil || string(part) != "one" {
		t.Fatalf("%q %v", part, err)
	}
	go func() {
		_, err := io.WriteString(write, "two")
		_ = write.Close()
		sent <- err
	}()
	if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "two" {
		t.Errorf("%q %v", rest, err)
	}
	if err := errors.Join(<-sent, <-sent); err != nil {
		t.Error(err)
	}
}

// TestARequestWakesAnAppThatRests once, and is answered by what it woke.
func TestARequestWakesAnAppThatRests(t *testing.T) {
	door, address := open(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	woken := make(chan struct{}, 10)
	door.Rest(func() { woken <- struct{}{} })
	answered := make(chan string, 2)
	for range 2 {
		go func() {
			_, text := post(t, client, address, "x")
			answered <- text
		}()
	}
	<-woken
	door.Set(answers("awake"))
	for range 2 {
		if text := <-answered; text != "awake x" {
			t.Errorf("answer %q", text)
		}
	}
	if len(woken) != 0 {
		t.Error("an app was woken twice")
	}
	if requests, _, last := door.Activity(); requests != 2 || last.IsZero() {
		t.Errorf("%d requests, the last at %s", requests, last)
	}
}
