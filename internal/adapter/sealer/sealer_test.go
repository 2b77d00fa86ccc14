package sealer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestASecretIsReadWithItsKeyAndNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal("shop", "KEY", "hunter2")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the sealed secret holds the secret")
	}
	if again, _ := s.Seal("shop", "KEY", "hunter2"); bytes.Equal(again, sealed) {
		t.Error("sealing twice gives the same bytes")
	}
	same, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if value, err := same.Open("shop", "KEY", sealed); err != nil || value != "hunter2" {
		t.Errorf("opened %q, %v", value, err)
	}
	other, err := Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	for name, open := range map[string]func() (string, error){
		"another key":  func() (string, error) { return other.Open("shop", "KEY", sealed) },
		"another name": func() (string, error) { return s.Open("shop", "KEY2", sealed) },
		"another app":  func() (string, error) { return s.Open("shopK", "EY", sealed) },
		"damaged":      func() (string, error) { return s.Open("shop", "KEY", damaged) },
		"nothing":      func() (string, error) { return s.Open("shop", "KEY", nil) },
	} {
		if value, err := open(); fault.From(err) == nil || fault.From(err).Code != "secret_sealed" || value != "" {
			t.Errorf("%s: %q, %v", name, value, err)
		}
	}
}

func TestTheKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := Open(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(path, []byte("beef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{"short": path, "a folder": filepath.Dir(path), "no folder": filepath.Join(path, "x")} {
		if _, err := Open(broken); fault.From(err) == nil || fault.From(err).Code != "secret_key" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "beef\n" {
		t.Errorf("a key that cannot be used was replaced: %q, %v", text, err)
	}
}

// TestDerivedKeys: equal files and purposes have equal keys, and nothing else has.
func TestDerivedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	derive := func(path, purpose string) []byte {
		t.Helper()
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		key, err := s.Derive(purpose)
		if err != nil || len(key) != keyBytes || bytes.Equal(key, s.key) {
			t.Fatalf("%x, %v", key, err)
		}
		return key
	}
	one := derive(path, "a")
	if !bytes.Equal(one, derive(path, "a")) || bytes.Equal(one, derive(path, "b")) || bytes.Equal(one, derive(filepath.Join(t.TempDir(), "key"), "a")) {
		t.Error("keys are not those of their file and purpose")
	}
}
