package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"anvil-capacity/internal/artifact"
	"anvil-capacity/internal/load"
	"anvil-capacity/internal/record"
)

// keeper keeps what a run measures while the run is under way: a journal of its
// rows, and room on the disk for its artifact. When the rows can no longer be
// kept, there is no point in measuring more: it ends the run.
type keeper struct {
	paths   Paths
	journal *artifact.Journal
	gaps    *artifact.GapsFile // nil where gaps are kept as histograms alone
	room    *room
	made    os.FileInfo // the journal, when it was made
	redact  func(text string) string

	cancel context.CancelCauseFunc

	mu  sync.Mutex // guards err
	err error      // the first row that could not be written
}

// EvidenceError says that a run was ended because its rows could not be kept.
type EvidenceError struct{ Err error }

// Error tells what is wrong with the files.
func (e *EvidenceError) Error() string {
	return "the run was ended because its evidence could not be kept: " + e.Err.Error()
}

// Unwrap gives the error of the file system.
func (e *EvidenceError) Unwrap() error { return e.Err }

// newKeeper makes the journal of a run, and holds back room for its artifact.
// An error means that the run cannot be kept and should not begin.
func newKeeper(paths Paths, facts artifact.Facts, redact func(string) string) (*keeper, error) {
	journal, err := artifact.CreateJournal(paths.Journal, facts)
	if err != nil {
		return nil, err
	}
	k := &keeper{paths: paths, journal: journal, redact: redact, cancel: func(error) {}}
	k.made, err = os.Stat(paths.Journal)
	if err == nil {
		k.room, err = holdRoom(filepath.Dir(paths.Native), evidenceBytes(facts.Requests))
	}
	if err == nil && facts.GapsFile != "" {
		k.gaps, err = artifact.CreateGapsFile(paths.Gaps, filepath.Base(paths.Native))
	}
	if err != nil {
		if k.room != nil {
			k.room.release()
		}
		return nil, errors.Join(fmt.Errorf("keeping the evidence of %d requests: %w", facts.Requests, err), removed(journal))
	}
	return k, nil
}

// watchEvery is how often a keeper looks whether its journal is still there:
// rows that are appended to a deleted file are lost without an error.
const watchEvery = 200 * time.Millisecond

// watch gives a context that ends, with an *EvidenceError as its cause, when a
// row cannot be written or the journal is gone. stop ends the watching.
func (k *keeper) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, k.cancel = context.WithCancelCause(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(watchEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				if err := k.missing(); err != nil {
					k.cancel(&EvidenceError{err})
					return
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() { close(quit); <-done; k.cancel(nil) }
}

// missing says that the journal is not where it was made. An error that leaves
// this open, such as that of a network file system in distress, says nothing.
func (k *keeper) missing() error {
	now, err := os.Stat(k.paths.Journal)
	switch {
	case err == nil && !os.SameFile(k.made, now):
		return fmt.Errorf("the journal %q has been replaced", k.paths.Journal)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // ENOTDIR: a file in the folder's place
		return fmt.Errorf("the journal %q is gone (%s)", k.paths.Journal, artifact.DirVariable)
	}
	return nil
}

// add appends a finished record: load.Options.OnRecord.
func (k *keeper) add(r record.Record) { k.check(k.journal.Append(r)) }

// addArrivals gives load.Options.OnArrivals, nil where gaps are not kept one by one.
func (k *keeper) addArrivals() func(index int, arrivals []time.Duration, truncated bool) {
	if k.gaps == nil {
		return nil
	}
	return func(index int, arrivals []time.Duration, truncated bool) {
		k.check(k.gaps.Append(index, arrivals, truncated))
	}
}

// check ends the run at the first row that could not be written.
func (k *keeper) check(err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
		k.cancel(&EvidenceError{err})
	}
}

// closeGaps ends the gaps file, where there is one.
func (k *keeper) closeGaps() error {
	if k.gaps == nil {
		return nil
	}
	return k.gaps.Close()
}

// write puts the artifact into the artifact directory, a partial one under its
// own name. One that is not valid is a fault of the suite, and its rows are
// evidence all the same: it is marked partial, and the error says so.
func (k *keeper) write(out *Outcome) (written bool, err error) {
	k.room.release()
	k.name(out)
	err = artifact.Write(out.NativePath, out.Native)
	var invalid *artifact.InvalidError
	if !errors.As(err, &invalid) {
		return err == nil, err
	}
	out.Native.MarkPartial(err.Error())
	k.name(out)
	second := artifact.Write(out.NativePath, out.Native)
	return second == nil, errors.Join(err, second)
}

// name sets the paths of an outcome. A partial run has no summary.
func (k *keeper) name(out *Outcome) {
	out.NativePath, out.SummaryPath = k.paths.Native, k.paths.Summary
	if out.Partial() {
		out.NativePath, out.SummaryPath = k.paths.Partial, ""
	}
}

// keep writes the evidence of a run that has ended, and only then lets go of
// its journal. Where the artifact directory does not take the artifact, it goes
// to the system's folder for temporary files, and the journal stays.
func (k *keeper) keep(out *Outcome) {
	written, err := k.write(out)
	switch {
	case !written:
		err = errors.Join(err, k.elsewhere(out), k.leave())
	case out.SummaryPath != "":
		err = errors.Join(err, artifact.WriteSummary(out.NativePath, out.SummaryPath), removed(k.journal))
	default:
		err = errors.Join(err, removed(k.journal))
	}
	out.EvidenceErr = errors.Join(k.err, err, k.closeGaps())
}

// elsewhere writes the artifact to a new folder outside the artifact directory.
// Its error says where it is, or that it is nowhere.
func (k *keeper) elsewhere(out *Outcome) error {
	out.SummaryPath = ""
	dir, err := os.MkdirTemp("", artifact.SuiteName+"-")
	if err != nil {
		return fmt.Errorf("keeping the artifact elsewhere: %w", err)
	}
	path := filepath.Join(dir, filepath.Base(out.NativePath))
	if err := artifact.Write(path, out.Native); err != nil {
		return errors.Join(fmt.Errorf("keeping the artifact elsewhere: %w", err), os.Remove(dir))
	}
	out.NativePath = path
	return fmt.Errorf("the artifact is in %q instead", path)
}

// leave closes the journal and says what it holds.
func (k *keeper) leave() error {
	if k.missing() != nil {
		return errors.Join(k.journal.Close(), errors.New("no journal of the rows is left"))
	}
	return errors.Join(k.journal.Close(),
		fmt.Errorf("the rows are kept in %q: the next run there makes a partial artifact of them, and so does go run ./scripts/evidence recover", k.paths.Journal))
}

// salvage keeps the rows of a run in which the suite itself panicked: the journal
// becomes a partial artifact, from what is on the disk and not from memory that
// may be broken. What it cannot do, the next run can.
func (k *keeper) salvage(value any, stack []byte) (out *Outcome, err error) {
	fault := &load.PanicError{RequestIndex: -1, Text: k.redact(fmt.Sprint(value)), Stack: k.redact(string(stack))}
	defer func() {
		if recover() != nil {
			out, err = nil, fmt.Errorf("%s; the rows are kept in %q", describeCause(fault), k.paths.Journal)
		}
	}()
	k.room.release()
	recovered, err := k.recovered(fault.Error())
	if err != nil {
		return nil, fmt.Errorf("%s; keeping its rows: %w", describeCause(fault), err)
	}
	native, err := artifact.ReadPartial(recovered.Artifact)
	if err != nil {
		return nil, fmt.Errorf("%s; reading its rows: %w", describeCause(fault), err)
	}
	return &Outcome{
		Result: load.Result{Records: native.Records(), Planned: native.Requests, Cause: fault},
		Native: native, NativePath: recovered.Artifact, Cause: fault,
	}, nil
}

func (k *keeper) recovered(reason string) (Recovered, error) {
	if err := errors.Join(k.closeGaps(), k.journal.Close()); err != nil {
		return Recovered{}, err
	}
	return recoverJournal(k.paths.Journal, reason)
}

// drop takes back the files of a run of which nothing came.
func (k *keeper) drop() error {
	k.room.release()
	if k.gaps != nil {
		return errors.Join(k.gaps.Remove(), removed(k.journal))
	}
	return removed(k.journal)
}

func removed(j *artifact.Journal) error {
	err := j.Remove()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
