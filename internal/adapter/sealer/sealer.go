// Package sealer encrypts secrets with a key in a file: AES-256 in Galois/Counter Mode, with the names of the app and
// of the secret as additional data, so that a sealed secret is of no use under another name.
package sealer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
)

const keyBytes = 32

// Sealer implements deploy.Sealer.
type Sealer struct {
	aead cipher.AEAD
	path string
	key  []byte
}

// Open reads the key from a file, which it makes when there is none. The file is readable by its owner only; without it
// no secret can be read again.
func Open(path string) (*Sealer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = create(path)
	}
	if err != nil {
		return nil, fault.New(fault.Environment, "secret_key", "the key of the secrets in %s cannot be used: %s", path, reason(err)).WithCause(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fault.New(fault.Environment, "secret_key", "%s does not hold a key: 64 hexadecimal digits", path).
			WithHint("put the file back from a backup; without it the secrets of the apps have to be set again")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead, path, key}, nil
}

// create writes a new key so that it is there whole or not at all, also after a power cut.
func create(path string) ([]byte, error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	text := []byte(hex.EncodeToString(key) + "\n")
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, ".key-") // with the mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return nil, err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return text, errors.Join(folder.Sync(), folder.Close())
}

func reason(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

func bound(appName, name string) []byte {
	return fmt.Appendf(nil, "%d:%s%d:%s", len(appName), appName, len(name), name)
}

// Seal encrypts a secret.
func (s *Sealer) Seal(appName, name, value string) ([]byte, error) {
	return s.aead.Seal(nil, nil, []byte(value), bound(appName, name)), nil //nolint:gosec // G407: this AEAD makes its own random nonce
}

// Open decrypts a secret that Seal made for the same names.
func (s *Sealer) Open(appName, name string, sealed []byte) (string, error) {
	value, err := s.aead.Open(nil, nil, sealed, bound(appName, name))
	if err != nil {
		return "", fault.New(fault.Environment, "secret_sealed", "the secret %s of %s cannot be read with the key in %s", name, appName, s.path).
			WithHint("put back the key that it was stored with, or set the secret again").WithCause(err)
	}
	return string(value), nil
}

// Derive makes a key for another purpose. Equal purposes have equal keys, wherever the key in the file is the same.
func (s *Sealer) Derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, s.key, nil, purpose, keyBytes)
}
