package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Limits of a metrics page.
const (
	// MaxBytes is the longest page, in bytes, that is read. vLLM's is some 100
	// KiB, one of 16 data-parallel engines some 1 MiB.
	MaxBytes = 8 << 20
	// MaxLineBytes is the longest line, in bytes, that is kept; a longer one is
	// counted as a fault.
	MaxLineBytes = 64 << 10
	// MaxSamples is how many lines of known metrics are kept. Each becomes a
	// value in memory, so that a page of MaxBytes cannot take hundreds of MiB.
	MaxSamples = 50_000
	// maxFaults is how many bad lines of one family are left out before the
	// family is.
	maxFaults = 16
)

// page is what is kept of a metrics page: the families of the table.
type page struct {
	families map[string]*family // by familyKey
	faults   faults
}

// faults counts what of a page could not be used, and tells of the first.
type faults struct {
	count int
	first string
}

func (f *faults) add(format string, args ...any) {
	if f.count == 0 {
		f.first = fmt.Sprintf(format, args...)
	}
	f.count++
}

// family is one metric with its series. One that was declared and has no series
// stands for a counter that has not counted yet.
type family struct {
	name   string // as exposed, of a histogram without the suffix
	kind   familyKind
	lines  [][]byte
	series []series
}

// series is one label set of a family, with a value or with a histogram.
type series struct {
	labels    []label // sorted by name
	value     float64
	histogram Histogram
}

type label struct{ name, value string }

func labelValue(labels []label, name string) string {
	for _, l := range labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// limits are MaxBytes and its sisters; tests put in smaller ones.
type limits struct {
	bytes   int64
	samples int
}

// Why a page is none that can be used.
var (
	errTooLong     = errors.New("the page is too long")
	errTooMany     = errors.New("the page has too many samples")
	errHTML        = errors.New("the page is HTML")
	errJSON        = errors.New("the page is JSON")
	errEmpty       = errors.New("the page is empty")
	errUnparseable = errors.New("the page is no Prometheus text")
)

// readPage reads Prometheus text, format 0.0.4, and keeps the families that are
// wanted; other exporters' lines cost no memory and cannot fail it. Within the
// families a bad line is left out and counted.
func readPage(r io.Reader, w wanted, l limits) (*page, error) {
	bounded := &io.LimitedReader{R: r, N: l.bytes + 1}
	text := bufio.NewReaderSize(bounded, MaxLineBytes)
	text, err := unquoted(text)
	if err != nil {
		return nil, overLimit(bounded, err)
	}
	c := collector{wanted: w, samples: l.samples, page: &page{families: make(map[string]*family)}}
	if err := c.lines(text); err != nil {
		return nil, overLimit(bounded, err)
	}
	if bounded.N <= 0 {
		return nil, errTooLong
	}
	if !c.isPage {
		return nil, errUnparseable
	}
	for _, key := range sortedKeys(c.page.families) { // in one order: the first fault is told
		if f := c.page.families[key]; !f.parse(&c.page.faults) {
			delete(c.page.families, key)
		}
	}
	return c.page, nil
}

// overLimit gives errTooLong where the limit was what ended the reading.
func overLimit(r *io.LimitedReader, err error) error {
	if r.N <= 0 {
		return errTooLong
	}
	return err
}

// unquoted looks at the first byte for what is no Prometheus text, and undoes
// one way of sending it: llama.cpp b7010 to b7100 gave its page as a JSON string
// (its issue 17384).
func unquoted(text *bufio.Reader) (*bufio.Reader, error) {
	switch first, err := firstByte(text); {
	case errors.Is(err, io.EOF):
		return nil, errEmpty
	case err != nil:
		return nil, err
	case first == '<':
		return nil, errHTML
	case first == '{' || first == '[':
		return nil, errJSON
	case first != '"':
		return text, nil
	}
	whole, err := io.ReadAll(text)
	if err != nil {
		return nil, err
	}
	var inner string
	if json.Unmarshal(whole, &inner) != nil {
		return nil, errUnparseable
	}
	return bufio.NewReaderSize(strings.NewReader(inner), MaxLineBytes), nil
}

// firstByte skips white space and a byte order mark.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, _, err := r.ReadRune()
		switch {
		case err != nil:
			return 0, err
		case c == '\ufeff' || unicode.IsSpace(c):
			continue
		}
		if err := r.UnreadRune(); err != nil {
			return 0, err
		}
		b, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		return b[0], nil
	}
}

// collector sorts the lines of a page into families.
type collector struct {
	wanted  wanted
	samples int // how many more are kept
	page    *page
	isPage  bool // a line looked like the format, wanted or not
	key     []byte
}

func (c *collector) lines(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := c.skipLong(line, r); err != nil {
				return err
			}
			continue
		case err == io.EOF:
			c.unfinished(line)
			return nil
		case err != nil:
			return err
		}
		if err := c.line(bytes.TrimSpace(line)); err != nil {
			return err
		}
	}
}

// unfinished is what stands after the last line end. The format ends each line,
// so a page without is cut, and the last number with it: 12 of 12345.
func (c *collector) unfinished(line []byte) {
	if len(bytes.TrimSpace(line)) > 0 {
		c.page.faults.add("the page ends within a line")
	}
}

// skipLong passes over a line that is longer than the buffer.
func (c *collector) skipLong(start []byte, r *bufio.Reader) error {
	if name := sampleName(start); c.kindOf(name) != nil {
		c.page.faults.add("a line of %s is longer than %d bytes", name, MaxLineBytes)
	}
	for {
		switch _, err := r.ReadSlice('\n'); {
		case err == nil || err == io.EOF:
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// line takes one line without its end. line is not kept.
func (c *collector) line(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	c.isPage = c.isPage || looksRight(line)
	if line[0] == '#' {
		c.comment(line)
		return nil
	}
	name := sampleName(line)
	f := c.kindOf(name)
	if f == nil {
		return nil
	}
	fam := c.family(f.key, strings.TrimSuffix(string(name), f.suffix), f.kind)
	if c.samples--; c.samples < 0 {
		return errTooMany
	}
	fam.lines = append(fam.lines, append(slices.Clone(line), '\n'))
	return nil
}

// comment takes the declaration of a family; help texts and types are not
// needed, since the table knows both.
func (c *collector) comment(line []byte) {
	fields := bytes.Fields(line)
	if len(fields) < 4 || string(fields[1]) != "TYPE" {
		return
	}
	if key := c.familyKey(fields[2]); key != "" {
		c.family(key, string(fields[2]), c.wanted[key])
	}
}

// family finds or makes a family. Declared names may lack the _total of their
// samples (OpenMetrics), so the first sample has the last word on the name.
func (c *collector) family(key, name string, kind familyKind) *family {
	f := c.page.families[key]
	switch {
	case f == nil:
		f = &family{name: name, kind: kind}
		c.page.families[key] = f
	case len(f.lines) == 0:
		f.name = name
	}
	return f
}

// found is where a sample's name leads.
type found struct {
	key    string
	kind   familyKind
	suffix string // "_bucket", "_sum" or "_count" of a histogram
}

// kindOf is nil for a sample that is not wanted.
func (c *collector) kindOf(name []byte) *found {
	if key := c.familyKey(name); key != "" && c.wanted[key] == plainFamily {
		return &found{key: key}
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, ok := bytes.CutSuffix(name, []byte(suffix))
		if !ok {
			continue
		}
		if key := c.familyKey(base); key != "" && c.wanted[key] == histogramFamily {
			return &found{key, histogramFamily, suffix}
		}
	}
	return nil
}

// familyKey is familyKey of a wanted name, "" for another one. Most lines of a
// page are not wanted, so it makes no string for those.
func (c *collector) familyKey(name []byte) string {
	c.key = append(c.key[:0], name...)
	for i, b := range c.key {
		if b == ':' {
			c.key[i] = '_'
		}
	}
	key := bytes.TrimSuffix(c.key, []byte("_total"))
	if _, ok := c.wanted[string(key)]; !ok {
		return ""
	}
	return string(key)
}

// looksRight says that a line is a sample or a declaration. An engine without a
// single line that is has sent something else with status 200.
func looksRight(line []byte) bool {
	if line[0] == '#' {
		fields := bytes.Fields(line)
		return len(fields) > 1 && (string(fields[1]) == "HELP" || string(fields[1]) == "TYPE")
	}
	name := sampleName(line)
	rest := line[len(name):]
	if len(name) == 0 || len(rest) == 0 || !strings.ContainsRune("{ \t", rune(rest[0])) {
		return false
	}
	fields := bytes.Fields(rest)
	_, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64)
	return err == nil
}

// sampleName is what a sample's line begins with.
func sampleName(line []byte) []byte {
	line = bytes.TrimLeft(line, " \t")
	n := 0
	for n < len(line) && isNameByte(line[n], n == 0) {
		n++
	}
	return line[:n]
}

func isNameByte(b byte, first bool) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '_', b == ':':
		return true
	}
	return !first && '0' <= b && b <= '9'
}

// parse turns the lines into series, leaving out those that the format does not
// allow, and lets the lines go. It is false when none of them could be used: the
// family must then be gone, since one without series reads as 0.
func (f *family) parse(report *faults) bool {
	lines := f.lines
	f.lines = nil
	if len(lines) == 0 {
		return true // declared, nothing counted yet
	}
	for try := 0; len(lines) > 0; try++ {
		parsed, bad := parseLines(f, lines)
		if bad == nil {
			f.series = seriesOf(parsed, f.kind, f.name, report)
			return len(f.series) > 0
		}
		report.add("%s: %s", f.name, bad.Msg)
		at := bad.Line - 1 - f.headLines()
		if try == maxFaults || at < 0 || at >= len(lines) {
			return false
		}
		lines = slices.Delete(slices.Clone(lines), at, at+1)
	}
	return false
}

func (f *family) headLines() int {
	if f.kind == histogramFamily {
		return 1
	}
	return 0
}

// parseLines hands one family to expfmt. The type line is the table's: without
// one, or with another, a histogram would come out as three families.
func parseLines(f *family, lines [][]byte) (*dto.MetricFamily, *expfmt.ParseError) {
	var text bytes.Buffer
	if f.kind == histogramFamily {
		fmt.Fprintf(&text, "# TYPE %s histogram\n", f.name)
	}
	for _, line := range lines {
		text.Write(line)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(&text)
	var bad expfmt.ParseError
	switch {
	case errors.As(err, &bad):
		return nil, &bad
	case err != nil:
		return nil, &expfmt.ParseError{Msg: err.Error()}
	}
	// Lines under a second spelling (vLLM once had two) came out as a family of
	// their own: adding them would count the metric twice.
	return families[f.name], nil
}

// seriesOf takes the values over, without those that are no count and no share.
func seriesOf(parsed *dto.MetricFamily, kind familyKind, name string, report *faults) []series {
	var all []series
	for _, m := range parsed.GetMetric() {
		s := series{labels: labelsOf(m)}
		if kind == histogramFamily {
			h, err := histogramOf(m.GetHistogram())
			if err != nil {
				report.add("%s: %v", name, err)
				continue
			}
			s.histogram = h
		} else {
			s.value = m.GetUntyped().GetValue()
			if math.IsNaN(s.value) || math.IsInf(s.value, 0) || s.value < 0 {
				report.add("%s: the value %v", name, s.value)
				continue
			}
		}
		all = append(all, s)
	}
	return all
}

func labelsOf(m *dto.Metric) []label {
	labels := make([]label, len(m.GetLabel()))
	for i, l := range m.GetLabel() {
		labels[i] = label{l.GetName(), l.GetValue()}
	}
	slices.SortFunc(labels, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return labels
}
