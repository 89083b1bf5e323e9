//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package artifact

import (
	"errors"
	"os"
	"syscall"
)

// lockJournal marks the journal as being written, until its file is closed or
// its process ends in whatever way. File systems without locks do not fail it.
func lockJournal(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrJournalLive
	}
	return nil
}

// journalLive says whether a process still holds the lock of lockJournal.
func journalLive(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}
