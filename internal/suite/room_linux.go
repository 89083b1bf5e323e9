package suite

import (
	"errors"
	"os"
	"syscall"
)

// allocate gives a file so many bytes on the disk. It says false where the file
// system cannot, and gives an error where the bytes are not there, or more than
// a file of this process may have (ulimit -f).
func allocate(f *os.File, bytes int64) (held bool, err error) {
	for {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, bytes)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return false, err
		}
	}
	return err == nil, nil
}
