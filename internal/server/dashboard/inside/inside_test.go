package inside

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(ctx context.Context, t *testing.T, h http.HandlerFunc, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inside/a%2Fb?c=d", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &Transport{h}}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestACallIsAsOverANetwork(t *testing.T) {
	response := ask(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || string(text) != "question" || r.URL.EscapedPath() != "/a%2Fb" || r.URL.Query().Get("c") != "d" {
			t.Errorf("%q, %v, %s", text, err, r.URL)
		}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "yes")
		_, _ = io.WriteString(w, "short and stout")
	}, "question")
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || string(text) != "short and stout" || response.StatusCode != http.StatusTeapot || response.Header.Get("X-Answer") != "yes" ||
		response.Header.Get("X-Late") != "" {
		t.Errorf("%q, %v, %+v", text, err, response)
	}
}

func TestAnAnswerIsReadWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		response := ask(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "1")
			<-next
			_, _ = io.WriteString(w, "2")
			<-r.Context().Done()
		}, "")
		b := make([]byte, 1)
		for _, want := range []string{"1", "2"} {
			if _, err := response.Body.Read(b); err != nil || string(b) != want {
				t.Errorf("%q, %v", b, err)
			}
			if want == "1" {
				close(next)
			}
		}
	})
}

func TestAHandlerThatPanicsEndsItsAnswer(t *testing.T) {
	for name, begin := range map[string]string{"before its answer": "", "in it": "begun"} {
		response := ask(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, begin)
			panic("no")
		}, "")
		_, err := io.ReadAll(response.Body)
		if err == nil {
			t.Errorf("%s: the answer looks whole", name)
		}
		_ = response.Body.Close()
	}
}
