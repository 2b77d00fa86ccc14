package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/cli"
)

func TestHelpFitsAnOrdinaryTerminal(t *testing.T) {
	for _, command := range []string{
		"runlot", "runlot dev", "runlot init", "runlot types", "runlot check", "runlot cron", "runlot cron list", "runlot cron run", "runlot pg", "runlot pg url", "runlot pg shell", "runlot version", "runlot login", "runlot logout", "runlot whoami",
		"runlot token", "runlot token create", "runlot token list", "runlot token revoke", "runlot deploy", "runlot versions", "runlot rollback",
		"runlot delete", "runlot secret", "runlot secret put", "runlot secret list", "runlot secret delete", "runlot ps", "runlot events",
		"runlot queue", "runlot queue info", "runlot queue peek", "runlot queue send", "runlot queue pause", "runlot queue resume", "runlot queue redrive",
		"runlot queue purge", "runlot queue batches", "runlot queue batch", "runlot logs",
		"runlot r2", "runlot r2 notification create", "runlot r2 notification list", "runlot r2 notification delete",
		"celld", "celld serve", "celld backup", "celld restore", "celld check", "celld version",
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		program, args := cli.Runlot, strings.Fields(command+" --help")
		if args[0] == "celld" {
			program = cli.Celld
		}
		if code := program("v0", args[1:], os.Stdin, out, out); code != cli.ExitOK {
			t.Errorf("%s --help exits with %d", command, code)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "Usage:") {
			t.Errorf("%s --help shows no usage: %q", command, text)
		}
		if args[0] == "celld" && strings.Contains(string(text), "runlot dev") {
			t.Errorf("%s --help speaks of another program: %s", command, text)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if width := utf8.RuneCountInString(line); width > 80 {
				t.Errorf("%s --help has a line of %d columns: %s", command, width, line)
			}
		}
	}
}
