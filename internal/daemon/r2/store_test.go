package r2

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/s3"
)

func TestReadStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = id\naws_secret_access_key = secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]s3.Place{
		"s3://company": {Endpoint: "s3.amazonaws.com", Secure: true, Bucket: "company"},
		"s3://company/a/b/?endpoint=http://127.0.0.1:9000&region=x": {Endpoint: "127.0.0.1:9000", Region: "x", Bucket: "company", Prefix: "a/b/"},
	} {
		s, err := ReadStore(text, file)
		if err != nil || s.keys.ID != "id" || s.keys.Secret != "secret" {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, s.place); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{
		"company", "https://s3.example.com/company", "s3://", "s3://id:hunter2@company", "s3://company?endpoint=ftp://x", "s3://company?endpoint=https://id:hunter2@x", "s3://company?secret=hunter2",
		"s3://company?region=a&region=b", "s3://company?endpoint=https://x/path",
	} {
		if _, err := ReadStore(text, file); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_ACCESS_KEY", "")
	if _, err := ReadStore("s3://company", ""); err == nil {
		t.Error("no keys are good")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if s, err := ReadStore("s3://company", ""); err != nil || s.keys.Secret != "secret" {
		t.Errorf("%v", err)
	}
	if _, err := ReadStore("s3://company", "/nowhere"); err == nil {
		t.Error("a file that is not there is good")
	}
}
