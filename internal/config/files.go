package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// apiKey parses the key itself.
func apiKey(field func(*Settings) *Secret) kind {
	return kind{"the key alone, printable ASCII without spaces", func(v *value, s *Settings) {
		if want, hint := wantOfKey(v.text); want != "" {
			v.wrong(want, hint)
			return
		}
		*field(s) = Secret(v.text)
	}}
}

// wantOfKey says what is wrong with a key, "" where nothing is: it has to fit
// into a header.
func wantOfKey(key string) (want, hint string) {
	if strings.ContainsAny(key, " \t\r\n") {
		return "the key alone, without spaces or line ends", "without Bearer before it"
	}
	if strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return "printable ASCII only", ""
	}
	return "", ""
}

// apiKeyFile parses the name of a file that holds the key and nothing else.
func apiKeyFile(field func(*Settings) *Secret) kind {
	return kind{"a file of up to 16 KiB that holds the key alone", func(v *value, s *Settings) {
		content, exists, err := readRegular(v.text, keyFileMaxBytes)
		switch {
		case err != nil && !exists:
			// The value may well be the key itself, set under the wrong name.
			v.report(redacted, "a file that exists", "give the path of a file; if that was the key, it belongs in CAPACITY_API_KEY")
			return
		case err != nil:
			v.wrong("a file that can be read", err.Error())
			return
		}
		key := strings.TrimSpace(string(content))
		if key == "" {
			v.wrong("a file that holds a key", "it is empty")
			return
		}
		if want, hint := wantOfKey(key); want != "" {
			v.wrong("a file that holds "+want, hint)
			return
		}
		*field(s) = Secret(key)
	}}
}

// caFile parses the name of a file of PEM certificates.
func caFile(field func(*Settings) *string) kind {
	return kind{"a file of up to 4 MiB with at least one PEM certificate", func(v *value, s *Settings) {
		content, _, err := readRegular(v.text, caFileMaxBytes)
		if err != nil {
			v.wrong("a file that can be read", err.Error())
			return
		}
		if problem := checkCertificates(content); problem != "" {
			v.wrong("a file of PEM certificates", problem)
			return
		}
		*field(s) = v.text
	}}
}

// checkCertificates says what is wrong with a PEM file, "" where nothing is.
// Blocks of other types are passed over, as x509 does.
func checkCertificates(content []byte) string {
	certificates := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificates++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Sprintf("certificate %d in it is damaged", certificates)
		}
	}
	if certificates == 0 {
		return "it holds none: a certificate begins with -----BEGIN CERTIFICATE-----"
	}
	return ""
}

// readRegular reads a file of at most maxBytes. It opens regular files only: a
// pipe could block for ever. Its errors do not repeat the name; exists says that
// there is something under it.
func readRegular(name string, maxBytes int64) (content []byte, exists bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, errors.Is(err, fs.ErrPermission), withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, true, errors.New("it is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, true, withoutPath(err)
	}
	defer func() { _ = f.Close() }()
	content, err = readUpTo(f, maxBytes)
	return content, true, err
}

// readUpTo reads r to its end and refuses one byte more than maxBytes.
func readUpTo(r io.Reader, maxBytes int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if int64(len(content)) > maxBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxBytes)
	}
	return content, nil
}

// withoutPath gives the cause of a file error; the path stands in the message
// already, or must not.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
