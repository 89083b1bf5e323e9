package artifact

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzReadNative: any bytes are refused or give an artifact that can be judged,
// summarized and read again as the same; nothing panics.
func FuzzReadNative(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(realArtifacts, "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in %s: %v", realArtifacts, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, run := range []Run{smallRun(2), mixedRun()} {
		data, err := encode(Build(run))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":"` + NativeSchema + `","requests":1,"completed":1,"failed":0,"failures":[],"request_timings":[{}],"metrics":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decodeNative(data)
		if err != nil {
			return
		}
		if len(n.RequestTimings) > n.Requests || len(n.Failures) > n.Requests {
			t.Fatal("more rows than requests")
		}
		n.Validate()
		s, sumErr := summarize("x.json", data)
		if _, partial := n.Partial(); partial != (sumErr != nil) {
			t.Fatalf("partial is %t, the summary's error is %v", partial, sumErr)
		}
		if sumErr == nil && (s.CacheCaveat == "" || s.P99Interpretation == "") {
			t.Fatal("a summary without its words")
		}
		again, err := encode(n)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := decodeNative(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		third, err := encode(back)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("writing is not stable: %v", err)
		}
		n.MarkPartial("fuzzed")
	})
}

// FuzzRecover: any bytes are refused or give a partial artifact that can be written.
func FuzzRecover(f *testing.F) {
	for _, run := range []Run{smallRun(2), mixedRun()} {
		data, err := os.ReadFile(journalOf(f, run))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-9])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recoverFrom("run.journal", bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, partial := r.Native.Partial(); !partial {
			t.Fatal("a recovered artifact that calls itself complete")
		}
		if r.Native.Completed+r.Native.Failed > r.Native.Requests {
			t.Fatal("more records than requests")
		}
		if _, err := encode(r.Native); err != nil {
			t.Fatalf("what was recovered cannot be written: %v", err)
		}
	})
}
