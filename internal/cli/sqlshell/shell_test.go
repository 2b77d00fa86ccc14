package sqlshell

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m).Run()) }

// typed runs a shell on a text, as a person types it or as it comes from a file.
func typed(t *testing.T, text string, interactive bool) (out, talk string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	s := Shell{In: strings.NewReader(text), Out: &o, Talk: terminal.Plain(&e, 0), Interactive: interactive}
	err = s.Run(t.Context(), clustertest.NewDatabase(t).OwnerURL())
	return o.String(), e.String(), err
}

const session1 = `create table pets (id int primary key, name text not null default 'none');
insert into pets values (1, 'Ada'), (20, 'Zoë | "quoted"'); table pets -- all
;
\d pets
select null as nothing, E'a\nb' as lines;
do $$ begin raise notice 'hello; there'; end $$;
select 1 as last`

const answers1 = `CREATE TABLE
INSERT 0 2
 id | name
----+----------------
  1 | Ada
 20 | Zoë | "quoted"
(2 rows)

 Column | Type    | Nullable | Default
--------+---------+----------+--------------
 id     | integer | not null |` + ` ` + `
 name   | text    | not null | 'none'::text
(2 rows)

 Index     | Definition
-----------+---------------------------------------------------------------
 pets_pkey | CREATE UNIQUE INDEX pets_pkey ON public.pets USING btree (id)
(1 row)

 nothing | lines
---------+-------
         | a�b
(1 row)

DO
 last
------
    1
(1 row)

`

func TestWhatComesFromAFile(t *testing.T) {
	out, talk, err := typed(t, session1, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answers1, out); diff != "" {
		t.Error(diff)
	}
	if talk != "NOTICE:  hello; there\n" {
		t.Errorf("talk: %q", talk)
	}
}

func TestTheFirstMistakeInAFileEndsIt(t *testing.T) {
	for text, want := range map[string]string{
		"select 1;\nselect nothing;\nselect 3;\n": `column "nothing" does not exist (SQLSTATE 42703)`,
		"copy (select 1) to stdout;\nselect 3;":   "psql has",
		"\\x\nselect 3;":                          `there is no command \x`,
		"\\d none\nselect 3;":                     "there is no table or view none",
	} {
		out, _, err := typed(t, text, false)
		if err == nil || !strings.Contains(err.Error(), want) || fault.From(err).Code != CodeStatement {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if strings.Contains(out, "3") {
			t.Errorf("%q goes on after a mistake: %s", text, out)
		}
	}
}

func TestAPersonGoesOnAfterAMistake(t *testing.T) {
	out, talk, err := typed(t, "select nothing;\n\\nope\nselect\n 42;\n\\q\nselect 43;\n", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"=> ", "-> ", " 42\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	if strings.Contains(out, "43") {
		t.Errorf("it goes on after \\q: %q", out)
	}
	if !strings.Contains(talk, `ERROR:  column "nothing" does not exist`) || !strings.Contains(talk, `there is no command \nope`) {
		t.Errorf("talk: %q", talk)
	}
}

func TestTablesAreListed(t *testing.T) {
	out, _, err := typed(t, "create table pets (id int);\ncreate view cats as table pets;\n\\dt\n", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" public | cats | view\n", " public | pets | table\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "pg_catalog") {
		t.Errorf("the system's own tables are listed:\n%s", out)
	}
}

func TestAViewHasNoIndexes(t *testing.T) {
	out, _, err := typed(t, "create view cats as select 1 as id;\n\\d cats\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, " id     | integer |") || strings.Contains(out, "Index") {
		t.Errorf("got:\n%s", out)
	}
}

func TestALongResultIsCut(t *testing.T) {
	out, _, err := typed(t, "select generate_series(1, 10001);", false)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out, "\n"); lines > queue.ShellRows+4 || !strings.Contains(out, "(10001 rows, of which the first 10000 are shown)") {
		t.Errorf("%d lines, which end in %q", lines, out[max(0, len(out)-80):])
	}
}

func TestAStatementThatNeverEndsIsRefused(t *testing.T) {
	for _, piece := range []string{"xxxxxxxx", "xxxxxxx\n"} {
		var out bytes.Buffer
		s := Shell{In: io.MultiReader(strings.NewReader("select '"), strings.NewReader(strings.Repeat(piece, queue.ShellStatementBytes/8))), Out: &out, Talk: terminal.Plain(&out, 0)}
		if err := s.Run(t.Context(), clustertest.NewDatabase(t).OwnerURL()); err == nil || fault.From(err).Code != CodeTooLong {
			t.Errorf("got %v", err)
		}
	}
}

func TestWithoutADatabase(t *testing.T) {
	s := Shell{In: strings.NewReader(""), Out: io.Discard, Talk: terminal.Plain(io.Discard, 0)}
	err := s.Run(t.Context(), "postgres://me:secret@/none?host="+t.TempDir())
	if err == nil || fault.From(err).Code != CodeUnreachable || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// A read of a terminal cannot be interrupted; the shell ends all the same.
func TestAnInterruptEndsIt(t *testing.T) {
	in, hold := io.Pipe()
	defer hold.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := prompted{seen: make(chan struct{}, 1)}
	s := Shell{In: in, Out: &out, Talk: terminal.Plain(io.Discard, 0), Interactive: true}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, clustertest.NewDatabase(t).OwnerURL()) }()
	<-out.seen
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// prompted tells when the prompt is there.
type prompted struct{ seen chan struct{} }

func (p *prompted) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("=> ")) {
		p.seen <- struct{}{}
	}
	return len(b), nil
}

func TestPsqlIsGivenNoPasswordAsAnArgument(t *testing.T) {
	args, env, err := psql("/bin/psql", "postgres://app:se%40cret@/app?host=%2Ftmp%2Fx", false, []string{"HOME=/x", "PGPASSWORD=other"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/psql", "--dbname=postgres://app@/app?host=%2Ftmp%2Fx", "--set=ON_ERROR_STOP=1"}, args); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"HOME=/x", "PGPASSWORD=se@cret"}, env); diff != "" {
		t.Error(diff)
	}
	if args, _, _ := psql("psql", "postgres://app@/app", true, nil); len(args) != 2 {
		t.Errorf("a person at a terminal goes on after a mistake: %q", args)
	}
}
