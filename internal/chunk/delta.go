package chunk

// delta reads choices[].delta into d.cur.
func (d *Decoder) delta(b []byte, i int) int {
	cur := &d.cur
	if cur.hasDelta { // of two, the last one counts
		*cur = choice{other: cur.other, finish: cur.finish}
	}
	cur.hasDelta = true
	switch b[i] {
	case 'n':
		return d.null(b, i)
	case '{':
	default:
		return d.wrong(b, i, 3, "choices[].delta", "an object or null")
	}
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			return next
		}
		switch i = next; string(name) {
		case "content":
			i = d.content(b, i)
		case "reasoning_content":
			i = d.reasoning(b, i, 0, "choices[].delta.reasoning_content")
		case "reasoning":
			i = d.reasoning(b, i, 1, "choices[].delta.reasoning")
		case "tool_calls":
			cur.tools = b[i] != 'n' && !isEmptyArray(b, i)
			i = d.skip(b, i, 4)
		case "function_call":
			cur.function = b[i] != 'n'
			i = d.skip(b, i, 4)
		default:
			i = d.skip(b, i, 4)
		}
		if i < 0 {
			return i
		}
	}
}

// isEmptyArray says that the value at i is an array without elements.
func isEmptyArray(b []byte, i int) bool {
	if b[i] != '[' {
		return false
	}
	i = space(b, i+1)
	return i < len(b) && b[i] == ']'
}

// content reads delta.content: a string, or an array of parts.
func (d *Decoder) content(b []byte, i int) (next int) {
	cur := &d.cur
	cur.content, cur.reasoning[2], cur.contentAt = nil, nil, span{}
	switch b[i] {
	case '"':
		cur.content, next = d.text(b, i)
		cur.contentAt = span{i + 1, next - 1}
		return next
	case '[':
		return d.parts(b, i)
	case 'n':
		return d.null(b, i)
	}
	return d.wrong(b, i, 4, "choices[].delta.content", "a string, an array of parts or null")
}

// reasoning reads a string or null, of that rank in choice.reasoning.
func (d *Decoder) reasoning(b []byte, i, rank int, path string) int {
	text, next := d.textOrNull(b, i, 4, path)
	d.cur.reasoning[rank] = text
	d.cur.reasoningAt[rank] = span{i + 1, next - 1}
	return next
}

// parts reads a content array: visible text and reasoning in one list.
func (d *Decoder) parts(b []byte, i int) int {
	visible, thought := len(d.visible), len(d.thought)
	i++
	for first := true; ; first = false {
		next, open := d.element(b, i, first)
		if !open {
			d.cur.content = d.visible[visible:]
			d.cur.reasoning[2] = d.thought[thought:]
			return next
		}
		switch i = next; b[i] {
		case '{':
			i = d.part(b, i)
		case '"':
			var text []byte
			text, i = d.text(b, i)
			d.visible = append(d.visible, text...)
		case 'n':
			i = d.null(b, i)
		default:
			i = d.wrong(b, i, 5, "choices[].delta.content[]", "an object, a string or null")
		}
		if i < 0 {
			return i
		}
	}
}

// part reads one part of a content array and appends its text to d.visible or
// d.thought, as its type says, which may stand after the text.
func (d *Decoder) part(b []byte, i int) int {
	const path = "choices[].delta.content[]"
	var kind, text, reasoning []byte
	mark := len(d.thought)
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			if next >= 0 {
				d.place(kind, text, reasoning, mark)
			}
			return next
		}
		switch i = next; string(name) {
		case "type":
			kind, i = d.textOrNull(b, i, 6, path+".type")
		case "text":
			text, i = d.textOrNull(b, i, 6, path+".text")
		case "reasoning":
			reasoning, i = d.textOrNull(b, i, 6, path+".reasoning")
		case "thinking":
			d.thought = d.thought[:mark]
			i = d.thinking(b, i)
		default:
			i = d.skip(b, i, 6)
		}
		if i < 0 {
			return i
		}
	}
}

// place appends the text of a part where it belongs. d.thought[mark:] is the
// value of its member thinking.
func (d *Decoder) place(kind, text, reasoning []byte, mark int) {
	switch string(kind) {
	case "thinking", "reasoning":
		if len(d.thought) > mark {
			return
		}
		if len(reasoning) == 0 {
			reasoning = text
		}
		d.thought = append(d.thought, reasoning...)
	case "text", "output_text", "":
		d.visible = append(d.visible, text...)
		d.thought = d.thought[:mark]
	default: // an image, a reference, a refusal: no generated text
		d.thought = d.thought[:mark]
	}
}

// thinking reads the member thinking of a part and appends its text to
// d.thought: a string, or an array of text parts as Mistral sends it.
func (d *Decoder) thinking(b []byte, i int) int {
	const path = "choices[].delta.content[].thinking"
	if b[i] != '[' {
		text, next := d.textOrNull(b, i, 6, path)
		d.thought = append(d.thought, text...)
		return next
	}
	i++
	for first := true; ; first = false {
		next, open := d.element(b, i, first)
		if !open {
			return next
		}
		switch i = next; b[i] {
		case '{':
			i = d.thinkingPart(b, i)
		default:
			var text []byte
			text, i = d.textOrNull(b, i, 7, path+"[]")
			d.thought = append(d.thought, text...)
		}
		if i < 0 {
			return i
		}
	}
}

// thinkingPart appends the member text of one element of thinking.
func (d *Decoder) thinkingPart(b []byte, i int) int {
	var text []byte
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			d.thought = append(d.thought, text...)
			return next
		}
		if i = next; string(name) == "text" {
			text, i = d.textOrNull(b, i, 8, "choices[].delta.content[].thinking[].text")
		} else {
			i = d.skip(b, i, 8)
		}
		if i < 0 {
			return i
		}
	}
}
