package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// FreshFile is the file that keeps go test from answering out of its cache. It
// must lie in the module and stay there; .gitignore names it.
const FreshFile = ".capacity-run"

// freshAhead is how far in the future the file is dated. cmd/go does not cache
// a test that read a file modified within 2 s of its end.
const freshAhead = 24 * time.Hour

// NeverCached makes go test run the calling test again next time: a cached pass
// says nothing about a server. Called inside a test, it writes a file in dir
// (the package's folder), dates it into the future and reads its status. cmd/go
// notes what a test opens and finds this file too new to vouch for.
func NeverCached(dir string) error {
	path := filepath.Join(dir, FreshFile)
	now := time.Now()
	if err := os.WriteFile(path, []byte(now.UTC().Format(time.RFC3339Nano)+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing %q, which keeps results out of the test cache: %w", path, err)
	}
	if err := os.Chtimes(path, now.Add(freshAhead), now.Add(freshAhead)); err != nil {
		return fmt.Errorf("dating %q: %w", path, err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("reading the status of %q: %w", path, err)
	}
	return nil
}
