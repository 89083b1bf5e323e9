package config

import (
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caarlos0/env/v11"
)

// Prefix begins the name of every variable.
const Prefix = "CAPACITY_"

// Load gives the settings that environ (as of os.Environ; the last of equal
// names counts) and the cell file named in it ask for. cells holds the cell
// files, NAME.env each; nil is none. Load reads no state of the process beside
// the files that CAPACITY_API_KEY_FILE and CAPACITY_CA_FILE name.
//
// The error is an *Error with every fault, and the Settings are then zero. Of a
// cell file, values that the environment overrides are not looked at.
func Load(environ []string, cells fs.FS) (Settings, error) {
	l := loader{given: map[string]given{}, suspect: map[string]bool{}}
	l.takeEnvironment(environ)
	l.takeCell(cells)
	l.parse()
	l.crossCheck()
	if len(l.faults) > 0 {
		return Settings{}, &Error{Faults: l.faults}
	}
	return l.settings, nil
}

// given is the text of one variable and where it stands.
type given struct {
	text  string
	where string // "" for the environment
}

// loader is one Load under way.
type loader struct {
	settings Settings
	// given holds the variables that are set, by name without Prefix.
	given map[string]given
	// suspect names the variables whose value is not what was meant: they are at
	// fault, or a misspelt name was likely meant for them. Checks of pairs leave
	// them out, so that one mistake is told once.
	suspect map[string]bool
	// blind says that settings are missing which a cell file would have given.
	blind  bool
	faults []Fault
}

// set takes one variable, of which an empty or blank one is not set.
func (l *loader) set(name, text, where string) {
	if text = strings.TrimSpace(text); text != "" {
		l.given[name] = given{text, where}
	}
}

// takeEnvironment takes the variables with Prefix and refuses unknown ones, set
// or empty.
func (l *loader) takeEnvironment(environ []string) {
	unknown := map[string]bool{}
	for _, entry := range environ {
		full, text, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(full, Prefix)
		switch {
		case !ours:
		case !known(name):
			unknown[name] = true
		default:
			delete(l.given, name)
			l.set(name, text, "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		l.refuse(name, "")
	}
}

// refuse reports an unknown name and what was likely meant. The value is left
// out: it may be a key behind a misspelt API_KEY.
func (l *loader) refuse(name, where string) {
	f := Fault{Variable: Prefix + name, Where: where, Problem: "got a name that is not known", Hint: ".env.example lists every name"}
	switch {
	case !isMadeOf(name, "_"):
		f.Variable = Prefix + strconv.QuoteToASCII(name)
	case where != "" && strings.Trim(name, upperCase) != "":
		f.Variable = "" // in a file, what stands before '=' may be a key that ends in one
	}
	near, ok := nearest(strings.ToUpper(name), names())
	if candidates := withWords(strings.ToUpper(name), names()); ok {
		l.suspect[near] = true
		f.Hint = "did you mean " + Prefix + near + "?"
	} else if len(candidates) > 0 {
		f.Hint = "did you mean " + Prefix + strings.Join(candidates, " or "+Prefix) + "?"
	}
	l.faults = append(l.faults, f)
}

// upperCase is what names are made of.
const upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

// takeCell takes what the cell file sets and the environment does not.
func (l *loader) takeCell(cells fs.FS) {
	name, asked := l.given["CELL"]
	if !asked {
		return
	}
	content, want, hint := openCell(cells, name.text)
	if want != "" {
		l.blind = true
		l.faults = append(l.faults, Fault{Variable: Prefix + "CELL", Problem: "got " + shown(name.text) + ", want " + want, Hint: hint})
		return
	}
	file := cellsDir + "/" + name.text + cellSuffix
	lines, faults := parseCell(file, content)
	l.blind = len(faults) > 0
	l.faults = append(l.faults, faults...)
	l.takeLines(file, lines)
}

// takeLines takes the lines of a cell file, under the environment's own.
func (l *loader) takeLines(file string, lines []line) {
	first := map[string]int{}
	for _, line := range lines {
		where := fmt.Sprintf("%s:%d", file, line.number)
		fault := Fault{Variable: Prefix + line.name, Where: where}
		row, ok := rowOf(line.name)
		switch {
		case !ok:
			l.refuse(line.name, where)
			continue
		case first[line.name] > 0:
			fault.Problem = fmt.Sprintf("got a second value, want one; the first stands on line %d", first[line.name])
		case line.name == "CELL":
			fault.Problem = "got a cell file inside a cell file, want none"
		case row.Secret:
			fault.Problem = "got a secret in a cell file, want it in the environment; these files are committed"
		}
		first[line.name] = line.number
		if fault.Problem != "" {
			l.suspect[line.name] = true
			l.faults = append(l.faults, fault)
			continue
		}
		if _, ok := l.given[line.name]; !ok {
			l.set(line.name, line.text, where)
		}
	}
}

// binding is a field for env to set: it parses one variable's text into the
// settings. It never fails, since env's own messages name Go fields and repeat
// values; the loader keeps the faults.
type binding func(text string)

// UnmarshalText lets env hand the text over, the default where nothing is set.
func (b binding) UnmarshalText(text []byte) error {
	b(string(text))
	return nil
}

// environmentType is the struct that env fills: a field a variable, made from
// the table, so that no name stands in two places.
var environmentType = sync.OnceValue(func() reflect.Type {
	fields := make([]reflect.StructField, len(table))
	for i, row := range table {
		tag := fmt.Sprintf("env:%q envDefault:%q", row.Name, row.Default)
		fields[i] = reflect.StructField{Name: row.Name, Type: reflect.TypeFor[binding](), Tag: reflect.StructTag(tag)}
	}
	return reflect.StructOf(fields)
})

// parse runs every variable's parser on its text, or on its default.
func (l *loader) parse() {
	target := reflect.New(environmentType())
	for i := range table {
		target.Elem().Field(i).Set(reflect.ValueOf(l.bind(&table[i])))
	}
	// Never nil, or env would read the process's own environment.
	environment := make(map[string]string, len(l.given))
	for name, g := range l.given {
		environment[Prefix+name] = g.text
	}
	if err := env.ParseWithOptions(target.Interface(), env.Options{Prefix: Prefix, Environment: environment}); err != nil {
		l.faults = append(l.faults, Fault{Variable: Prefix + "*", Problem: "got an error from the parser of the environment", Hint: "this is a fault of the suite"})
	}
}

// bind gives the binding of one row.
func (l *loader) bind(row *setting) binding {
	return func(text string) {
		v := value{row: row, text: text, where: l.given[row.Name].where}
		row.parse(&v, &l.settings)
		if len(v.faults) > 0 {
			l.suspect[row.Name] = true
			l.faults = append(l.faults, v.faults...)
		}
	}
}
