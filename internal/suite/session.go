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
	// Cells are the points of the matrix, in the order in which they run.
	Cells []config.Cell

	stem    string
	rootCAs *x509.CertPool
}

// Open checks all that can be checked without the server: that thresholds name
// metrics, that evidence can be written and would overwrite none. Every error
// stops the run before its first request. now names the evidence where
// CAPACITY_RUN does not.
func Open(s config.Settings, now time.Time) (*Session, error) {
	session := &Session{Settings: s, Cells: s.Cells(), stem: s.Run}
	if session.stem == "" {
		session.stem = "capacity-" + now.UTC().Format("20060102T150405Z")
	}
	var faults []error
	faults = append(faults, gate.Check(s.Thresholds), artifact.CheckWritable(s.ArtifactDir), session.checkNames())
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
}

// paths names the files of a cell: <run>.json where the run is one cell,
// <run>-<cell>.json in a matrix; suffix tells a scout from its cell.
func (s *Session) paths(cell config.Cell, suffix string) Paths {
	stem := s.stem
	if len(s.Cells) > 1 {
		stem += "-" + cell.Name
	}
	base := filepath.Join(s.Settings.ArtifactDir, stem+suffix)
	return Paths{
		Native:  base + ".json",
		Summary: base + "-summary.json",
		Partial: base + ".partial.json",
		Journal: base + artifact.JournalSuffix,
	}
}

// scoutSuffix ends the file stem of a scout's evidence.
const scoutSuffix = "-scout"

// checkNames refuses a run whose evidence would meet that of another.
func (s *Session) checkNames() error {
	var taken []string
	for _, cell := range s.Cells {
		for _, suffix := range []string{"", scoutSuffix} {
			p := s.paths(cell, suffix)
			for _, path := range []string{p.Native, p.Summary, p.Partial, p.Journal} {
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
