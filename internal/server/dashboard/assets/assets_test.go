package assets

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

func TestFilesAreServedUnderTheirHashedNamesOnly(t *testing.T) {
	f := load(fstest.MapFS{
		ManifestName:      {Data: []byte(`{"page.js": "page-AB12.js", "gone.css": "gone-1.css"}`)},
		"page-AB12.js":    {Data: []byte("let x")},
		"page.js.private": {Data: []byte("secret")},
	})
	if f.Missing() || f.Path("page.js") != "/assets/page-AB12.js" || f.Path("other.js") != "" {
		t.Errorf("%q", f.Path("page.js"))
	}
	for path, want := range map[string]int{
		"/assets/page-AB12.js": http.StatusOK, "/assets/page.js": http.StatusNotFound, "/assets/page.js.private": http.StatusNotFound,
		"/assets/manifest.json": http.StatusNotFound, "/assets/gone-1.css": http.StatusNotFound, "/assets/": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
		if want == http.StatusOK && (w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" || w.Body.String() != "let x") {
			t.Errorf("%s: %v %q", path, w.Header(), w.Body)
		}
	}
}

func TestAProgramWithoutFilesSaysSo(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{"empty": {}, "broken": {ManifestName: {Data: []byte("{")}}} {
		if f := load(files); !f.Missing() || f.Path("page.js") != "" {
			t.Errorf("%s: it has files", name)
		}
	}
}
