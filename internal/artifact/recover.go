package artifact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"anvil-capacity/internal/record"
)

// JournalLineLimitBytes bounds one line of a journal. The longest record, with
// a full message and a capture full of foreign markers, is far below it.
const JournalLineLimitBytes = 1 << 20

// Recovery is what a journal held.
type Recovery struct {
	// Native is partial, always: it can be written with Write and passes no gate.
	Native Native
	// TornLines is 1 when the last line was cut off in the middle, as a kill does.
	TornLines int
	// Corrupt lists the lines before the last that could not be used. They say
	// that something else than the end of the process damaged the file.
	Corrupt []CorruptLine
}

// CorruptLine is a line of a journal that could not be used. Line counts from 1.
type CorruptLine struct {
	Line int
	Err  error
}

func (l CorruptLine) String() string { return fmt.Sprintf("line %d: %v", l.Line, l.Err) }

// maxNotedLines bounds how many corrupt lines the artifact's notes describe.
const maxNotedLines = 10

// maxJournalMS bounds the times in a journal: ten years, so that a damaged digit
// cannot push the artifact's timestamps out of what they can hold.
const maxJournalMS = 10 * 365 * 24 * 3600e3

// Recover turns the journal of a run that died into a partial artifact of the
// records that it had finished. A torn last line is counted and left out;
// damage further up is reported line by line and costs only those lines. The
// error is for a journal without a usable first line, one that is still being
// written (ErrJournalLive), or a file that cannot be read. The journal is left
// as it is: remove it once the artifact is written.
func Recover(path string) (Recovery, error) {
	r, err := recoverFile(path)
	if err != nil {
		return Recovery{}, fmt.Errorf("recovering journal %q: %w", path, err)
	}
	return r, nil
}

func recoverFile(path string) (Recovery, error) {
	f, err := os.Open(path)
	if err != nil {
		return Recovery{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Recovery{}, err
	}
	if !info.Mode().IsRegular() {
		return Recovery{}, fmt.Errorf("not a regular file: %s", info.Mode().Type())
	}
	if journalLive(f) {
		return Recovery{}, ErrJournalLive
	}
	return recoverFrom(filepath.Base(path), io.LimitReader(f, FileLimitBytes))
}

// recoverFrom is Recover on a stream.
func recoverFrom(name string, r io.Reader) (Recovery, error) {
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	header, err := readHeader(&lines)
	if err != nil {
		return Recovery{}, err
	}
	s := salvage{requests: header.Facts.Requests, seen: map[int]bool{}}
	for {
		line, ended, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return Recovery{}, err
		}
		s.take(lines.number, line, ended, err)
	}
	return s.recovery(name, header), nil
}

func readHeader(lines *lineReader) (journalHeader, error) {
	line, ended, err := lines.next()
	if errors.Is(err, io.EOF) {
		return journalHeader{}, ErrEmpty
	}
	if err != nil {
		return journalHeader{}, err
	}
	var header journalHeader
	if err := json.Unmarshal(line, &header); err != nil {
		if !ended {
			return journalHeader{}, errors.New("the first line is cut off: the run died before its first request")
		}
		return journalHeader{}, fmt.Errorf("%w: first line is not a journal's: %w", ErrSchema, err)
	}
	if header.Schema != JournalSchema || header.Facts == nil {
		return journalHeader{}, fmt.Errorf("%w: got %q, want %q with its facts", ErrSchema, clipText(header.Schema), JournalSchema)
	}
	if n := header.Facts.Requests; n < 1 || n > MaxRequests {
		return journalHeader{}, fmt.Errorf("facts say %d requests, want 1 to %d", n, MaxRequests)
	}
	return header, nil
}

// salvage collects the usable records of a journal.
type salvage struct {
	requests int
	seen     map[int]bool
	records  []record.Record
	startsMS []float64 // of each record, on the journal's clock
	torn     int
	corrupt  []CorruptLine
}

// take uses one line or says why it cannot. ended is false for a last line
// without its line end; it counts when it is whole.
func (s *salvage) take(number int, line []byte, ended bool, err error) {
	if err == nil {
		err = s.parse(line)
	}
	switch {
	case err == nil:
	case !ended:
		s.torn++
	default:
		s.corrupt = append(s.corrupt, CorruptLine{Line: number, Err: err})
	}
}

func (s *salvage) parse(line []byte) error {
	var l journalLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	var r record.Record
	switch {
	case l.RequestTiming != nil && l.Failure == nil:
		r = l.RequestTiming.Record()
	case l.Failure != nil && l.RequestTiming == nil:
		r = l.Failure.Record()
	default:
		return errors.New("neither one request_timing nor one failure")
	}
	for _, ms := range []float64{l.AtMS, r.StartMS, r.ElapsedMS} {
		if ms < 0 || ms > maxJournalMS {
			return fmt.Errorf("time %v ms, want 0 to %v", ms, maxJournalMS)
		}
	}
	if r.RequestIndex < 0 || r.RequestIndex >= s.requests {
		return fmt.Errorf("request_index is %d, want 0 to %d", r.RequestIndex, s.requests-1)
	}
	if s.seen[r.RequestIndex] {
		return fmt.Errorf("request_index %d has a line already", r.RequestIndex)
	}
	s.seen[r.RequestIndex] = true
	s.records = append(s.records, r)
	s.startsMS = append(s.startsMS, l.AtMS-r.ElapsedMS)
	return nil
}

// recovery builds the partial artifact.
func (s *salvage) recovery(name string, header journalHeader) Recovery {
	firstMS, wallMS := s.timeline()
	started := time.Unix(0, header.StartedAtUnixNS).Add(time.Duration(firstMS * 1e6))
	n := Build(Run{
		Facts: *header.Facts, Records: s.records, StartedAt: started, WallMS: wallMS,
		IncompleteReason: fmt.Sprintf("recovered from journal %s: the run ended before it wrote its artifact, with %d of %d requests recorded", name, len(s.records), s.requests),
	})
	n.Harness.Recovered = &Recovered{Journal: name, TornLines: s.torn, CorruptLines: len(s.corrupt)}
	for _, line := range s.corrupt[:min(len(s.corrupt), maxNotedLines)] {
		n.Harness.Notes = append(n.Harness.Notes, "journal "+line.String())
	}
	return Recovery{Native: n, TornLines: s.torn, Corrupt: s.corrupt}
}

// timeline puts the records on one clock that starts with the first of them,
// and gives that start on the journal's clock. Where no record says when it
// started, it is its line's time less its duration.
func (s *salvage) timeline() (firstMS, wallMS float64) {
	if len(s.records) == 0 {
		return 0, 0
	}
	firstMS = math.Inf(1)
	known := false
	for i := range s.records {
		firstMS = min(firstMS, s.startsMS[i])
		known = known || s.records[i].StartMS != 0
	}
	if !known {
		for i := range s.records {
			s.records[i].StartMS = s.startsMS[i] - firstMS
		}
	}
	first, last, _ := extent(s.records)
	return firstMS, last - first
}

// errLongLine is a line beyond JournalLineLimitBytes; the reader has skipped it.
var errLongLine = fmt.Errorf("line has more than %d bytes", JournalLineLimitBytes)

// lineReader reads lines of bounded length and can go on after a longer one.
type lineReader struct {
	r      *bufio.Reader
	number int // of the line that next returned, from 1
}

// next gives the next line without its line end. ended is false for a last line
// that has none. The error is io.EOF after the last line, errLongLine for one
// that was skipped, or the reader's.
func (l *lineReader) next() (line []byte, ended bool, err error) {
	l.number++
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if !long && len(line)+len(part) > JournalLineLimitBytes+1 {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			if long {
				return nil, true, errLongLine
			}
			return bytes.TrimSuffix(line, []byte("\n")), true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (long || len(line) > 0):
			if long || len(line) > JournalLineLimitBytes {
				return nil, false, errLongLine
			}
			return line, false, nil
		default:
			return nil, false, err
		}
	}
}
