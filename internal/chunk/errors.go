package chunk

import "fmt"

// MalformedError says why data is not that of a chunk.
type MalformedError struct {
	// Offset is the index in the data, in bytes, of what is wrong; the length of
	// the data where that ended too early.
	Offset int
	// Path is the member whose value has a wrong type; "" where the data is not
	// JSON.
	Path string
	// Got and Want say what stands there and what should.
	Got, Want string
	// Excerpt is the data around Offset, ExcerptBytes at most.
	Excerpt string
}

// ExcerptBytes bounds MalformedError.Excerpt.
const ExcerptBytes = 64

// tooDeep is MalformedError.Want for data that is nested deeper than MaxDepth.
const tooDeep = "at most 1000 arrays and objects inside each other"

// Error says what was got and wanted where.
func (e *MalformedError) Error() string {
	what := "JSON"
	if e.Path != "" {
		what = e.Path
	}
	return fmt.Sprintf("decoding chunk: %s at byte %d: got %s, want %s (near %q)", what, e.Offset, e.Got, e.Want, e.Excerpt)
}

// shapeFault is a value of a type that its member must not have.
type shapeFault struct {
	at         int
	path, want string
}

// malformed makes the error of a decoding that failed.
func (d *Decoder) malformed(b []byte) error {
	if d.want != "" {
		at := min(d.at, len(b))
		return &MalformedError{Offset: at, Got: gotByte(b, at), Want: d.want, Excerpt: excerpt(b, at)}
	}
	at := d.fault.at
	return &MalformedError{Offset: at, Path: d.fault.path, Got: gotType(b[at]), Want: d.fault.want, Excerpt: excerpt(b, at)}
}

func gotByte(b []byte, at int) string {
	if at == len(b) {
		return "the end of the data"
	}
	return fmt.Sprintf("%q", b[at:at+1])
}

// gotType names the type of the value that begins with c.
func gotType(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func excerpt(b []byte, at int) string {
	start := max(0, at-ExcerptBytes/2)
	return string(b[start:min(len(b), start+ExcerptBytes)])
}

// errorValue reads an error: an object, a string, or what else a server may
// put there. It gives whether it is one: null, false and "" say that nothing
// went wrong.
func (d *Decoder) errorValue(b []byte, i, depth int, e *Error) (bool, int) {
	*e = Error{}
	next := -1
	switch b[i] {
	case 'n':
		return false, d.null(b, i)
	case 'f':
		return false, d.literal(b, i, "false")
	case '"':
		e.Message, next = d.text(b, i)
		if len(e.Message) == 0 {
			return false, next
		}
	case '{':
		next = d.errorObject(b, i, depth+1, e)
	default:
		next = d.skip(b, i, depth)
	}
	if next < 0 {
		return false, next
	}
	e.Raw = cutRaw(b[i:next])
	return true, next
}

// errorObject reads the members of an error. Their types are not judged: an
// error of an odd shape is still an error.
func (d *Decoder) errorObject(b []byte, i, depth int, e *Error) int {
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			return next
		}
		switch i = next; string(name) {
		case "message":
			i = d.errorField(b, i, depth, &e.Message)
		case "type":
			i = d.errorField(b, i, depth, &e.Type)
		case "code":
			i = d.errorField(b, i, depth, &e.Code)
		default:
			i = d.skip(b, i, depth)
		}
		if i < 0 {
			return i
		}
	}
}

// errorField reads one of them: the text of a string, the digits of a number,
// nothing of anything else.
func (d *Decoder) errorField(b []byte, i, depth int, field *[]byte) (next int) {
	*field = nil
	switch c := b[i]; {
	case c == '"':
		*field, next = d.text(b, i)
	case c == '-' || c-'0' <= 9:
		if next = d.number(b, i); next >= 0 {
			*field = b[i:next:next]
		}
	default:
		next = d.skip(b, i, depth)
	}
	return next
}

func cutRaw(raw []byte) []byte {
	n := min(len(raw), RawErrorBytes)
	return raw[:n:n]
}

// DecodeError reads data that its framing already calls an error: that of an
// event named error, or the body of a failed request. Beside what Decode knows
// as one, it takes an object whose own members are message, type and code, one
// with the member detail (FastAPI), and a string. It gives false for anything
// else, JSON or not; the caller then has only the text. The slices of the Error
// are valid as those of a Chunk are.
func (d *Decoder) DecodeError(data []byte) (e Error, ok bool) {
	d.reset()
	i := space(data, 0)
	next := -1
	switch {
	case i == len(data):
	case data[i] == '"':
		ok, next = d.errorValue(data, i, 0, &e)
	case data[i] == '{':
		ok, next = d.errorBody(data, i, &e)
	}
	if !ok || next < 0 || space(data, next) < len(data) {
		return Error{}, false
	}
	return e, true
}

// errorBody reads an object that holds an error or is one.
func (d *Decoder) errorBody(b []byte, i int, e *Error) (ok bool, next int) {
	var flat Error
	var detail []byte
	begin := i
	i++
	for first := true; ; first = false {
		name, next, open := d.member(b, i, first)
		if !open {
			i = next
			break
		}
		switch i = next; string(name) {
		case "error":
			ok, i = d.errorValue(b, i, 1, e)
		case "message":
			i = d.errorField(b, i, 1, &flat.Message)
		case "type":
			i = d.errorField(b, i, 1, &flat.Type)
		case "code":
			i = d.errorField(b, i, 1, &flat.Code)
		case "detail":
			i = d.errorField(b, i, 1, &detail)
		default:
			i = d.skip(b, i, 1)
		}
		if i < 0 {
			return false, i
		}
	}
	if ok || i < 0 {
		return ok, i
	}
	if len(flat.Message) == 0 {
		flat.Message = detail
	}
	flat.Raw = cutRaw(b[begin:i])
	*e = flat
	return len(flat.Message) > 0, i
}
