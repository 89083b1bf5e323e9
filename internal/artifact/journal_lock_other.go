//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package artifact

import "os"

// lockJournal does nothing here: this system has no flock, so Recover cannot
// tell a live journal from one that was left behind.
func lockJournal(*os.File) error { return nil }

func journalLive(*os.File) bool { return false }
