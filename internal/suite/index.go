package suite

import (
	"path/filepath"

	"anvil-capacity/internal/artifact"
)

// IndexPath is where the index of a session goes.
func (s *Session) IndexPath() string {
	return filepath.Join(s.Settings.ArtifactDir, s.stem+"-index.json")
}

// WriteIndex lists the runs of the session in one file, in the order in which
// they were taken. A session of one run needs none: path is "" then.
func (s *Session) WriteIndex(outcomes Outcomes) (path string, err error) {
	if len(s.Turns) < 2 {
		return "", nil
	}
	index := artifact.Index{Schema: artifact.IndexSchema, Run: s.stem, Runs: []artifact.IndexRun{}}
	for _, turn := range s.Turns {
		for _, f := range outcomes[turn.Cell.Name] {
			if f.Turn.Arm != turn.Arm || f.Turn.Repeat != turn.Repeat {
				continue
			}
			entry, err := indexRun(f)
			if err != nil {
				return "", err
			}
			index.Runs = append(index.Runs, entry)
		}
	}
	path = s.IndexPath()
	return path, artifact.Write(path, index)
}

func indexRun(f Finished) (artifact.IndexRun, error) {
	digest, err := artifact.HashFile(f.Outcome.NativePath)
	if err != nil {
		return artifact.IndexRun{}, err
	}
	entry := artifact.IndexRun{
		Cell: f.Turn.Cell.Name, Arm: f.Turn.Arm, Repeat: f.Turn.Repeat, Seed: f.Turn.Seed,
		Artifact: filepath.Base(f.Outcome.NativePath), SHA256: digest,
		Complete: f.Outcome.Cause == nil, Failed: f.Outcome.Native.Failed,
	}
	if f.Outcome.SummaryPath != "" {
		entry.Summary = new(filepath.Base(f.Outcome.SummaryPath))
	}
	return entry, nil
}
