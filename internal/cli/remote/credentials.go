package remote

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
)

// Environment variables that name the server and the token where no one logs in.
const (
	serverVariable = "RUNLOT_SERVER"
	tokenVariable  = "RUNLOT_TOKEN"
)

// defaultServer is the operator address of a celld with default settings.
const defaultServer = "http://127.0.0.1:8788"

// credentials is the file of servers and tokens that runlot login writes.
type credentials struct {
	// Default is the server that was logged in to last.
	Default string            `json:"default,omitempty"`
	Tokens  map[string]string `json:"tokens"`
}

func credentialsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Environment, "no_home", "there is no folder for the token: neither HOME nor XDG_CONFIG_HOME is set").
			WithHint("set one of them, or give the token in %s", tokenVariable)
	}
	return filepath.Join(dir, "runlot", "credentials.json"), nil
}

func readCredentials() (*credentials, error) {
	c := &credentials{Tokens: map[string]string{}}
	path, err := credentialsPath()
	if err != nil {
		return c, nil //nolint:nilerr // without a folder there are none
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil {
		return nil, fault.New(fault.Environment, "credentials_file", "the tokens in %s cannot be read", path).
			WithHint("mend the file or delete it, and log in again").WithCause(err)
	}
	if c.Tokens == nil {
		c.Tokens = map[string]string{}
	}
	return c, nil
}

// write replaces the file, whole or not at all.
func (c *credentials) write() error {
	path, err := credentialsPath()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = replace(path, append(text, '\n'))
	}
	if err != nil {
		return fault.New(fault.Environment, "credentials_file", "the token cannot be written to %s", path).
			WithHint("check that the folder can be written to, or give the token in %s", tokenVariable).WithCause(err)
	}
	return nil
}

func replace(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".credentials-") // with the mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// serverFlag is the flag that names the server.
func serverFlag(c *cobra.Command, server *string) {
	c.Flags().StringVar(server, "server", "", "`URL` of the celld's operator address (default: that\nof the last login, or "+defaultServer+")")
}

// connect returns a client of the server that the flag, the environment or the last login names, with its token.
func connect(server string) (*client.Client, error) {
	server, token, err := Choose(server)
	if err != nil {
		return nil, err
	}
	return client.New(server, token)
}

// Choose returns the server that the flag, the environment or the last login names, and its token.
func Choose(server string) (address, token string, err error) {
	known, err := readCredentials()
	if err != nil {
		return "", "", err
	}
	for _, candidate := range []string{os.Getenv(serverVariable), known.Default, defaultServer} {
		if server == "" {
			server = candidate
		}
	}
	server = strings.TrimRight(server, "/")
	if token = os.Getenv(tokenVariable); token == "" {
		token = known.Tokens[server]
	}
	if token == "" {
		return "", "", fault.New(fault.Invalid, CodeNotLoggedIn, "there is no token for %s", server).
			WithHint("run `runlot login %s`, or set %s", server, tokenVariable)
	}
	return server, token, nil
}
