package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// DirVariable is the setting that names the artifact directory; errors about
// the directory say so.
const DirVariable = "CAPACITY_ARTIFACT_DIR"

// ErrExists says that a file of that name with other content is already there:
// evidence is never overwritten. The caller picks another name.
var ErrExists = errors.New("file exists with other content")

// Write puts v at path as indented JSON with a final newline. A Native that
// calls itself complete is validated first; its *InvalidError lists everything
// that is wrong, and nothing is written (MarkPartial keeps such evidence).
//
// The write is atomic: a temporary file in the same directory, fsync, a link
// to the final name, fsync of the directory. A reader sees the whole file or
// none, and the temporary file does not outlive the call. An existing file is
// left as it is: with the same bytes the call succeeds, else it is ErrExists.
// A directory that has vanished is made again.
func Write(path string, v any) error {
	if n, ok := asNative(v); ok {
		if err := checkForWriting(n); err != nil {
			return fmt.Errorf("writing artifact %q: %w", path, err)
		}
	}
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("writing artifact %q: %w", path, err)
	}
	if err := writeNew(path, data); err != nil {
		return fmt.Errorf("writing artifact %q: %w", path, err)
	}
	return nil
}

func asNative(v any) (*Native, bool) {
	switch n := v.(type) {
	case Native:
		return &n, true
	case *Native:
		return n, n != nil
	}
	return nil, false
}

// checkForWriting holds a complete artifact to every invariant, and a partial
// one only to being marked as such.
func checkForWriting(n *Native) error {
	if _, partial := n.Partial(); !partial {
		return n.Validate()
	}
	if n.Harness == nil || n.Harness.Complete || n.Harness.IncompleteReason == nil {
		return errors.New("an artifact with missing requests must be marked partial, with its reason, under harness")
	}
	return nil
}

// encode is the one way in which this package writes JSON: two spaces, final
// newline, and <, > and & as they are. The same value gives the same bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeNew creates path with data, or leaves an equal file as it is.
func writeNew(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := writeTemp(dir, filepath.Base(path), bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer os.Remove(temp) // a second name of the file after publish, or the remains of a failure
	if err := publish(temp, path, os.Link); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return sameContent(path, data)
		}
		return err
	}
	return syncDir(dir)
}

// writeTemp writes a file beside its final name and brings it to the disk. On
// failure it leaves nothing behind.
func writeTemp(dir, name string, content io.Reader) (path string, err error) {
	path = filepath.Join(dir, "."+name+".tmp-"+strconv.FormatUint(rand.Uint64(), 36))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
		return "", err
	}
	return path, nil
}

// publish gives the temporary file its final name, and fails when that name is
// taken. link, os.Link but in tests, does both in one step; where the file
// system has no hard links, a rename after a look does, which two writers at
// one instant could both pass.
func publish(temp, path string, link func(from, to string) error) error {
	err := link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, statErr := os.Lstat(path); statErr == nil {
		return fs.ErrExist
	}
	return os.Rename(temp, path)
}

// sameContent is nil when the file at path holds exactly data.
func sameContent(path string, data []byte) error {
	there, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, data) {
		return fmt.Errorf("%w: choose another name (CAPACITY_RUN)", ErrExists)
	}
	return nil
}

// syncDir brings the directory entry to the disk. File systems that cannot sync
// a directory say EINVAL; the file itself is on the disk by then.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// CheckWritable proves that artifacts can be written in dir before a run needs
// to: it makes the directory, writes a small file there as Write does, and
// removes it. The error names the directory and the setting it comes from.
func CheckWritable(dir string) error {
	if err := checkWritable(dir); err != nil {
		return fmt.Errorf("creating a file in artifact directory %q (%s): %w; name a directory that can be written", dir, DirVariable, err)
	}
	return nil
}

func checkWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	probe, err := writeTemp(dir, "probe", bytes.NewReader([]byte("anvil-capacity can write here\n")))
	if err != nil {
		return err
	}
	return os.Remove(probe)
}
