package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// cellsDir is where the repository keeps cell files; messages show it.
	cellsDir = "fixtures/cells"
	// cellSuffix ends the name of a cell file.
	cellSuffix = ".env"
)

// line is one setting of a cell file.
type line struct {
	number int
	name   string // as written, CAPACITY_ taken off
	text   string // unquoted and trimmed
}

// openCell reads the file of a cell. A want other than "" says why there is none.
func openCell(cells fs.FS, name string) (content []byte, want, hint string) {
	if !isToken(name, "._-") {
		return nil, "the name of a cell file: letters, digits and . _ -", "no path: the files are looked for in " + cellsDir
	}
	if cells == nil {
		return nil, "no name: this build has no cell files", ""
	}
	f, err := cells.Open(name + cellSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "a cell file that can be read", withoutPath(err).Error()
	}
	if err != nil {
		return nil, "a cell file in " + cellsDir, hintOfCells(cells, name)
	}
	defer func() { _ = f.Close() }()
	content, err = readUpTo(f, cellFileMaxBytes)
	if err != nil {
		return nil, "a cell file that can be read", err.Error()
	}
	return content, "", ""
}

// hintOfCells says which cell files there are, and which one name is near to.
func hintOfCells(cells fs.FS, name string) string {
	files, err := fs.Glob(cells, "*"+cellSuffix)
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, cellSuffix)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !isToken(f, "._-") }) // these cannot be named
	if err != nil || len(files) == 0 {
		return "it has none"
	}
	slices.Sort(files)
	hint := "there are " + strings.Join(files, ", ")
	if near := maybe(strings.TrimSuffix(name, cellSuffix), files); near != "" {
		hint += "; " + near
	}
	return hint
}

// parseCell reads KEY=VALUE lines. Faults are placed by line number alone and
// never repeat the line: it may hold a secret in the wrong place.
//
// A line is blank, a comment (# first), or a name, '=' and a value. The name may
// leave CAPACITY_ out. A value in single or double quotes stands as it is
// between them; without quotes it ends before white space and '#'. There are no
// escapes and no expansion, so '$' and '\' are themselves.
func parseCell(file string, content []byte) (lines []line, faults []Fault) {
	number := 0
	text := strings.TrimPrefix(string(content), "\ufeff")
	for raw := range strings.SplitSeq(text, "\n") {
		number++
		l, problem := parseLine(strings.TrimSpace(raw))
		if problem != "" {
			faults = append(faults, Fault{Where: fmt.Sprintf("%s:%d", file, number), Problem: problem})
			continue
		}
		if l.name != "" {
			l.number = number
			lines = append(lines, l)
		}
	}
	return lines, faults
}

// parseLine gives no name for a blank line or a comment.
func parseLine(text string) (l line, problem string) {
	if text == "" || text[0] == '#' {
		return line{}, ""
	}
	if !utf8.ValidString(text) || strings.IndexFunc(text, isControl) >= 0 {
		return line{}, "got bytes that are not text, want NAME=VALUE in UTF-8"
	}
	name, rest, found := strings.Cut(text, "=")
	name = strings.TrimPrefix(strings.TrimSpace(name), Prefix)
	switch {
	case strings.HasPrefix(name, "export "):
		return line{}, "got an export, want NAME=VALUE; this is not read by a shell"
	case !found || name == "" || !isMadeOf(name, "_"):
		return line{}, "got a line of another form, want NAME=VALUE or a comment that begins with #"
	}
	value, problem := unquote(strings.TrimSpace(rest))
	return line{name: name, text: strings.TrimSpace(value)}, problem
}

// unquote takes quotes and a comment at the end off a value.
func unquote(text string) (value, problem string) {
	if text == "" || text[0] != '\'' && text[0] != '"' {
		return cutComment(text), ""
	}
	value, rest, closed := strings.Cut(text[1:], text[:1])
	if !closed {
		return "", "got an opening quote alone, want a closing one too"
	}
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return "", "got text after the closing quote, want none"
	}
	return value, ""
}

// cutComment drops a '#' that begins the value or follows white space, and what
// is after it.
func cutComment(text string) string {
	for i := range len(text) {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t') {
			return text[:i]
		}
	}
	return text
}
