package chunk_test

import "anvil-capacity/internal/chunk"

// known makes a Count of a number that the server sent.
func known(n int) chunk.Count { return chunk.Count{N: n, Known: true} }

// text is the reading of a chunk that has nothing but visible text.
func text(s string) reading { return reading{Verdict: fine, HasChoice0: true, Content: s} }

// thought is the reading of a chunk that has nothing but reasoning.
func thought(s string) reading { return reading{Verdict: fine, HasChoice0: true, Reasoning: s} }

// delta wraps the members of a delta into a chunk.
func delta(members string) string { return `{"choices":[{"index":0,"delta":{` + members + `}}]}` }

// usage wraps the members of usage into a chunk.
func usage(members string) string { return `{"choices":[],"usage":{` + members + `}}` }

var (
	empty      = reading{Verdict: fine}
	malformed  = reading{Verdict: notJSON}
	wrongShape = reading{Verdict: shape}
)

// row is one event with its right reading.
type row struct {
	name string
	data string
	want reading
	why  string
}

var rows = []row{
	// Kinds of data.
	{"done", "[DONE]", reading{Verdict: fine, Done: true}, "the end of the answer"},
	{"done in white space", " [DONE]\r", reading{Verdict: fine, Done: true}, "white space is not a part of it"},
	{"almost done", "[DONE", malformed, "cut, not the end"},
	{"done and more", "[DONE]x", malformed, "nothing may follow"},
	{"done in lower case", "[done]", malformed, "the mark is exact"},
	{"empty", "", reading{Verdict: fine, Heartbeat: true}, "WIRE 5"},
	{"white space", " \t", reading{Verdict: fine, Heartbeat: true}, "WIRE 5: nothing was said"},
	{"null", "null", reading{Verdict: fine, Heartbeat: true}, "WIRE 5"},
	{"null in white space", " null ", reading{Verdict: fine, Heartbeat: true}, "JSON allows white space"},
	{"object", "{}", empty, "every member is optional"},
	{"array", "[]", wrongShape, "JSON, not a chunk"},
	{"number", "12", wrongShape, "JSON, not a chunk"},
	{"string", `"error"`, wrongShape, "JSON, not a chunk"},
	{"true", "true", wrongShape, "JSON, not a chunk"},
	{"plain text", "error: synthetic engine died", malformed, "WIRE: a data line that is not JSON is a failure"},
	{"two objects", "{}{}", malformed, "one event, one chunk"},
	{"two lines", "{\"choices\":\n[]}", empty, "data lines are joined by LF, which is white space"},
	{"byte order mark", "\uFEFF{}", malformed, "JSON has none"},

	// Choices.
	{"choices empty", `{"choices":[]}`, empty, "usage events, prompt filters"},
	{"choices null", `{"choices":null}`, empty, "null is nothing"},
	{"choices of a wrong type", `{"choices":{}}`, wrongShape, "who knows what it means"},
	{"choice null", `{"choices":[null]}`, empty, "null is nothing"},
	{"choice of a wrong type", `{"choices":["a"]}`, wrongShape, "text outside of a choice is nobody's"},
	{"choice empty", `{"choices":[{}]}`, text(""), "no index is index 0"},
	{"choice without delta", `{"choices":[{"index":0,"finish_reason":null}]}`, text(""), "azure's filter events"},
	{"delta null", `{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}`, reading{Verdict: fine, HasChoice0: true, Finish: "stop"}, "null is nothing, the reason still counts"},
	{"delta of a wrong type", `{"choices":[{"delta":"a"}]}`, wrongShape, "text outside of content is not known to be text"},
	{"message and text", `{"choices":[{"index":0,"text":"a","message":{"content":"b"}}]}`, text(""), "other endpoints' members are not read"},
	{"other choice", `{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`, reading{Verdict: fine, OtherChoices: true}, "WIRE 19: only choice 0 counts"},
	{"two choices", `{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`, reading{Verdict: fine, HasChoice0: true, OtherChoices: true, Content: "a"}, "in any order"},
	{"index last", `{"choices":[{"delta":{"content":"b"},"index":1}]}`, reading{Verdict: fine, OtherChoices: true}, "the order of members is free"},
	{"index null", `{"choices":[{"index":null,"delta":{"content":"a"}}]}`, text("a"), "as if it were not there"},
	{"index 0.0", `{"choices":[{"index":0.0,"delta":{"content":"a"}}]}`, text("a"), "the same number"},
	{"index text", `{"choices":[{"index":"0"}]}`, wrongShape, "not a number"},
	{"index below 0", `{"choices":[{"index":-1}]}`, wrongShape, "no such choice"},

	// Text.
	{"content", delta(`"content":"a b"`), text("a b"), "the usual event"},
	{"content null", delta(`"content":null`), text(""), "llama.cpp's first event"},
	{"role only", delta(`"role":"assistant","content":""`), text(""), "WIRE 14: no output"},
	{"role and content", delta(`"role":"assistant","content":"a"`), text("a"), "WIRE 15: text beside a role is text"},
	{"content and reason", `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`, reading{Verdict: fine, HasChoice0: true, Content: "a", Finish: "length"}, "WIRE 15"},
	{"content and usage", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}`,
		reading{Verdict: fine, HasChoice0: true, HasUsage: true, Content: "a", Usage: chunk.Usage{CompletionTokens: known(1)}}, "WIRE 15"},
	{"content number", delta(`"content":1`), wrongShape, "not text"},
	{"content object", delta(`"content":{"text":"a"}`), wrongShape, "not one of the known forms"},
	{"think tags", delta(`"content":"<think>a</think>"`), text("<think>a</think>"), "WIRE 18: verbatim"},
	{"refusal", delta(`"refusal":"a"`), text(""), "not read"},

	// Reasoning.
	{"reasoning_content", delta(`"reasoning_content":"a"`), thought("a"), "DeepSeek, vLLM"},
	{"reasoning", delta(`"reasoning":"a"`), thought("a"), "newer vLLM, OpenRouter"},
	{"both names", delta(`"reasoning":"a","reasoning_content":"a"`), thought("a"), "WIRE 18: counted once"},
	{"both names, one empty", delta(`"reasoning":"a","reasoning_content":""`), thought("a"), "the one that is not empty"},
	{"both names, one null", delta(`"reasoning":null,"reasoning_content":"b"`), thought("b"), "the one that is not null"},
	{"reasoning and content", delta(`"reasoning":"a","content":"b"`), reading{Verdict: fine, HasChoice0: true, Content: "b", Reasoning: "a"}, "WIRE 15: none hides another"},
	{"reasoning object", delta(`"reasoning":{"text":"a"}`), wrongShape, "text may be in it: better loud than late"},
	{"thinking part", delta(`"content":[{"type":"thinking","thinking":"a"}]`), thought("a"), "content as an array"},
	{"thinking array", delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"},"b",null,{"text":"c"}]}]`), thought("abc"), "Mistral"},
	{"reasoning part", delta(`"content":[{"type":"reasoning","text":"a"},{"reasoning":"b","type":"reasoning"}]`), thought("ab"), "other spellings"},
	{"text parts", delta(`"content":[{"type":"text","text":"a"},{"text":"b"},"c",null,{"type":"output_text","text":"d"}]`), text("abcd"), "joined in order"},
	{"parts of both kinds", delta(`"content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"},{"type":"thinking","thinking":"c"}]`), reading{Verdict: fine, HasChoice0: true, Content: "b", Reasoning: "ac"}, "each to its own"},
	{"type after text", delta(`"content":[{"text":"a","type":"thinking"},{"thinking":"x","text":"b","type":"text"}]`), reading{Verdict: fine, HasChoice0: true, Content: "b", Reasoning: "a"}, "the order of members is free"},
	{"other part", delta(`"content":[{"type":"image_url","image_url":{"url":"x"},"text":"a","thinking":"b"}]`), text(""), "no generated text"},
	{"parts empty", delta(`"content":[]`), text(""), "nothing"},
	{"part number", delta(`"content":[1]`), wrongShape, "not a part"},
	{"part text number", delta(`"content":[{"text":1}]`), wrongShape, "not text"},
	{"thinking number", delta(`"content":[{"thinking":1}]`), wrongShape, "not text"},
	{"thinking element number", delta(`"content":[{"thinking":[1]}]`), wrongShape, "not text"},
	{"thinking element text number", delta(`"content":[{"thinking":[{"text":1}]}]`), wrongShape, "not text"},
	{"parts after a reasoning member", delta(`"reasoning":"a","content":[{"type":"thinking","thinking":"a"}]`), thought("a"), "the same text twice"},

	// Escapes and encodings.
	{"short escapes", delta(`"content":"\"\\\/\b\f\n\r\t"`), text("\"\\/\b\f\n\r\t"), "all of them"},
	{"unicode escape", delta(`"content":"\u00e9\u4F60\u0000"`), text("é你\x00"), "both cases of hex digits; NUL survives"},
	{"surrogate pair", delta(`"content":"\ud83e\udd8a"`), text("🦊"), "two escapes, one character"},
	{"lone surrogates", delta(`"content":"\ud83ex\udd8a\ud83e"`), text("\uFFFDx\uFFFD\uFFFD"), "as encoding/json"},
	{"surrogate and another escape", delta(`"content":"\ud83e\u0041\ud83e\n"`), text("\uFFFDA\uFFFD\n"), "the second escape is not lost"},
	{"bad utf-8", delta("\"content\":\"a\xFF\xE4\xBDb\""), text("a\uFFFD\uFFFD\uFFFDb"), "as encoding/json: one for each byte"},
	{"line separator", delta("\"content\":\"a\u2028b\""), text("a\u2028b"), "JSON allows it raw"},
	{"delete", delta("\"content\":\"a\x7Fb\""), text("a\x7Fb"), "JSON allows it raw"},
	{"escaped names", `{"\u0063hoices":[{"\u0064elta":{"c\u006fntent":"a"}}]}`, text("a"), "a name is what it decodes to"},
	{"other case", `{"Choices":[{"delta":{"content":"a"}}]}`, empty, "names are exact, unlike in encoding/json's structs"},
	{"white space everywhere", " { \"choices\" : [ { \"index\" : 0 , \"delta\" : { \"content\" : \"a\" } } ] } ", text("a"), "legal anywhere between tokens"},
	{"control character", delta("\"content\":\"a\tb\""), malformed, "JSON wants it escaped"},
	{"bad escape", delta(`"content":"\x"`), malformed, "no such escape"},
	{"short unicode escape", delta(`"content":"\u12"`), malformed, "four digits"},

	// The last of two members counts.
	{"content twice", delta(`"content":"a","content":"b"`), text("b"), "the last one counts"},
	{"content, then null", delta(`"content":"a","content":null`), text(""), "null is the last one"},
	{"parts, then text", delta(`"content":[{"type":"thinking","thinking":"a"},"b"],"content":"c"`), text("c"), "the parts are gone, both kinds"},
	{"thinking twice", delta(`"content":[{"type":"thinking","thinking":"a","thinking":["b"]}]`), thought("b"), "inside a part too"},
	{"delta twice", `{"choices":[{"delta":{"content":"a","tool_calls":[1]},"delta":{"reasoning":"b"}}]}`, thought("b"), "the first delta is gone whole"},
	{"delta, then null", `{"choices":[{"delta":{"content":"a"},"delta":null}]}`, text(""), "null is the last one"},
	{"choices twice", `{"choices":[{"delta":{"content":"a"}},{"index":1}],"choices":[]}`, empty, "the first array is gone whole"},
	{"choice 0 twice", `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"},{"delta":{}}]}`, text(""), "of two elements with index 0 as well"},
	{"usage, then null", `{"usage":{"total_tokens":1},"usage":null}`, empty, "null is the last one"},
	{"choice 0 twice, both with reasoning", `{"choices":[{"delta":{"reasoning":"a"}},{"delta":{"content":"b"}}]}`, text("b"), "the reasoning of the first is gone"},
	{"choice 0 twice, both with parts", `{"choices":[{"delta":{"content":["a",{"type":"thinking","thinking":"t"}]}},{"delta":{"content":["b",{"type":"thinking","thinking":"u"}]}}]}`,
		reading{Verdict: fine, HasChoice0: true, Content: "b", Reasoning: "u"}, "the parts of the first are gone"},
	{"parts twice", delta(`"content":["a",{"type":"thinking","thinking":"t"}],"content":["b"]`), text("b"), "the first array is gone whole"},
	{"reasoning, then null", delta(`"reasoning":"a","content":"b","reasoning":null`), text("b"), "null is the last one"},
	{"count, then null", usage(`"prompt_tokens":1,"prompt_tokens":null`), reading{Verdict: fine, HasUsage: true}, "null is the last one"},
	{"details, then null", usage(`"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":null`), reading{Verdict: fine, HasUsage: true}, "null is the last one"},
	{"details twice", usage(`"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":{}`), reading{Verdict: fine, HasUsage: true}, "the first object is gone whole"},
	{"error, then null", `{"error":"m","error":null}`, empty, "null is the last one"},
	{"error twice", `{"error":{"message":"m"},"error":{"code":1}}`, reading{Verdict: fine, HasError: true, ErrCode: "1", ErrRaw: `{"code":1}`}, "the first object is gone whole"},
	{"error message, then null", `{"error":{"message":"m","message":null}}`, reading{Verdict: fine, HasError: true, ErrRaw: `{"message":"m","message":null}`}, "null is the last one"},
	{"timings, then null", `{"timings":{"a":1},"timings":null}`, empty, "null is the last one"},
	{"a wrong type, then a right one", delta(`"content":1,"content":"a"`), wrongShape, "what is wrong anywhere is wrong"},

	// Finish reasons.
	{"finish_reason empty", `{"choices":[{"finish_reason":""}]}`, text(""), "WIRE 16: none"},
	{"finish_reason", `{"choices":[{"finish_reason":"tool_calls"}]}`, reading{Verdict: fine, HasChoice0: true, Finish: "tool_calls"}, "as it stands"},
	{"finish_reason number", `{"choices":[{"finish_reason":1}]}`, wrongShape, "not a reason"},

	// Tool calls.
	{"tool calls", delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}],"content":null`), reading{Verdict: fine, HasChoice0: true, ToolCalls: true}, "no text"},
	{"tool calls empty", delta(`"tool_calls":[ ],"content":"a"`), text("a"), "vLLM sends it beside text"},
	{"tool calls null", delta(`"tool_calls":null,"function_call":null`), text(""), "null is nothing"},
	{"function call", delta(`"function_call":{"name":"f"}`), reading{Verdict: fine, HasChoice0: true, ToolCalls: true}, "the old name"},

	// Usage.
	{"usage", usage(`"prompt_tokens":9,"completion_tokens":4,"total_tokens":13`), reading{Verdict: fine, HasUsage: true,
		Usage: chunk.Usage{PromptTokens: known(9), CompletionTokens: known(4), TotalTokens: known(13)}}, "the usual event"},
	{"usage details", usage(`"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}`), reading{Verdict: fine, HasUsage: true,
		Usage: chunk.Usage{CachedTokens: known(0), ReasoningTokens: known(3)}}, "0 is known"},
	{"usage details null", usage(`"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}`), reading{Verdict: fine, HasUsage: true}, "WIRE 20: null is unknown, not 0"},
	{"usage details empty", usage(`"prompt_tokens_details":{}`), reading{Verdict: fine, HasUsage: true}, "WIRE 20: absent is unknown"},
	{"usage null", `{"usage":null}`, empty, "WIRE 16"},
	{"usage empty", `{"usage":{}}`, reading{Verdict: fine, HasUsage: true}, "there, and says nothing"},
	{"usage array", `{"usage":[]}`, wrongShape, "not usage"},
	{"usage float", usage(`"prompt_tokens":12.0,"completion_tokens":1.2e1,"total_tokens":0e5`), reading{Verdict: fine, HasUsage: true,
		Usage: chunk.Usage{PromptTokens: known(12), CompletionTokens: known(12), TotalTokens: known(0)}}, "whole numbers in other forms"},
	{"usage minus zero", usage(`"prompt_tokens":-0`), reading{Verdict: fine, HasUsage: true, Usage: chunk.Usage{PromptTokens: known(0)}}, "it is 0"},
	{"usage half", usage(`"prompt_tokens":1.5`), wrongShape, "no half tokens"},
	{"usage below 0", usage(`"prompt_tokens":-1`), wrongShape, "no negative counts"},
	{"usage text", usage(`"prompt_tokens":"9"`), wrongShape, "not a number"},
	{"usage overflow", usage(`"prompt_tokens":99999999999999999999`), wrongShape, "no such count"},
	{"usage infinite", usage(`"prompt_tokens":1e999`), wrongShape, "no such count"},
	{"usage details text", usage(`"prompt_tokens_details":"x"`), wrongShape, "not an object"},
	{"usage cached text", usage(`"prompt_tokens_details":{"cached_tokens":"1"}`), wrongShape, "not a number"},

	// Errors.
	{"error", `{"error":{"message":"m","type":"t","code":500,"param":null}}`, reading{Verdict: fine, HasError: true, ErrMessage: "m", ErrType: "t", ErrCode: "500", ErrRaw: `{"message":"m","type":"t","code":500,"param":null}`}, "WIRE 10: message and code kept"},
	{"error code text", `{"error":{"code":"c"}}`, reading{Verdict: fine, HasError: true, ErrCode: "c", ErrRaw: `{"code":"c"}`}, "a code may be a string"},
	{"error string", `{"error":"m"}`, reading{Verdict: fine, HasError: true, ErrMessage: "m", ErrRaw: `"m"`}, "TGI"},
	{"error null", `{"error":null}`, empty, "WIRE 10: null is not an error"},
	{"error false", `{"error":false}`, empty, "it says that there is none"},
	{"error empty string", `{"error":""}`, empty, "it says that there is none"},
	{"error true", `{"error":true}`, reading{Verdict: fine, HasError: true, ErrRaw: "true"}, "there is one, unnamed"},
	{"error empty object", `{"error":{}}`, reading{Verdict: fine, HasError: true, ErrRaw: "{}"}, "there is one, unnamed"},
	{"error array", `{"error":["m"]}`, reading{Verdict: fine, HasError: true, ErrRaw: `["m"]`}, "an odd shape is still an error"},
	{"error with odd members", `{"error":{"message":{"a":1},"type":null,"code":true}}`, reading{Verdict: fine, HasError: true, ErrRaw: `{"message":{"a":1},"type":null,"code":true}`}, "an odd shape is still an error"},
	{"error beside text", `{"choices":[{"delta":{"content":"a"}}],"error":{"message":"m"}}`, reading{Verdict: fine, HasChoice0: true, Content: "a", HasError: true, ErrMessage: "m", ErrRaw: `{"message":"m"}`}, "none hides another"},
	{"error null beside text", `{"choices":[{"delta":{"content":"a"}}],"error":null}`, text("a"), "stream 32"},
	{"error beside a wrong type", `{"choices":"none","error":"m"}`, reading{Verdict: fine, HasError: true, ErrMessage: "m", ErrRaw: `"m"`}, "the server's own word comes first"},
	{"flat error", `{"object":"error","message":"m","type":"t","param":null,"code":400}`, reading{Verdict: fine, HasError: true, ErrMessage: "m", ErrType: "t", ErrCode: "400", ErrRaw: `{"object":"error","message":"m","type":"t","param":null,"code":400}`}, "vLLM before it nested them"},
	{"flat and nested error", `{"object":"error","message":"a","error":{"message":"m"}}`, reading{Verdict: fine, HasError: true, ErrMessage: "m", ErrRaw: `{"message":"m"}`}, "the member error is the more exact"},
	{"message without an error", `{"object":"x","message":"m","type":"t","code":1}`, empty, "not known to be an error"},
	{"object twice", `{"object":"error","object":"x"}`, empty, "the last one counts"},

	// Timings.
	{"timings", `{"choices":[],"timings":{"prompt_ms":1.5, "x":[1]}}`, reading{Verdict: fine, Times: `{"prompt_ms":1.5, "x":[1]}`}, "llama.cpp, as it stands"},
	{"timings null", `{"timings":null}`, empty, "null is nothing"},
	{"timings array", `{"timings":[1]}`, empty, "not llama.cpp's"},

	// Syntax. What json.Valid says of these is compared too.
	{"cut", `{"choices":[{"delta":{"content":"a`, malformed, "WIRE 6: a partial event"},
	{"cut after a name", `{"choices"`, malformed, "no colon"},
	{"cut after a colon", `{"choices":`, malformed, "no value"},
	{"cut after a comma", `{"a":1,`, malformed, "no name"},
	{"comma before a brace", `{"a":1,}`, malformed, "JSON has no such comma"},
	{"comma before a bracket", `{"a":[1,]}`, malformed, "JSON has no such comma"},
	{"comma first", `{,"a":1}`, malformed, "no member before it"},
	{"comma first in an array", `{"a":[,1]}`, malformed, "no element before it"},
	{"no comma", `{"a":1 "b":2}`, malformed, "members need one"},
	{"no comma in an array", `{"a":[1 2]}`, malformed, "elements need one"},
	{"no quotes", `{a:1}`, malformed, "names need them"},
	{"single quotes", `{'a':1}`, malformed, "Python's repr is not JSON"},
	{"python literals", `{"a":None,"b":True}`, malformed, "nor are its names for them"},
	{"not a number", `{"a":NaN}`, malformed, "JSON has none"},
	{"leading zero", `{"a":01}`, malformed, "not a JSON number"},
	{"leading plus", `{"a":+1}`, malformed, "not a JSON number"},
	{"no digit after the point", `{"a":1.}`, malformed, "not a JSON number"},
	{"no digit before the point", `{"a":.1}`, malformed, "not a JSON number"},
	{"no digit in the exponent", `{"a":1e+}`, malformed, "not a JSON number"},
	{"minus alone", `{"a":-}`, malformed, "not a JSON number"},
	{"numbers", `{"a":[0,-0,1.5,-1e5,1E+10,0.1e-2,1234567890123456789012345]}`, empty, "all forms of a JSON number"},
	{"half a literal", `{"a":tru}`, malformed, "no such word"},
	{"comment", `{"a":1}//x`, malformed, "JSON has none"},
	{"nul", "{\"a\":1}\x00", malformed, "not white space"},
	{"form feed", "{\f}", malformed, "not JSON's white space"},
	{"brackets crossed", `{"a":[1}]`, malformed, "each closes its own"},
	{"a wrong type and bad syntax", `{"choices":1,`, malformed, "not JSON at all is the graver fault"},
}
