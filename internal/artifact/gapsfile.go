package artifact

import (
	"errors"
	"fmt"
	"time"

	"anvil-capacity/internal/record"
)

// GapsSchema is the schema of a gaps file's first line.
const GapsSchema = "anvil-capacity.gaps/v1"

// GapsSuffix ends the name of a gaps file: <run>-gaps.jsonl beside <run>.json.
const GapsSuffix = "-gaps.jsonl"

// GapsFile keeps all gaps between the output events of each request of a run,
// which the artifact has as histograms. It is a file of JSON lines: first a
// [GapsHeader], then a [GapsRow] for each request that had output, in the order
// in which they ended. Safe for concurrent use.
type GapsFile struct{ lines *lineFile }

// GapsHeader is the first line of a gaps file.
type GapsHeader struct {
	Schema string `json:"schema"`
	// Artifact is the file name of the native artifact beside it.
	Artifact string `json:"artifact"`
}

// GapsRow is one request of a gaps file.
type GapsRow struct {
	RequestIndex int `json:"request_index"`
	// FirstOutputMS is the time from the start of the request to its first output
	// event, which is its TTFO where it completed.
	FirstOutputMS float64 `json:"first_output_ms"`
	// GapsMS are the times from each output event to the next, in milliseconds,
	// exact to the nanosecond. Events that one read brought have gaps of 0.
	GapsMS []float64 `json:"gaps_ms"`
	// Truncated says that the request had more output events than are kept.
	Truncated bool `json:"truncated,omitempty"`
}

// CreateGapsFile starts a gaps file at path for the artifact of that file name.
// The file must not exist.
func CreateGapsFile(path, artifactName string) (*GapsFile, error) {
	g, err := createGapsFile(path, artifactName)
	if err != nil {
		return nil, fmt.Errorf("creating gaps file %q (%s): %w", path, DirVariable, err)
	}
	return g, nil
}

func createGapsFile(path, artifactName string) (*GapsFile, error) {
	lines, err := createLines(path)
	if err != nil {
		return nil, err
	}
	if err := lines.write(GapsHeader{Schema: GapsSchema, Artifact: artifactName}); err != nil {
		return nil, errors.Join(err, lines.remove())
	}
	return &GapsFile{lines}, nil
}

// Append writes the output events of one request, by their times from its start;
// nothing for a request without output. truncated says that there were more.
// After a write that failed every call returns that first error.
func (g *GapsFile) Append(requestIndex int, arrivals []time.Duration, truncated bool) error {
	if len(arrivals) == 0 {
		return nil
	}
	row := GapsRow{RequestIndex: requestIndex, FirstOutputMS: record.MS(arrivals[0]), GapsMS: make([]float64, len(arrivals)-1), Truncated: truncated}
	for i := range row.GapsMS {
		row.GapsMS[i] = record.MS(arrivals[i+1] - arrivals[i])
	}
	if err := g.lines.write(row); err != nil {
		return fmt.Errorf("appending request %d to gaps file %q (%s): %w", requestIndex, g.lines.path, DirVariable, err)
	}
	return nil
}

// Close brings the file to the disk and ends it.
func (g *GapsFile) Close() error {
	if err := g.lines.close(); err != nil {
		return fmt.Errorf("closing gaps file %q (%s): %w", g.lines.path, DirVariable, err)
	}
	return nil
}

// Remove ends and deletes the file, of a run that sent nothing.
func (g *GapsFile) Remove() error { return g.lines.remove() }
