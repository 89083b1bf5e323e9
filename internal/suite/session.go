package suite

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/config"
	"anvil-capacity/internal/gate"
)

// Session is what the cells of one run share.
type Session struct {
	Settings config.Settings
	// Cells are the points of the matrix; Turns are all runs of them, in order.
	Cells []config.Cell
	Turns []Turn

	stem    string
	rootCAs *x509.CertPool
	halted  error // why no further cell may start; nil while they may
}

// halt keeps further cells from starting; nil changes nothing.
func (s *Session) halt(err error) {
	if s.halted == nil {
		s.halted = err
	}
}

// Open checks all that can be checked without the server: that thresholds name
// metrics, that evidence can be written and would overwrite none. Every error
// stops the run before its first request. now names the evidence where
// CAPACITY_RUN does not.
func Open(s config.Settings, now time.Time) (*Session, error) {
	session := &Session{Settings: s, Cells: s.Cells(), Turns: turns(s), stem: s.Run}
	if session.stem == "" {
		session.stem = "capacity-" + now.UTC().Format("20060102T150405Z")
	}
	var faults []error
	faults = append(faults, gate.Check(s.Thresholds), gate.CheckRegressions(s.MaxRegression), artifact.CheckWritable(s.ArtifactDir), session.checkNames())
	pool, err := rootCAs(s.CAFile)
	session.rootCAs = pool
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	return session, nil
}

// rootCAs reads the private authorities; nil is the system's pool.
func rootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading CAPACITY_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading CAPACITY_CA_FILE %q: no PEM certificate in it", file)
	}
	return pool, nil
}

// Paths are the files that one run of a plan leaves behind.
type Paths struct {
	Native  string
	Summary string
	// Partial takes the place of Native for a run that was cut short.
	Partial string
	Journal string
	// Gaps has all gaps between output events, where CAPACITY_GAPS asks for them.
	Gaps string
}

// paths names the files of a run: <run>.json where there is one cell,
// <run>-<cell>.json in a matrix, with the turn's name behind where a cell has
// several; suffix tells a scout from its cell.
func (s *Session) paths(turn Turn, suffix string) Paths {
	stem := s.stem
	if len(s.Cells) > 1 {
		stem += "-" + turn.Cell.Name
	}
	base := filepath.Join(s.Settings.ArtifactDir, stem+turn.suffix()+suffix)
	return Paths{
		Native:  base + ".json",
		Summary: base + "-summary.json",
		Partial: base + partialSuffix,
		Journal: base + artifact.JournalSuffix,
		Gaps:    base + artifact.GapsSuffix,
	}
}

// Ends of file names: of a partial artifact, and of the file stem of a scout's
// evidence.
const (
	partialSuffix = ".partial.json"
	scoutSuffix   = "-scout"
)

// checkNames refuses a run whose evidence would meet that of another.
func (s *Session) checkNames() error {
	var taken []string
	for _, turn := range s.Turns {
		for _, suffix := range []string{"", scoutSuffix} {
			p := s.paths(turn, suffix)
			for _, path := range []string{p.Native, p.Summary, p.Partial, p.Journal, p.Gaps} {
				if _, err := os.Lstat(path); err == nil {
					taken = append(taken, path)
				}
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fmt.Errorf("naming the evidence of run %q (CAPACITY_RUN): it would overwrite %s; choose another name, or move the old files away",
		s.stem, strings.Join(taken, ", "))
}
