package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"anvil-capacity/internal/contract"
)

// kind is how one sort of variable is written: what is allowed, in words, and
// the parser that holds it to that. A parser either sets its field or reports
// at least one fault.
type kind struct {
	allowed string
	parse   func(*value, *Settings)
}

// whole parses a whole number within the limits.
func whole(low, high int, field func(*Settings) *int) kind {
	l := limits{low, high}
	return kind{l.String(), func(v *value, s *Settings) {
		n, want, hint := parseWhole(v.text, l)
		if want != "" {
			v.wrong(want, hint)
			return
		}
		*field(s) = n
	}}
}

// wholes parses a comma list of distinct whole numbers within the limits.
func wholes(low, high int, field func(*Settings) *[]int) kind {
	l := limits{low, high}
	return kind{"a comma list; each " + l.String(), func(v *value, s *Settings) {
		seen := map[int]bool{}
		for _, item := range v.items() {
			n, want, hint := parseWhole(item.text, l)
			if want == "" && seen[n] {
				want, hint = "each number once", ""
			}
			if want != "" {
				v.wrongItem(item, want, hint)
				continue
			}
			seen[n] = true
			*field(s) = append(*field(s), n)
		}
	}}
}

// parseWhole reads a whole number of plain digits. A want other than "" says
// that text is not one, or not within the limits.
func parseWhole(text string, l limits) (n int, want, hint string) {
	want = "a whole number, " + l.String()
	digits := strings.TrimPrefix(text, "-")
	switch {
	case text == "":
		return 0, want, "a comma too many, perhaps"
	case digits == "" || strings.Trim(digits, "0123456789") != "":
		return 0, want, "digits only: no unit, no separator, no k"
	case len(digits) > 1 && digits[0] == '0':
		// 1,024 is the list 1 and 024: it must not run as 24.
		return 0, want, "no leading zero and no thousands separator"
	}
	n, err := strconv.Atoi(text)
	if err != nil || !l.hold(n) {
		return 0, want, ""
	}
	return n, "", ""
}

// optional makes a kind for a field that is nil when not set.
func optional[T any](of func(func(*Settings) *T) kind, field func(*Settings) **T) kind {
	return of(func(s *Settings) *T {
		*field(s) = new(T)
		return *field(s)
	})
}

// number parses a decimal number from low to high; above says that low itself
// is out.
func number(low, high float64, above bool, field func(*Settings) *float64) kind {
	allowed := fmt.Sprintf("%v to %v", low, high)
	if above {
		allowed = fmt.Sprintf("above %v, up to %v", low, high)
	}
	return kind{allowed, func(v *value, s *Settings) {
		n, ok := parseNumber(v.text)
		if !ok || n < low || n > high || above && n == low {
			v.wrong("a number, "+allowed, "")
			return
		}
		*field(s) = n
	}}
}

// parseNumber reads a finite decimal number: no hexadecimal, no Inf, no NaN, no
// underscores. Minus zero comes back as zero.
func parseNumber(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.eE+-") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n + 0, err == nil
}

// share parses a share of one, also written as a percentage.
func share(field func(*Settings) *float64) kind {
	return kind{"0 to 1, or 0% to 100%", func(v *value, s *Settings) {
		digits, percent := strings.CutSuffix(v.text, "%")
		n, ok := parseNumber(strings.TrimSpace(digits))
		hint := ""
		if percent {
			n /= 100
		} else if n > 1 && n <= 100 {
			hint = fmt.Sprintf("write %v%% if that is meant", n)
		}
		if !ok || n < 0 || n > 1 {
			v.wrong("", hint)
			return
		}
		*field(s) = n
	}}
}

// span parses a duration within the limits of a request.
func span(field func(*Settings) *time.Duration) kind {
	return kind{"1ms to 1h", func(v *value, s *Settings) {
		d, err := time.ParseDuration(v.text)
		hint := "write a number and its unit, such as 90s, 10m or 1h"
		if err == nil {
			hint = ""
		}
		if err != nil || d < timeoutMin || d > timeoutMax {
			v.wrong("a duration, 1ms to 1h", hint)
			return
		}
		*field(s) = d
	}}
}

// oneOf parses one of a few words, in any case.
func oneOf[T ~string](field func(*Settings) *T, words ...T) kind {
	allowed := make([]string, len(words))
	for i, w := range words {
		allowed[i] = string(w)
	}
	return kind{orList(allowed), func(v *value, s *Settings) {
		text := strings.ToLower(v.text)
		for _, w := range words {
			if text == string(w) {
				*field(s) = w
				return
			}
		}
		v.wrong("", maybe(text, allowed))
	}}
}

// maybe is the hint that names the word that was meant, "" where none is near.
func maybe(text string, words []string) string {
	if near, ok := nearest(text, words); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return ""
}

// orList writes "a, b or c" of two words or more.
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// booleanWords are the ways to write a boolean, in pairs.
var booleanWords = map[string]bool{
	"true": true, "on": true, "1": true,
	"false": false, "off": false, "0": false,
}

// boolean parses true/false, on/off or 1/0, in any case.
func boolean(field func(*Settings) *bool) kind {
	return kind{"true/false, on/off or 1/0", func(v *value, s *Settings) {
		b, ok := booleanWords[strings.ToLower(v.text)]
		if !ok {
			v.wrong("", "")
			return
		}
		*field(s) = b
	}}
}

// canaryPolicy parses off, observe or strict, and the booleans for off and strict.
func canaryPolicy(field func(*Settings) *contract.Policy) kind {
	words := []string{string(contract.Off), string(contract.Observe), string(contract.Strict)}
	return kind{orList(words) + " (a boolean: false is off, true is strict)", func(v *value, s *Settings) {
		text := strings.ToLower(v.text)
		on, isBoolean := booleanWords[text]
		switch {
		case isBoolean && on:
			*field(s) = contract.Strict
		case isBoolean:
			*field(s) = contract.Off
		case text == string(contract.Observe), text == string(contract.Strict):
			*field(s) = contract.Policy(text)
		default:
			v.wrong("", maybe(text, words))
		}
	}}
}

// label parses a text that is recorded or sent as it stands.
func label(what string, field func(*Settings) *string) kind {
	allowed := fmt.Sprintf("%s, up to %d characters", what, labelMaxChars)
	return kind{allowed, func(v *value, s *Settings) {
		if !printable(v.text) || utf8.RuneCountInString(v.text) > labelMaxChars {
			v.wrong(allowed+", valid UTF-8 without control characters", "")
			return
		}
		*field(s) = v.text
	}}
}

// printable says that text is valid UTF-8 of graphic characters and spaces: it
// fits on one line of a message, an attribute or a subtest name.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// token parses a word of the given characters beside letters and digits.
func token(what, extra string, maxChars int, field func(*Settings) *string) kind {
	allowed := fmt.Sprintf("%s of letters, digits and %s, up to %d characters", what, strings.Join(strings.Split(extra, ""), " "), maxChars)
	return kind{allowed, func(v *value, s *Settings) {
		if len(v.text) > maxChars || !isToken(v.text, extra) {
			v.wrong("", "")
			return
		}
		*field(s) = v.text
	}}
}

// isToken says that text is made of ASCII letters, digits and extra, and does
// not begin with a dot: it is safe as a file stem and a subtest name.
func isToken(text, extra string) bool {
	return text != "" && text[0] != '.' && isMadeOf(text, extra)
}

// isMadeOf says that text has no bytes but ASCII letters, digits and extra.
func isMadeOf(text, extra string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && strings.IndexByte(extra, text[i]) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// fingerprint parses sha256: and 64 hexadecimal digits, kept in lower case.
func fingerprint(field func(*Settings) *string) kind {
	return kind{"sha256: and 64 hexadecimal digits", func(v *value, s *Settings) {
		text := strings.ToLower(v.text)
		digits, ok := strings.CutPrefix(text, "sha256:")
		if !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
			v.wrong("", "")
			return
		}
		*field(s) = text
	}}
}
