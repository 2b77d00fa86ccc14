package cluster

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/core/fault"
)

// credentials is what credentials.json holds.
type credentials struct {
	// Admin is the superuser's password.
	Admin     string                      `json:"admin"`
	Databases map[string]databasePassword `json:"databases"`

	path string
}

// databasePassword holds the passwords of a database's two roles. Ready says that the database and its rights are
// complete, and from then on the user's to change.
type databasePassword struct {
	Owner string `json:"owner"`
	App   string `json:"app"`
	Ready bool   `json:"ready"`
}

// loadCredentials reads the passwords of the state folder, or makes them when there is no data yet.
func loadCredentials(dir string, exists bool) (*credentials, error) {
	c := &credentials{Databases: map[string]databasePassword{}, path: filepath.Join(dir, "credentials.json")}
	text, err := os.ReadFile(c.path)
	switch {
	case err == nil:
		err = json.Unmarshal(text, c)
	case errors.Is(err, fs.ErrNotExist) && !exists:
		c.Admin = newPassword()
		if err := c.save(); err != nil {
			return nil, unusable(dir, err)
		}
		return c, nil
	}
	if err != nil || c.Admin == "" {
		return nil, fault.New(fault.Environment, "credentials", "the passwords of the database cluster cannot be read from %s", c.path).
			WithHint("restore the file from a backup; it belongs to the data folder beside it").WithCause(err)
	}
	if c.Databases == nil {
		c.Databases = map[string]databasePassword{}
	}
	return c, nil
}

// save replaces the file as a whole.
func (c *credentials) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(c.path), ".credentials-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), c.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(c.path))
}

// newPassword returns a password with 160 bits of chance, safe in any address.
func newPassword() string { return rand.Text() + rand.Text()[:6] }

// verifier returns what PostgreSQL stores of a password (RFC 5803). Sending it instead keeps the password out of
// statements, and so out of every log.
func verifier(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	sign := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

// shortHash names things after a longer text.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
