package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
)

// write makes a backup of a few entries.
func write(t *testing.T, path string, force bool) *archive.Manifest {
	t.Helper()
	w, err := archive.Create(path, force, archive.Header{Created: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	entries := []struct {
		name, text string
		kind       byte
	}{
		{"one/", "", tar.TypeDir},
		{"one/empty", "", tar.TypeReg},
		{"one/long", strings.Repeat("a long text ", 20_000), tar.TypeReg},
		{"two", "secret", tar.TypeReg},
	}
	for _, e := range entries {
		if err := w.Add(&tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o700, Size: int64(len(e.text))}, strings.NewReader(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	m := &archive.Manifest{Postgres: "18.4"}
	if _, err := w.Close(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func read(path string) (map[string]int, *archive.Manifest, error) {
	found := map[string]int{}
	m, err := archive.Read(path, func(h *tar.Header, body io.Reader) error {
		text, err := io.ReadAll(body)
		found[h.Name] = len(text)
		return err
	}, func(int64, int64) {})
	return found, m, err
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	want := write(t, path, false)
	found, m, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"one/": 0, "one/empty": 0, "one/long": 240_000, "two": 6}, found); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if m.Bytes() != 240_006 || !m.Has("two") || m.Has("three") || len(m.Parts) != 2 || m.Parts[0].Entries != 3 {
		t.Errorf("the manifest is %+v", m)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
}

// TestEveryDamageIsSeen cuts the file at many places, changes a byte at many, and adds something.
func TestEveryDamageIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	write(t, path, false)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, at int, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(path); err == nil {
			t.Errorf("%s at %d of %d is taken for a backup", what, at, len(whole))
		}
	}
	const begin = 10 // the bytes before it are gzip's own, of which two may be anything
	for at := 0; at < len(whole); at += 7 {
		refused("a cut", at, whole[:at])
		if at >= begin {
			changed := bytes.Clone(whole)
			changed[at] ^= 0x10
			refused("a change", at, changed)
		}
	}
	refused("an addition", len(whole), append(bytes.Clone(whole), 0))
	refused("another file", 0, []byte("text"))
}

// TestAlteredContent: a file that was unpacked, altered and packed again is whole for tar and gzip.
func TestAlteredContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	write(t, path, false)
	for name, alter := range map[string]func(h *tar.Header, text []byte) []byte{
		"the checksum of its part two is wrong": func(_ *tar.Header, text []byte) []byte {
			return replace(text, "secret", "secreT")
		},
		"the checksum of its part one is wrong": func(h *tar.Header, text []byte) []byte {
			h.Name = strings.Replace(h.Name, "empty", "other", 1)
			return text
		},
		"a part is missing": func(h *tar.Header, text []byte) []byte {
			if h.Name == "two" {
				return nil
			}
			return text
		},
		"of two backups": func(h *tar.Header, text []byte) []byte {
			if h.Name == "manifest.json" {
				return replace(text, `"v1"`, `"v2"`)
			}
			return text
		},
		"which no backup does": func(h *tar.Header, text []byte) []byte {
			h.Name = strings.Replace(h.Name, "one/empty", "one/../../empty", 1)
			return text
		},
		"newer release": func(_ *tar.Header, text []byte) []byte {
			return replace(text, `"format": 1`, `"format": 2`)
		},
	} {
		altered := filepath.Join(t.TempDir(), "altered")
		repack(t, path, altered, alter)
		if _, _, err := read(altered); err == nil || !strings.Contains(fault.From(err).Message, name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

func replace(text []byte, from, to string) []byte {
	return []byte(strings.ReplaceAll(string(text), from, to))
}

// repack copies a backup entry by entry; alter may change each, or leave it out by a nil.
func repack(t *testing.T, from, to string, alter func(h *tar.Header, text []byte) []byte) {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	unzipped, err := gzip.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	files, out := tar.NewReader(unzipped), tar.NewWriter(zipped)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, errRead := io.ReadAll(files)
		if err = errors.Join(err, errRead); err != nil {
			t.Fatal(err)
		}
		if text = alter(h, text); text == nil {
			continue
		}
		h.Size = int64(len(text))
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zipped.Close(), os.WriteFile(to, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestAnExistingFileStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Create(path, false, archive.Header{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a file that exists: %v", err)
	}
	w, err := archive.Create(path, true, archive.Header{})
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("it holds %q (%v) after a backup that was given up", text, err)
	}
	write(t, path, true)
	if _, _, err := read(path); err != nil {
		t.Errorf("after --force: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it lies %v (%v)", entries, err)
	}
	if _, err := archive.Create(dir, true, archive.Header{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a folder: %v", err)
	}
	// One that somebody else makes meanwhile stays too.
	late := filepath.Join(dir, "late")
	if w, err = archive.Create(late, false, archive.Header{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(late, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(&archive.Manifest{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a file that was made meanwhile: %v", err)
	}
}
