package config

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// Ways in which FuzzLoad gives a secret.
const (
	asKey = iota
	asHeader
	asUserinfo
	asQuery
	asMisspeltKey
	asKeyFileName
	inCellFile
	ways
)

// FuzzLoad holds for any environment, cell file and secret: Load does not panic,
// gives the same twice, and shows the secret neither in its error nor in printed
// Settings.
func FuzzLoad(f *testing.F) {
	f.Add("REQUESTS=5\nCONCURRENCY=1,2", "MODEL=m", byte(asKey), "", "", "")
	f.Add("REQEUSTS=5", "", byte(asHeader), "|", "\n", "")
	f.Add("CELL=x\nCONTEXT_TOKENS=64x2+128,256", "HEADERS=a", byte(asUserinfo), "http://me:", "", "@h:1/v1")
	f.Add("CELL=x", "BASE_URL=localhost:8000", byte(asUserinfo), "me:", "@x", "@h/v1?a=b#c")
	f.Add("THRESHOLDS=a<=1,b>2", "", byte(asUserinfo), "http://a?b://", "#", "%40h")
	f.Add("EXTRA_BODY={\"a\":{}}\nTIMEOUT=1s", "", byte(asQuery), "http://h/v1?key=", "&x", "")
	f.Add("MAX_TOKENS=4", "", byte(asMisspeltKey), "", "", "")
	f.Add("API_KEY=k", "", byte(asKeyFileName), "/run/", "\x00", "")
	f.Add("CELL=x\nTHINKING=enabled\nREASONING_EFFORT=low", "REQUESTS=1 # c\nGPU='g'", byte(inCellFile), "'", "'", "")
	f.Fuzz(func(t *testing.T, settings, cell string, way byte, head, tail, end string) {
		if strings.Contains(settings+"\n"+cell+"\n"+end, "s3cr3t") {
			t.Skip("the secret stands where it is not one")
		}
		pairs := withoutFiles(settings)
		secret := head + "s3cr3t" + tail
		switch way % ways {
		case asKey:
			pairs = append(pairs, "API_KEY="+secret)
		case asHeader:
			pairs = append(pairs, "HEADERS=X-A:"+secret)
		case asUserinfo:
			pairs = append(pairs, "BASE_URL="+secret+"@"+end)
		case asQuery:
			pairs = append(pairs, "BASE_URL=http://h/v1?"+secret+end)
		case asMisspeltKey:
			pairs = append(pairs, "API_KYE="+secret)
		case asKeyFileName:
			pairs = append(pairs, "API_KEY_FILE="+secret)
		case inCellFile:
			pairs, cell = append(pairs, "CELL=x"), cell+"\nAPI_KEY="+secret
		}
		checkLoad(t, pairs, oneCell(strings.Join(withoutFiles(cell), "\n")))
	})
}

// FuzzCellFile holds for any cell file, by name and content: Load does not panic,
// and its error does not show a key that stands in the file.
func FuzzCellFile(f *testing.F) {
	f.Add("x", "REQUESTS=5\n# c\nGPU=\"g\" # c\n", "API_KEY=")
	f.Add("x", "\ufeffCAPACITY_MODEL = m\r\nCONCURRENCY=1,2", "CAPACITY_API_KEY='")
	f.Add("x", "CELL=x\nCELL=y\nexport A=b\n=\n==", "")
	f.Add("x", "GPU='a' b\nENGINE=\"\n\x00\nMODEL=\xff", "HEADERS=a:")
	f.Add("../x", "", "BASE_URL=http://a:b@c:")
	f.Add("", "", "api_key=")
	f.Fuzz(func(t *testing.T, name, content, before string) {
		if strings.Contains(name+"\n"+content+"\n"+before, "s3cr3t") || strings.ContainsAny(before, "\n\x00") {
			t.Skip("the secret stands where it is not one")
		}
		line := before + "s3cr3t"
		switch key, _, _ := strings.Cut(line, "="); strings.TrimPrefix(strings.TrimSpace(key), Prefix) {
		case "API_KEY", "HEADERS":
		case "BASE_URL":
			line += "@h/v1"
		default:
			if strings.Contains(line, "=") {
				line = before // a value that is shown, and rightly so
			}
		}
		content = strings.Join(withoutFiles(content), "\n") + "\n" + line
		checkLoad(t, []string{"CELL=" + name}, fstest.MapFS{name + ".env": &fstest.MapFile{Data: []byte(content)}})
	})
}

// withoutFiles drops the lines that would have Load read files of this machine.
func withoutFiles(text string) []string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, "_FILE") {
			kept = append(kept, line)
		}
	}
	return kept
}

func checkLoad(t *testing.T, pairs []string, cells fs.FS) {
	t.Helper()
	s, err := Load(environment(pairs), cells)
	_, again := Load(environment(pairs), cells)
	if fmt.Sprint(err) != fmt.Sprint(again) {
		t.Fatalf("loading twice: got %v, then %v", err, again)
	}
	if err != nil {
		checkError(t, err)
		return
	}
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encoding the settings: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, asJSON); strings.Contains(text, "s3cr3t") {
		t.Fatalf("printing the settings shows the secret: %s", text)
	}
	names := map[string]bool{}
	for _, c := range s.Cells() {
		if names[c.Name] || !subtestName.MatchString(c.Name) {
			t.Fatalf("naming cells: %q is not plain, or stands twice", c.Name)
		}
		names[c.Name] = true
	}
	if len(names) == 0 || len(names) > cellsMax {
		t.Fatalf("making cells: got %d, want 1 to %d", len(names), cellsMax)
	}
}

func checkError(t *testing.T, err error) {
	t.Helper()
	all, ok := err.(*Error)
	if !ok || len(all.Faults) == 0 {
		t.Fatalf("loading: got %T without faults, want *Error with some", err)
	}
	if strings.Contains(err.Error(), "s3cr3t") {
		t.Fatalf("the error shows the secret: %v", err)
	}
	if got := strings.Count(err.Error(), "\n"); got != len(all.Faults) {
		t.Fatalf("the error has %d lines after its first, want %d: %q", got, len(all.Faults), err)
	}
}
