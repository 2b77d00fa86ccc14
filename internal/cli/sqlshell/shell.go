// Package sqlshell is a small shell for SQL, for where there is no psql: it reads statements, runs them and prints tables.
package sqlshell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Codes of the faults that Run returns.
const (
	CodeUnreachable = "database_unreachable"
	CodeStatement   = "statement_failed"
	CodeTooLong     = "statement_size"
)

// Shell is where a shell reads and writes.
type Shell struct {
	In io.Reader
	// Out takes rows and prompts, Talk errors and notices.
	Out  io.Writer
	Talk *terminal.Output
	// Interactive is whether a person types: then there are prompts, and a mistake ends nothing.
	Interactive bool
}

// Run connects to a database and runs what it reads until the end or \q. Without a person, the first mistake ends it:
// statement_failed (conflict). It returns database_unreachable (unavailable) where there is no connection or it breaks,
// and statement_size (limit) for a statement of more than queue.ShellStatementBytes.
func (s *Shell) Run(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fault.New(fault.Invalid, CodeUnreachable, "the address of the database cannot be read").WithCause(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		s.Talk.Printf("%s:  %s\n", terminal.Clean(n.Severity), terminal.Clean(n.Message))
	}
	config.RuntimeParams["application_name"] = "runlot pg shell"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fault.New(fault.Unavailable, CodeUnreachable, "the database does not answer").
			WithHint("is the project running under \"runlot dev\"?").WithCause(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if s.Interactive {
		s.printf("A small shell for SQL. A statement ends with a semicolon; \\? is help, \\q leaves.\n")
	}
	return s.loop(ctx, &session{shell: s, conn: conn.PgConn()}, config.Database)
}

func (s *Shell) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }

// read is a line, or why there is none.
type read struct {
	line string
	err  error
}

// loop reads lines until they end. Nothing can interrupt the reading of a terminal, so a goroutine does it, which ends
// with its input or with the program.
func (s *Shell) loop(ctx context.Context, to *session, database string) error {
	lines, more := make(chan read), make(chan struct{})
	defer close(more)
	go func() {
		in := bufio.NewReader(s.In)
		for range more {
			line, err := readLine(in)
			select {
			case lines <- read{line, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var scan scanner
	for {
		if s.Interactive {
			mark := "=>"
			if scan.pending() {
				mark = "->"
			}
			s.printf("%s%s ", database, mark)
		}
		more <- struct{}{}
		var next read
		select {
		case next = <-lines:
		case <-ctx.Done():
			return nil
		}
		if next.err != nil && !errors.Is(next.err, io.EOF) {
			return next.err
		}
		quit, err := s.take(ctx, to, &scan, next.line)
		if err != nil || quit {
			return err
		}
		if next.err != nil {
			if s.Interactive {
				s.printf("\n")
				return nil // what a person has not ended is not meant
			}
			if text := scan.rest(); text != "" {
				return s.judge(to.run(ctx, text), to)
			}
			return nil
		}
	}
}

// readLine reads a line with its end. The last one may have none.
func readLine(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		b.Write(part)
		if b.Len() > queue.ShellStatementBytes {
			return "", tooLong()
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b.String(), err
		}
	}
}

func tooLong() error {
	return fault.New(fault.Limit, CodeTooLong, "a statement has more than %d bytes", queue.ShellStatementBytes).
		WithHint("psql takes larger ones")
}

// take does what a line asks for.
func (s *Shell) take(ctx context.Context, to *session, scan *scanner, line string) (quit bool, err error) {
	if command := strings.TrimSpace(line); !scan.pending() && strings.HasPrefix(command, `\`) {
		scan.rest()
		quit, err := to.command(ctx, command)
		return quit, s.judge(err, to)
	}
	if scan.text.Len()+len(line) > queue.ShellStatementBytes {
		return false, tooLong()
	}
	for _, statement := range scan.line(line) {
		if err := s.judge(to.run(ctx, statement), to); err != nil {
			return false, err
		}
	}
	return false, nil
}

// judge shows an error, and returns what ends the shell.
func (s *Shell) judge(err error, to *session) error {
	if err == nil {
		return nil
	}
	broken := fault.New(fault.Unavailable, CodeUnreachable, "the connection to the database is gone").WithCause(err)
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok && to.conn.IsClosed():
		return broken
	case !s.Interactive:
		failed := fault.New(fault.Conflict, CodeStatement, "%s", terminal.Clean(err.Error())).WithCause(err)
		if ok {
			failed.Message = terminal.Clean(e.Message) + " (SQLSTATE " + e.Code + ")"
			failed.Hint = terminal.Clean(e.Hint)
		}
		return failed
	case !ok:
		s.Talk.Printf("%s %s\n", s.Talk.Paint(terminal.Red, "error:"), terminal.Clean(err.Error()))
		return nil
	}
	s.Talk.Printf("%s  %s\n", s.Talk.Paint(terminal.Red, e.Severity+":"), terminal.Clean(e.Message))
	if e.Detail != "" {
		s.Talk.Printf("DETAIL:  %s\n", terminal.Clean(e.Detail))
	}
	if e.Hint != "" {
		s.Talk.Printf("HINT:  %s\n", terminal.Clean(e.Hint))
	}
	if to.conn.IsClosed() {
		return broken
	}
	return nil
}

// session runs statements on a connection.
type session struct {
	shell *Shell
	conn  *pgconn.PgConn
}

var copies = regexp.MustCompile(`(?is)^\s*copy\b.*\b(from\s+stdin|to\s+stdout)\b`)

// run runs statements and prints what each returns.
func (s *session) run(ctx context.Context, statements string) error {
	if copies.MatchString(statements) {
		return errors.New("this shell has no COPY from or to itself; psql has")
	}
	results := s.conn.Exec(ctx, statements)
	for results.NextResult() {
		if err := s.print(results.ResultReader()); err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}

// print prints the rows of a result as a table, or what was done where there are none.
func (s *session) print(result *pgconn.ResultReader) error {
	fields := result.FieldDescriptions()
	header := make([]string, len(fields))
	numeric := make([]bool, len(fields))
	for i := range fields {
		header[i] = terminal.Clean(fields[i].Name)
		switch fields[i].DataTypeOID {
		case 20, 21, 23, 26, 700, 701, 1700: // the numbers of PostgreSQL
			numeric[i] = true
		}
	}
	var rows [][]string
	count := 0
	for result.NextRow() {
		if count++; count > queue.ShellRows {
			continue
		}
		row := make([]string, len(fields))
		for i, value := range result.Values() {
			row[i] = terminal.Clean(string(value))
		}
		rows = append(rows, row)
	}
	tag, err := result.Close()
	if err != nil {
		return err
	}
	if len(fields) == 0 && !strings.HasPrefix(tag.String(), "SELECT") {
		s.shell.printf("%s\n", tag.String())
		return nil
	}
	table(s.shell.Out, header, numeric, rows)
	switch {
	case count == 1:
		s.shell.printf("(1 row)\n\n")
	case count > queue.ShellRows:
		s.shell.printf("(%d rows, of which the first %d are shown)\n\n", count, queue.ShellRows)
	default:
		s.shell.printf("(%d rows)\n\n", count)
	}
	return nil
}

// table writes rows as psql does: aligned, numbers to the right.
func table(out io.Writer, header []string, numeric []bool, rows [][]string) {
	widths := make([]int, len(header))
	for i := range header {
		widths[i] = utf8.RuneCountInString(header[i])
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	line := func(cells []string, right func(i int) bool) {
		for i, cell := range cells {
			if i > 0 {
				b.WriteString(" |")
			}
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case right(i):
				b.WriteString(" " + space + cell)
			case i == len(cells)-1:
				b.WriteString(" " + cell)
			default:
				b.WriteString(" " + cell + space)
			}
		}
		b.WriteByte('\n')
	}
	line(header, func(int) bool { return false })
	for i, w := range widths {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strings.Repeat("-", w+2))
	}
	b.WriteByte('\n')
	for _, row := range rows {
		line(row, func(i int) bool { return numeric[i] })
	}
	_, _ = io.WriteString(out, b.String())
}
