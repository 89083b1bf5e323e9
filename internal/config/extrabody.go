package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ownFields are the request fields that the suite sets, and the variable that
// says how ("" where none does). Through EXTRA_BODY they would be sent behind
// the back of the artifact, which records what the variables say.
var ownFields = map[string]string{
	"model":                 "MODEL",
	"messages":              "",
	"stream":                "",
	"stream_options":        "",
	"max_tokens":            "MAX_TOKENS",
	"max_completion_tokens": "MAX_TOKENS",
	"temperature":           "TEMPERATURE",
	"top_p":                 "TOP_P",
	"reasoning_effort":      "REASONING_EFFORT",
}

// bodyField is one top-level field of EXTRA_BODY.
type bodyField struct {
	name    string
	content json.RawMessage
}

// extraBody parses a JSON object of further request fields and keeps it compact.
func extraBody(field func(*Settings) *json.RawMessage) kind {
	return kind{"a JSON object without the fields that the suite sets", func(v *value, s *Settings) {
		if len(v.text) > extraBodyMaxBytes {
			v.wrong(fmt.Sprintf("at most %d bytes", extraBodyMaxBytes), "")
			return
		}
		fields, err := bodyFields([]byte(v.text))
		if err != nil {
			v.wrong("a JSON object", err.Error())
			return
		}
		seen := map[string]bool{}
		for _, f := range fields {
			if want, hint := wantOfField(f, seen[f.name]); want != "" {
				v.wrong(want, hint)
			}
			seen[f.name] = true
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(v.text)); err == nil && len(v.faults) == 0 {
			*field(s) = compact.Bytes()
		}
	}}
}

// wantOfField says what is wrong with a field, "" where nothing is.
func wantOfField(f bodyField, seen bool) (want, hint string) {
	variable, own := ownFields[f.name]
	switch {
	case seen:
		return "each field once, and " + shown(f.name) + " stands twice", ""
	case own && variable == "":
		return "no field " + shown(f.name), "the suite sets it itself"
	case own:
		return "no field " + shown(f.name), "set " + Prefix + variable + " instead"
	case f.name != "chat_template_kwargs":
		return "", ""
	}
	var kwargs map[string]json.RawMessage
	if err := json.Unmarshal(f.content, &kwargs); err != nil || kwargs == nil {
		return "an object as chat_template_kwargs", ""
	}
	if _, ok := kwargs["enable_thinking"]; ok {
		return "no chat_template_kwargs.enable_thinking", "set CAPACITY_THINKING instead"
	}
	return "", ""
}

// bodyFields gives the fields of one JSON object in order, repeated ones too.
func bodyFields(text []byte) ([]bodyField, error) {
	if !json.Valid(text) {
		var content json.RawMessage
		err := json.Unmarshal(text, &content) // says where; repeats one character at most
		return nil, fmt.Errorf("parsing it: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is another JSON value")
	}
	var fields []bodyField
	for d.More() { // the text is valid, so neither call can fail
		var f bodyField
		name, _ := d.Token()
		f.name, _ = name.(string)
		_ = d.Decode(&f.content)
		fields = append(fields, f)
	}
	return fields, nil
}
