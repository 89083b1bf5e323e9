package artifact

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// lineFile is a file of JSON lines that grows while a cell runs. Each line is one
// write(2) in append mode. Safe for concurrent use.
type lineFile struct {
	path string

	mu   sync.Mutex // guards all below
	file *os.File
	err  error // sticky: after a line that may be half written, nothing follows
}

// createLines makes a file that must not exist, and its folder if need be.
func createLines(path string) (*lineFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &lineFile{path: path, file: file}, nil
}

// write adds a line. After a write that failed it adds no more, and every call
// returns that first error.
func (l *lineFile) write(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err // nothing was written: the next line may still be good
	}
	_, l.err = l.file.Write(append(data, '\n'))
	return l.err
}

// close brings the file to the disk and leaves it there.
func (l *lineFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.file.Sync(), l.file.Close())
}

// remove closes the file and deletes it.
func (l *lineFile) remove() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close() // nothing in it is needed any more
	return os.Remove(l.path)
}
