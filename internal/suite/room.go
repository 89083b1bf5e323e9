package suite

import (
	"fmt"
	"os"
	"sync"
)

// What an artifact takes on the disk, generously: its largest rows are failures
// with a long message.
const (
	evidenceBaseBytes = 64 << 10
	evidenceRowBytes  = 4 << 10
)

// evidenceBytes bounds the artifact of so many requests, in bytes.
func evidenceBytes(requests int) int64 {
	return evidenceBaseBytes + int64(requests)*evidenceRowBytes
}

// room is space on the disk that nobody else can take: a file without a name,
// which is gone with its process whatever happens. A disk that fills up during
// a run stops the journal; the room is then given back, and the partial
// artifact has its place.
type room struct {
	file *os.File // nil where the file system cannot hold space back
	once sync.Once
}

// holdRoom holds back so many bytes on the disk of dir. An error means that
// they are not there.
func holdRoom(dir string, bytes int64) (*room, error) {
	file, err := os.CreateTemp(dir, ".room-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	held, err := allocate(file, bytes)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("holding back %d KiB in %q: %w; make room there, or name another folder", bytes>>10, dir, err)
	}
	if !held {
		_ = file.Close()
		return &room{}, nil
	}
	return &room{file: file}, nil
}

// release gives the room back. It may be called again.
func (r *room) release() {
	r.once.Do(func() {
		if r.file != nil {
			_ = r.file.Close() // an error here would say nothing about the disk
		}
	})
}
