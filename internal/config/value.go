package config

import (
	"fmt"
	"strings"
)

// value is one variable's text on its way into Settings. It collects what is
// wrong with it, so that a parser reports all it finds.
type value struct {
	row    *setting
	text   string // trimmed, never empty
	where  string // file and line of a cell file, "" for the environment
	faults []Fault
}

// item is one element of a comma list.
type item struct {
	place int // from 1
	text  string
}

// items splits the text at commas and drops spaces around each.
func (v *value) items() []item {
	var items []item
	for text := range strings.SplitSeq(v.text, ",") {
		items = append(items, item{len(items) + 1, strings.TrimSpace(text)})
	}
	return items
}

// wrong reports the whole value. An empty want stands for the row's range.
func (v *value) wrong(want, hint string) {
	got := shown(v.text)
	if v.row.Secret {
		got = redacted
	}
	v.report(got, want, hint)
}

// wrongItem reports one item of a list, by place where there are several.
func (v *value) wrongItem(i item, want, hint string) {
	got := shown(i.text)
	if i.text != v.text {
		got += fmt.Sprintf(" (item %d)", i.place)
	}
	v.report(got, want, hint)
}

// report adds a fault whose got is already fit to print.
func (v *value) report(got, want, hint string) {
	if want == "" {
		want = v.row.allowed
	}
	v.faults = append(v.faults, Fault{
		Variable: Prefix + v.row.Name,
		Where:    v.where,
		Problem:  "got " + got + ", want " + want,
		Hint:     hint,
	})
}
