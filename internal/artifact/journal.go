package artifact

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"anvil-capacity/internal/record"
)

// JournalSchema is the schema of a journal's first line.
const JournalSchema = "anvil-capacity.journal/v1"

// JournalSuffix ends the name of a journal: <run>.journal beside <run>.json.
const JournalSuffix = ".journal"

// ErrJournalLive says that the run of a journal has not ended: its process
// still holds the file.
var ErrJournalLive = errors.New("the run that writes this journal has not ended")

// Journal keeps the records of a cell on disk while it runs, so that a kill -9
// loses at most the requests in flight. It is a file of JSON lines: first the
// facts of the run, then one line a finished record.
//
// Lines are not fsynced: what was written survives the death of the process in
// the page cache, and a sync a line would cost milliseconds in the measuring
// loop. Only a crash of the whole machine can lose what the kernel had not yet
// brought to the disk. The first line and Close are fsynced.
//
// The caller removes the journal (Remove) once the final artifact is written.
// Safe for concurrent use.
type Journal struct {
	lines  *lineFile
	opened time.Time // the clock of at_ms
}

// journalHeader is the first line.
type journalHeader struct {
	Schema          string `json:"schema"`
	StartedAtUnixNS int64  `json:"started_at_unix_ns"`
	Facts           *Facts `json:"facts"`
}

// journalLine is every other line: a completed request or a failed one.
type journalLine struct {
	// AtMS is when the line was made, milliseconds after the header.
	AtMS          float64     `json:"at_ms"`
	RequestTiming *Row        `json:"request_timing,omitempty"`
	Failure       *FailureRow `json:"failure,omitempty"`
}

// CreateJournal starts a journal at path, just before the first request. The
// file must not exist. The base URL is made safe before it is written.
func CreateJournal(path string, facts Facts) (*Journal, error) {
	j, err := createJournal(path, facts)
	if err != nil {
		return nil, fmt.Errorf("creating journal %q (%s): %w", path, DirVariable, err)
	}
	return j, nil
}

func createJournal(path string, facts Facts) (*Journal, error) {
	lines, err := createLines(path)
	if err != nil {
		return nil, err
	}
	j := &Journal{lines: lines, opened: time.Now()}
	if err := j.begin(facts); err != nil {
		return nil, errors.Join(err, lines.remove())
	}
	return j, nil
}

// begin takes the lock and writes the first line to the disk.
func (j *Journal) begin(facts Facts) error {
	if err := lockJournal(j.lines.file); err != nil {
		return err
	}
	facts.BaseURL = SafeBaseURL(facts.BaseURL)
	if facts.Suite.Name == "" {
		facts.Suite = ThisSuite()
	}
	if err := j.lines.write(journalHeader{Schema: JournalSchema, StartedAtUnixNS: j.opened.UnixNano(), Facts: &facts}); err != nil {
		return err
	}
	if err := j.lines.file.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(j.lines.path))
}

// Append writes one finished record. After a write that failed the journal
// takes no more lines and every call returns that first error; the run may go
// on, and the final artifact does not depend on the journal.
func (j *Journal) Append(r record.Record) error {
	line := journalLine{AtMS: record.MS(time.Since(j.opened))}
	if r.Completed() {
		line.RequestTiming = new(rowOf(&r))
	} else {
		line.Failure = new(failureRowOf(&r))
	}
	if err := j.lines.write(line); err != nil {
		return fmt.Errorf("appending request %d to journal %q (%s): %w", r.RequestIndex, j.lines.path, DirVariable, err)
	}
	return nil
}

// Path is where the journal is.
func (j *Journal) Path() string { return j.lines.path }

// Close brings the journal to the disk and leaves it there, for Recover.
func (j *Journal) Close() error {
	if err := j.lines.close(); err != nil {
		return fmt.Errorf("closing journal %q: %w", j.lines.path, err)
	}
	return nil
}

// Remove closes the journal and deletes it: its records stand in an artifact.
func (j *Journal) Remove() error {
	if err := j.lines.remove(); err != nil {
		return fmt.Errorf("removing journal: %w", err)
	}
	return nil
}
