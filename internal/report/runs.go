package report

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"anvil-capacity/internal/artifact"
)

// Run is one run of a cell with the name that it goes by.
type Run struct {
	// Name is the cell, and the repeat behind it where there are several.
	Name string
	// File is the artifact's path.
	File   string
	Native *artifact.Native
}

// ReadRuns reads native artifacts, and the runs that an index lists: those of
// its first arm, since the second arm of an A/A comparison is a control. A
// derived summary is refused, for it has no requests. Every error names a file.
func ReadRuns(paths ...string) ([]Run, error) {
	var runs []Run
	for _, path := range paths {
		more, err := readRuns(path)
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	return runs, nil
}

func readRuns(path string) ([]Run, error) {
	schema, err := artifact.SchemaOf(path)
	if err != nil {
		return nil, err
	}
	switch schema {
	case artifact.IndexSchema:
		return readIndexed(path)
	case artifact.SummarySchema:
		return nil, fmt.Errorf("reading %q: it is a derived summary, which holds no requests; name the native artifact", path)
	}
	native, err := artifact.ReadNative(path)
	if err != nil {
		return nil, err
	}
	return []Run{{Name: CellName(&native), File: path, Native: &native}}, nil
}

// firstArm is the arm of an index that stands for the build.
const firstArm = "a"

func readIndexed(path string) ([]Run, error) {
	index, err := artifact.ReadIndex(path)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, entry := range index.Runs {
		if entry.Arm != firstArm {
			continue
		}
		file := filepath.Join(filepath.Dir(path), entry.Artifact)
		native, err := artifact.ReadNative(file)
		if err != nil {
			return nil, err
		}
		runs = append(runs, Run{Name: fmt.Sprintf("%s/r%d", entry.Cell, entry.Repeat), File: file, Native: &native})
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("reading index %q: it lists no run of arm %s", path, firstArm)
	}
	return runs, nil
}

// CellName gives an artifact the name that the suite gives its cell,
// c4-ctx2048-w16: the artifact itself does not hold it.
func CellName(n *artifact.Native) string {
	return fmt.Sprintf("c%d-ctx%s-w%d", n.Concurrency, contextName(n), words(n))
}

func words(n *artifact.Native) int {
	if n.ResponseWords == nil {
		return 0
	}
	return *n.ResponseWords
}

// contextName is 2048, or 8192x3_32768x1 for a distribution: its sizes with the
// requests that were planned of each, without a common factor.
func contextName(n *artifact.Native) string {
	if n.ContextTokens != nil {
		return strconv.Itoa(*n.ContextTokens)
	}
	sizes := slices.SortedFunc(maps.Keys(n.ContextDistribution), func(a, b string) int {
		if len(a) != len(b) { // sizes are whole numbers: the shorter one is smaller
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	switch len(sizes) {
	case 0:
		return "unknown"
	case 1:
		return sizes[0]
	}
	common := 0
	for _, size := range sizes {
		common = divisor(common, n.ContextDistribution[size])
	}
	for i, size := range sizes {
		sizes[i] = fmt.Sprintf("%sx%d", size, n.ContextDistribution[size]/max(common, 1))
	}
	return strings.Join(sizes, "_")
}

// divisor is the greatest common divisor of two counts.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
