package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"anvil-capacity/internal/artifact"
)

// Recovered says what came of a journal that a dead run left behind.
type Recovered struct {
	Journal string // its path; it is gone, or renamed to Damaged
	// Artifact is the file in which its rows now stand.
	Artifact string
	// Rows is how many of the Requests planned had ended.
	Rows, Requests int
	// Already says that Artifact was there before, with all of the rows.
	Already bool
	// Damaged is where the journal is kept because lines in its middle could not
	// be used; "" for none. TornLines is 1 where the last line was cut.
	Damaged   string
	TornLines int
}

// String tells it in a line or two.
func (r Recovered) String() string {
	text := fmt.Sprintf("journal %q of a run that was killed: %d of %d requests had ended", r.Journal, r.Rows, r.Requests)
	if r.TornLines > 0 {
		text += ", and the last line was cut"
	}
	if r.Already {
		text += fmt.Sprintf("; all of them stand in %q already", r.Artifact)
	} else {
		text += fmt.Sprintf("; they are kept in %q, a partial artifact on which no threshold passes", r.Artifact)
	}
	if r.Damaged != "" {
		text += fmt.Sprintf("; lines in its middle are damaged: it is kept as %q", r.Damaged)
	}
	return text
}

// RecoverJournals turns the journals that dead runs left in dir into partial
// artifacts, and gives a note on each, for people. A journal that is still
// being written is left alone without a note; one that cannot be used is left
// where it is, and its note says why.
func RecoverJournals(dir string) (notes []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a folder that is not there yet; whether it can be written is asked elsewhere
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), artifact.JournalSuffix) {
			continue
		}
		recovered, err := RecoverJournal(filepath.Join(dir, entry.Name()))
		switch {
		case err == nil:
			notes = append(notes, recovered.String())
		case errors.Is(err, artifact.ErrJournalLive), errors.Is(err, os.ErrNotExist):
		default:
			notes = append(notes, fmt.Sprintf("a run before this one left a journal: %v", err))
		}
	}
	return notes
}

// RecoverJournal turns one journal into a partial artifact beside it,
// <run>.partial.json, and removes the journal when its rows are on the disk.
// The error is for a journal of a run that has not ended
// (artifact.ErrJournalLive) or that holds nothing that can be used; the file is
// then as it was.
func RecoverJournal(path string) (Recovered, error) { return recoverJournal(path, "") }

// recoverJournal is RecoverJournal with a reason for the artifact, "" for that
// of a run that was killed.
func recoverJournal(path, reason string) (Recovered, error) {
	found, err := artifact.Recover(path)
	if err != nil {
		return Recovered{}, err
	}
	native := &found.Native
	if reason != "" {
		native.MarkPartial(reason)
	}
	r := Recovered{Journal: path, Rows: native.Completed + native.Failed, Requests: native.Requests, TornLines: found.TornLines}
	stem := strings.TrimSuffix(path, artifact.JournalSuffix)
	if r.Artifact = holderOf(stem, native); r.Artifact != "" {
		r.Already = true
	} else if r.Artifact, err = writePartial(stem, native); err != nil {
		return Recovered{}, fmt.Errorf("recovering journal %q: %w", path, err)
	}
	return r, r.letGo(len(found.Corrupt) > 0)
}

// letGo removes the journal, or sets it aside.
func (r *Recovered) letGo(damaged bool) error {
	var err error
	if damaged {
		r.Damaged = r.Journal + ".damaged"
		err = os.Rename(r.Journal, r.Damaged)
	} else {
		err = os.Remove(r.Journal)
	}
	if errors.Is(err, os.ErrNotExist) { // another process recovered it at the same time
		return nil
	}
	return err
}

// holderOf gives the artifact of the same run that has every row of native, ""
// for none: the run was killed after it had written its evidence.
func holderOf(stem string, native *artifact.Native) string {
	for _, path := range []string{stem + ".json", stem + partialSuffix} {
		there, err := artifact.ReadPartial(path)
		if err == nil && sameRun(&there, native) && holdsRows(&there, native) {
			return path
		}
	}
	return ""
}

// sameRun compares what a run says of itself.
func sameRun(a, b *artifact.Native) bool {
	return a.Model == b.Model && a.BaseURL == b.BaseURL && a.Requests == b.Requests && a.Concurrency == b.Concurrency
}

// holdsRows goes by the duration of each request, which no two runs share.
func holdsRows(there, native *artifact.Native) bool {
	tookMS := map[int]float64{}
	for _, r := range there.Records() {
		tookMS[r.RequestIndex] = r.ElapsedMS
	}
	for _, r := range native.Records() {
		if took, ok := tookMS[r.RequestIndex]; !ok || took != r.ElapsedMS {
			return false
		}
	}
	return true
}

// maxPartials bounds the names that writePartial tries.
const maxPartials = 100

// writePartial writes under the first name that is free.
func writePartial(stem string, native *artifact.Native) (path string, err error) {
	path = stem + partialSuffix
	for n := 2; ; n++ {
		err = artifact.Write(path, *native)
		if !errors.Is(err, artifact.ErrExists) || n > maxPartials {
			return path, err
		}
		path = fmt.Sprintf("%s.partial-%d.json", stem, n)
	}
}
