package chunk

// Decoder decodes the events of a stream, one after the other, and reuses its
// memory. The zero Decoder is ready to use, and may go from one stream to
// another without more ado. Not safe for concurrent use.
//
// Memory: what the decoded text of one event needs, and at most 16 KiB between
// events.
type Decoder struct {
	last pattern

	// The first syntax error: where, and what should stand there; "" for none.
	at   int
	want string
	// The first value of a type that its member must not have; path "" for none.
	fault shapeFault

	escaped bool // the last string read has an escape

	// Decoded text of this event. text aliases scratch, so that grows by
	// append only.
	scratch []byte
	visible []byte // text parts joined
	thought []byte // thinking parts joined

	cur choice
}

// choice is one element of choices.
type choice struct {
	other     bool // the index is not 0
	content   []byte
	reasoning [3][]byte // by rank: reasoning_content, reasoning, thinking parts
	hasDelta  bool
	finish    []byte
	tools     bool // tool_calls is not empty
	function  bool // function_call is not null

	// Where the inside of the strings stands in the data: that of content, end 0
	// for none, and those of the first two of reasoning where they are not empty.
	contentAt   span
	reasoningAt [2]span
}

// span is data[start:end].
type span struct{ start, end int }

// keepBytes is the largest text buffer kept from one event to the next, in
// bytes, for each of the three.
const keepBytes = 4 << 10

// Decode reads the data of one event into c. It gives a *MalformedError where
// the data is not JSON, or not that of a chunk; c is then empty. Data that is
// [DONE] or a heartbeat is no error.
//
// A value of a wrong type does not hide an error that the server reports in the
// same event: the event then decodes, with HasError.
//
// An event that says one text and nothing else makes those like it readable by
// [Decoder.Text], which is several times as fast: ask that first.
func (d *Decoder) Decode(data []byte, c *Chunk) error {
	*c = Chunk{}
	d.reset()
	i := d.event(data, c)
	if i >= 0 {
		if i = space(data, i); i < len(data) {
			i = d.fail(i, "nothing more after the object")
		}
	}
	if i < 0 || d.fault.path != "" && !c.HasError {
		*c = Chunk{}
		return d.malformed(data)
	}
	d.learn(data, c)
	return nil
}

func (d *Decoder) reset() {
	d.at, d.want = 0, ""
	d.fault = shapeFault{}
	d.scratch = emptied(d.scratch)
	d.visible = emptied(d.visible)
	d.thought = emptied(d.thought)
}

func emptied(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

// event reads the one value that the data holds.
func (d *Decoder) event(b []byte, c *Chunk) int {
	i := space(b, 0)
	switch {
	case i == len(b):
		c.Heartbeat = true
		return i
	case b[i] == '{':
		return d.object(b, i, c)
	case b[i] == 'n':
		c.Heartbeat = true
		return d.null(b, i)
	case b[i] == '[' && IsDone(b):
		c.Done = true
		return len(b)
	}
	return d.wrong(b, i, 0, "the event", "an object")
}

// wrong reads a value that has the wrong type, and notes that. The rest of the
// event is still read: whether it is JSON at all is the graver question.
func (d *Decoder) wrong(b []byte, i, depth int, path, want string) int {
	if d.fault.path == "" {
		d.fault = shapeFault{i, path, want}
	}
	return d.skip(b, i, depth)
}

// member reads up to the value of the next member of an object, like name, and
// gives its name decoded.
func (d *Decoder) member(b []byte, i int, first bool) (name []byte, next int, open bool) {
	start, end, i, open := d.name(b, i, first)
	if !open {
		return nil, i, false
	}
	name = b[start:end]
	if d.escaped {
		at := len(d.scratch)
		d.scratch = appendDecoded(d.scratch, name)
		name = d.scratch[at:]
	}
	return name, i, true
}

// object reads the chunk itself.
func (d *Decoder) object(b []byte, i int, c *Chunk) int {
	var flat Error   // fields of an error that are members of the chunk itself
	var isError bool // object is "error"
	begin := i
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			i = next
			break
		}
		switch i = next; string(name) {
		case "choices":
			i = d.choices(b, i, c)
		case "usage":
			i = d.usage(b, i, c)
		case "error":
			c.HasError, i = d.errorValue(b, i, 1, &c.Error)
		case "timings":
			i = d.timings(b, i, c)
		case "object":
			isError, i = d.isErrorType(b, i)
		case "message":
			i = d.errorField(b, i, 1, &flat.Message)
		case "type":
			i = d.errorField(b, i, 1, &flat.Type)
		case "code":
			i = d.errorField(b, i, 1, &flat.Code)
		default:
			i = d.skip(b, i, 1)
		}
		if i < 0 {
			return i
		}
	}
	if isError && !c.HasError && i >= 0 {
		c.HasError = true
		c.Error = flat
		c.Error.Raw = cutRaw(b[begin:i])
	}
	return i
}

// isErrorType reads the top-level member object: "error" is how vLLM and SGLang
// mark an error whose fields are members of the chunk itself.
func (d *Decoder) isErrorType(b []byte, i int) (bool, int) {
	if b[i] != '"' {
		return false, d.skip(b, i, 1)
	}
	kind, i := d.text(b, i)
	return string(kind) == "error", i
}

// timings keeps the object of that name as it stands.
func (d *Decoder) timings(b []byte, i int, c *Chunk) int {
	next := d.skip(b, i, 1)
	c.Timings = nil
	if next >= 0 && b[i] == '{' {
		c.Timings = b[i:next:next]
	}
	return next
}

// choices reads the array of that name; of two, the last one counts.
func (d *Decoder) choices(b []byte, i int, c *Chunk) int {
	c.HasChoice0, c.OtherChoices, c.ToolCalls = false, false, false
	c.Content, c.Reasoning, c.FinishReason = nil, nil, nil
	switch b[i] {
	case 'n':
		return d.null(b, i)
	case '[':
	default:
		return d.wrong(b, i, 1, "choices", "an array or null")
	}
	i++
	for first := true; ; first = false {
		next, open := d.element(b, i, first)
		if !open {
			return next
		}
		switch i = next; b[i] {
		case '{':
			if i = d.choice(b, i); i >= 0 {
				d.commit(c)
			}
		case 'n':
			i = d.null(b, i)
		default:
			i = d.wrong(b, i, 2, "choices[]", "an object or null")
		}
		if i < 0 {
			return i
		}
	}
}

// choice reads one choice into d.cur.
func (d *Decoder) choice(b []byte, i int) int {
	d.cur = choice{}
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			return next
		}
		switch i = next; string(name) {
		case "index":
			i = d.index(b, i)
		case "delta":
			i = d.delta(b, i)
		case "finish_reason":
			d.cur.finish, i = d.textOrNull(b, i, 3, "choices[].finish_reason")
		default:
			i = d.skip(b, i, 3)
		}
		if i < 0 {
			return i
		}
	}
}

// commit makes d.cur choice 0 of the chunk, if it is that.
func (d *Decoder) commit(c *Chunk) {
	cur := &d.cur
	if cur.other {
		c.OtherChoices = true
		return
	}
	c.HasChoice0 = true
	c.ToolCalls = cur.tools || cur.function
	c.Content = cur.content
	c.Reasoning = nil
	for _, text := range cur.reasoning {
		if len(text) > 0 {
			c.Reasoning = text
			break
		}
	}
	c.FinishReason = nil
	if len(cur.finish) > 0 {
		c.FinishReason = cur.finish
	}
}

// index reads choices[].index: 0, another whole number, or null for 0.
func (d *Decoder) index(b []byte, i int) int {
	var n Count
	i = d.count(b, i, 3, "choices[].index", &n)
	d.cur.other = n.N != 0
	return i
}

// textOrNull reads a string or null, for which it gives nil.
func (d *Decoder) textOrNull(b []byte, i, depth int, path string) ([]byte, int) {
	switch b[i] {
	case '"':
		return d.text(b, i)
	case 'n':
		return nil, d.null(b, i)
	}
	return nil, d.wrong(b, i, depth, path, "a string or null")
}
